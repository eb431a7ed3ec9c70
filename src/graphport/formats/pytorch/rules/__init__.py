"""Targets of exported programs of PyTorch, and what binds a function's operands for PNNX too."""

from graphport.ops.declare import Dialect

RECORD = Dialect(records_facts=True, has_literals=True, decomposes=True)

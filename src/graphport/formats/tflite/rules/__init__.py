"""Operators of TFLite."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True, formulas="nnef", checks_operands=True, is_domain=True, rounds=True)

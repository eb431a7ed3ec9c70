"""Operators of TFLite."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True, formulas="nnef", is_domain=True, rounds=True)

"""Layers of ncnn."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True)

"""Older opsets of ONNX."""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)

"""Operators of training that ONNX tries out, `ai.onnx.preview.training`."""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)
DIALECT = "ai.onnx.preview.training"
JUDGED = 1
"""The last reviewed version of the domain."""

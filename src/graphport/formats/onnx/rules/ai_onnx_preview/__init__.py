"""Operators that ONNX tries out, `ai.onnx.preview`."""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)
DIALECT = "ai.onnx.preview"
JUDGED = 1
"""The last reviewed version of the domain."""

"""Classic models of ONNX, `ai.onnx.ml`: meanings without pages."""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)

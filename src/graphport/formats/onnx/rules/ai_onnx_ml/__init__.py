"""Classic models of ONNX, `ai.onnx.ml`: plain arithmetic as canonical operators, other operators unchanged."""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)

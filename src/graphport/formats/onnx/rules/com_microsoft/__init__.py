"""ONNX Runtime's own domain of ONNX, `com.microsoft`."""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)

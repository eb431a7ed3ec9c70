"""Operators of opsets after the supported one: new element types and new operators.

Rules declare the last reviewed opset (`until=JUDGED`), because later versions may differ.
"""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)
DIALECT = "onnx.future"
JUDGED = 28

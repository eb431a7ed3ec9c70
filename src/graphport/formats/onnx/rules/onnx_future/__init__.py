"""Operators of ONNX as opsets after the pinned one have them: of other element types, and new ones.

Rules name the last opset that has been read (`until=JUDGED`): what comes later may mean another thing.
"""

from graphport.ops.declare import Dialect

RECORD = Dialect(is_domain=True)
DIALECT = "onnx.future"
JUDGED = 28

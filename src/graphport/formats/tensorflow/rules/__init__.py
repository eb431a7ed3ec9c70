"""TensorFlow's operators in canonical operators."""

from graphport.ops.declare import Dialect

RECORD = Dialect()

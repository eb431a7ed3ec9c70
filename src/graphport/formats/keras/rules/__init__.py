"""Layers and operations of Keras in canonical operators."""

from graphport.ops.declare import Dialect

RECORD = Dialect()

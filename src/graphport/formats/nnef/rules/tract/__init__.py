"""Words of tract's flavour of NNEF."""

from graphport.ops.declare import Dialect

RECORD = Dialect(parent="nnef", asked_for="--flavour tract")

"""Operations of NNEF, as Khronos' text has them."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True)

"""Losses in tract's NNEF, which has no words for them."""

from graphport.ops.dialects.log_likelihood import register
from graphport.ops.dialects.tract.binding import DIALECT

register(DIALECT)

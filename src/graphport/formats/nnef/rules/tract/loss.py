"""Losses in tract's NNEF, which has no words for them."""

from graphport.formats.nnef.rules.tract.binding import DIALECT
from graphport.ops.decompositions.log_likelihood import register

register(DIALECT)

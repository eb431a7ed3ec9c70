"""Loss functions in tract's NNEF, from basic operators."""

from graphport.formats.nnef.rules.tract.binding import DIALECT
from graphport.ops.decompositions.log_likelihood import register

register(DIALECT)

"""Export rules of losses to ATen."""

from graphport.formats.pytorch.rules.emitting import DIALECT
from graphport.ops.decompositions import log_likelihood

log_likelihood.register(DIALECT)

"""Elements picked from a tensor, or put into one."""

from __future__ import annotations

from graphport.ops.definitions.indexing.gathering import Compress, Gather, GatherElements, GatherND
from graphport.ops.definitions.indexing.indices import NonZero, OneHot, Unique
from graphport.ops.definitions.indexing.regions import ReverseSequence, Trilu
from graphport.ops.definitions.indexing.scattering import ScatterElements, ScatterND
from graphport.ops.definitions.indexing.slicing import Slice

__all__ = [
    "Compress",
    "Gather",
    "GatherElements",
    "GatherND",
    "NonZero",
    "OneHot",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "Slice",
    "Trilu",
    "Unique",
]

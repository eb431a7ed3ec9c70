"""Elements picked from a tensor, or put into one."""

from __future__ import annotations

from graphport.ops.indexing.gathering import Compress, Gather, GatherElements, GatherND
from graphport.ops.indexing.places import NonZero, OneHot, Unique
from graphport.ops.indexing.regions import ReverseSequence, Trilu
from graphport.ops.indexing.scattering import ScatterElements, ScatterND
from graphport.ops.indexing.slicing import Slice

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

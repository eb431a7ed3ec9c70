"""NNEF 1.0 in both editions: texts, tensor files, folders and archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy import first_used
from graphport.formats.nnef.original import versions
from graphport.formats.nnef.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.nnef.reader import read
    from graphport.formats.nnef.writer import write

__all__ = ["read", "recognizes", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "read": "graphport.formats.nnef.reader",
        "write": "graphport.formats.nnef.writer",
    },
)

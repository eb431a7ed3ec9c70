"""Recognize Keras files by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\3\4"
_MEMBERS = (b"config.json", b"metadata.json", b"model.weights.h5")


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is HDF5, or a zip archive whose first member is one that Keras writes."""
    del path
    if head.startswith(HDF5):
        return True
    length = int.from_bytes(head[26:28], "little")
    return head.startswith(_ZIP) and head[30 : 30 + length] in _MEMBERS

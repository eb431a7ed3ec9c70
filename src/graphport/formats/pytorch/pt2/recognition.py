"""Telling an archive of PyTorch by the members that stand in front."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MEMBERS = (
    b"archive_format",
    b"archive_version",
    b"serialized_exported_program.json",
    b"models/",
    b"data/weights/",
    b"data/constants/",
    b"data/aotinductor/",
)
ENDING = ".pt2"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is a zip file whose first members are those of an exported program."""
    del path
    return head[:4] == b"PK\3\4" and b"/code/" not in head and any(member in head for member in _MEMBERS)

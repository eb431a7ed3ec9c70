"""Recognize exported programs of PyTorch by their first members."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MEMBERS = (
    b"archive_format",
    b"archive_version",
    b"serialized_exported_program.json",
    b"data/weights/",
    b"data/constants/",
    b"data/aotinductor/",
)
_PROGRAM = re.compile(rb"/models/[^/\0]+\.json")
"""The path of the program below the archive's common folder."""
ENDING = ".pt2"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is a zip file whose first members are those of an exported program."""
    del path
    if head[:4] != b"PK\3\4" or b"/code/" in head:
        return False
    return any(member in head for member in _MEMBERS) or _PROGRAM.search(head) is not None

"""Recognize ncnn files by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.ncnn.container.param import MAGIC

if TYPE_CHECKING:
    from pathlib import Path

TEXT, BINARY = ".param", ".param.bin"


def recognizes(path: Path, head: bytes) -> bool:
    """Whether `path`, which begins with `head`, is an ncnn file, text or binary; PNNX's op types contain `.` or `:`."""
    if head[:4] == MAGIC.to_bytes(4, "little"):
        return path.name.lower().endswith(BINARY)
    words = head.decode("utf-8", "replace").split(maxsplit=4)
    if not words or words[0] != str(MAGIC) or path.name.endswith(".pnnx.param"):
        return False
    first = words[3] if len(words) > 3 else ""
    return not ({".", ":"} & set(first))

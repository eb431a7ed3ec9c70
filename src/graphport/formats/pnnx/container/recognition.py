"""Recognize a PNNX text by its first operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.pnnx.container.param import MAGIC

if TYPE_CHECKING:
    from pathlib import Path


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is a `.param` text whose first op type has a namespace, which ncnn's have not."""
    words = head.decode("utf-8", "replace").split(maxsplit=4)
    if not words or words[0] != MAGIC or path.suffix.lower() == ".bin":
        return False
    first = words[3] if len(words) > 3 else ""
    return "." in first or "::" in first or path.name.endswith(".pnnx.param")

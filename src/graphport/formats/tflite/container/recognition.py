"""Recognize TFLite files by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file has the FlatBuffer file identifier of TFLite."""
    del path
    return head[4:8] == b"TFL3"

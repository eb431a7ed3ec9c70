"""Telling an IR by its first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is an IR: it is XML with a `net` in it; failing that, it is called `.xml`."""
    for mark in _MARKS:
        head = head.removeprefix(mark)
    text = head.replace(b"\0", b"").lstrip().lower()
    if text.startswith(b"<net") or (text.startswith(b"<") and b"<net" in text):
        return True
    return path.suffix.lower() == ".xml"

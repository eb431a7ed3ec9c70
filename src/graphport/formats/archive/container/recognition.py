"""Recognize archives, and files of PPQ, by their first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.archive.container.layout import HEAD, SIGNATURE, SIGNATURE_MEMBER

if TYPE_CHECKING:
    from pathlib import Path

_FOREIGN = b"PPQ GRAPH DEFINITION"
"""The identification of a PPQ file, the first of several pickled objects."""


def recognizes(path: Path, head: bytes) -> bool:
    """Whether `path`, which begins with `head`, is an archive, or a file of PPQ, for which `read` reports a remedy."""
    del path
    return is_signed(head) or is_foreign(head)


def is_signed(head: bytes) -> bool:
    """Whether a file that begins with `head` has the signature of an archive."""
    name, rest = head[HEAD : HEAD + len(SIGNATURE_MEMBER)], head[HEAD + len(SIGNATURE_MEMBER) :]
    return head[:4] == b"PK\3\4" and name == SIGNATURE_MEMBER.encode() and rest.startswith(SIGNATURE)


def is_foreign(head: bytes) -> bool:
    """Whether a file that begins with `head` is a file of PPQ."""
    return head[:1] in (b"\x80", b"V", b"S", b"U", b"X") and _FOREIGN in head[:256]

"""Recognition of NNEF models by folder content, first bytes, or name."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from graphport.formats.nnef.container.tar import BLOCK, is_tar

GRAPH = "graph.nnef"
TAR = (".tar",)
GZIPPED = (".tgz", ".tar.gz")
TEXT = (".nnef",)
GZIP = b"\x1f\x8b"


def recognizes(path: Path | str, head: bytes) -> bool:
    """Whether this is an NNEF model, by the folder's files or the file's first bytes, then by its name."""
    path = path if isinstance(path, Path) else Path(path)
    if not head and path.is_dir():
        return (path / GRAPH).is_file()
    name = path.name.lower()
    if head.startswith(GZIP):
        begin = _unpacked_head(head)
        return is_tar(begin) and (_is_member(begin) or name.endswith(GZIPPED))
    if is_tar(head):
        return _is_member(head) or name.endswith(TAR)
    return _VERSION.match(head) is not None or (name.endswith(TEXT) and b"\0" not in head)


_VERSION = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n\r\f]*[\n\r\f])*version\s+[0-9]+\.[0-9]+\b")
_MEMBER = re.compile(rb"(?:\./|[^/\0]+/)?(?:graph\.nnef|graph\.quant)\0|[^\0]+\.dat\0")


_AHEAD = re.compile(rb"[0-7 \0]{12}")
_NO_FILES = (b"x", b"g", b"L", b"K", b"5")
"""Types of tar entries that are not files: extended headers, which Python's `tarfile` writes for fractional times, and
folders, which `tar -C folder .` writes first."""


def _is_member(head: bytes) -> bool:
    """Whether the first file of an archive that begins with `head` belongs to a model."""
    while head[156:157] in _NO_FILES and _AHEAD.fullmatch(head, 124, 136):
        size = int(head[124:136].strip(b" \0") or b"0", 8)
        head = head[BLOCK + -(-size // BLOCK) * BLOCK :]
    return _MEMBER.match(head[:100] + b"\0") is not None


def _unpacked_head(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 8 * BLOCK)
    except zlib.error:
        return b""

"""Recognize StableHLO: MLIR text, MLIR bytecode, and flatbuffers of jax.export that contain bytecode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = (".mlir", ".mlir.bc", ".mlirbc", ".stablehlo", ".jaxexport")
MAGIC = b"ML\xefR"
_SPACE = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s+|//[^\n]*(?:\n|$))*")
_START = re.compile(
    rb"module\b(?:\s+@[\w.$-]+)?\s*(?:attributes\s*)?\{"
    rb"|module\s+@[\w.$-]+\b|func\.func\b|\"builtin\.module\"|#[\w.$-]+\s*=|![\w.$-]+\s*=|\{-#"
)
_DIALECTS = re.compile(rb"stablehlo|chlo\.|func\.func|\bvhlo")
_PLATFORMS = re.compile(rb"\x00(?:cpu|cuda|rocm|tpu)\x00")


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is one of StableHLO, by its first bytes."""
    del path
    if head.startswith(MAGIC):
        return True
    start = _SPACE.match(head)
    if start is not None and _START.match(head, start.end()):
        return True
    return is_export(head)


def is_export(head: bytes) -> bool:
    """Whether the first bytes are a flatbuffer of jax.export: a root table, and a module or the names of platforms."""
    root = int.from_bytes(head[:4], "little")
    if len(head) < 8 or root % 2 or not 4 <= root < len(head) - 4:
        return False
    table = root - int.from_bytes(head[root : root + 4], "little", signed=True)
    if not 4 <= table < root or table + 4 > len(head):
        return False
    return MAGIC in head or b"StableHLO_v" in head or _PLATFORMS.search(head) is not None

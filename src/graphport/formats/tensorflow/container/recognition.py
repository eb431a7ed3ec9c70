"""Recognize SavedModel folders and GraphDef files by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SAVED_MODEL = "saved_model.pb"
NEAR_MISSES = {
    "saved_model.pbtxt": "a SavedModel as text",
    "tfhub_module.pb": "a module of TensorFlow Hub 1",
    "checkpoint": "a checkpoint without a graph",
}
_NODE = 0x0A
_LENGTH_BYTES = 5


def recognizes(path: Path, head: bytes) -> bool:
    """Whether `path` is a SavedModel, a file of one, a GraphDef, or a folder that resembles a SavedModel."""
    if not head:
        return any((path / name).is_file() for name in (SAVED_MODEL, *NEAR_MISSES))
    return is_saved_model(head) or is_graph(head)


def is_saved_model(head: bytes) -> bool:
    """Whether bytes begin as a SavedModel message: field 1, the schema version 1, then a MetaGraphDef."""
    return head.startswith(b"\x08\x01\x12")


def is_graph(head: bytes) -> bool:
    """Whether bytes begin as a GraphDef: field 1, a NodeDef whose fields are a name and an operator name."""
    length, at = _length(head, 1) if head[:1] == bytes([_NODE]) else (0, 0)
    if length < 4 or head[at : at + 1] != b"\x0a":
        return False
    name, at = _length(head, at + 1)
    if not _is_printable(head[at : at + name]) or head[at + name : at + name + 1] != b"\x12":
        return False
    op_type, at = _length(head, at + name + 1)
    return op_type > 0 and _is_printable(head[at : at + op_type])


def _length(head: bytes, at: int) -> tuple[int, int]:
    """A varint of at most five bytes, and the offset after it."""
    number = 0
    for index in range(_LENGTH_BYTES):
        if at >= len(head):
            break
        number |= (head[at] & 0x7F) << 7 * index
        at += 1
        if head[at - 1] < 0x80:
            return number, at
    return 0, at


def _is_printable(text: bytes) -> bool:
    return bool(text) and all(0x20 < byte < 0x7F for byte in text)

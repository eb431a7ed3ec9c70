"""Recognize networks of Caffe and their weights by their first bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = ".caffemodel"
_NETWORK = re.compile(rb"(?:^|[\s}])(?:layers?\s*:?\s*\{|input\s*:\s*[\"'])")
_FIRST_FIELD = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n)*(\w+)\s*[:{]")
_FIELDS_OF_OTHERS = (b"node", b"ir_version", b"opset_import", b"versions", b"library", b"graph_def", b"meta_info_def")
"""First fields of GraphDef, MetaGraphDef and ModelProto, whose nodes have inputs, too."""


def recognizes(path: Path, head: bytes) -> bool:
    """Whether `path`, a file that begins with `head`, is a network or its weights."""
    if not head:
        return False  # a folder, or an empty file
    if b"\0" not in head and path.suffix != WEIGHTS:
        first = _FIRST_FIELD.match(head)
        is_other = first is not None and first[1] in _FIELDS_OF_OTHERS
        return not is_other and _NETWORK.search(head) is not None and _has_layer_fields(head)
    return _begins_as_weights(head)


def _has_layer_fields(head: bytes) -> bool:
    """Whether a text has fields of layers; `input` alone occurs in other messages."""
    return b"bottom" in head or b"top" in head or b"input_dim" in head or b"input_shape" in head or b"type" in head


def _begins_as_weights(head: bytes) -> bool:
    """Whether the first field is a printable name and the next field belongs to a network."""
    if len(head) < 4 or head[0] != 0x0A or head[1] >= 0x80:
        return False
    name, behind = head[2 : 2 + head[1]], head[2 + head[1] : 4 + head[1]]
    if _is_operator(head[2 + head[1] :]):
        return False
    known = (b"\xa2\x06", b"\x12", b"\x1a", b"\x22", b"\x20", b"\x28", b"\x32", b"\x42")
    return all(byte >= 0x20 for byte in name) and behind.startswith(known)


def _is_operator(data: bytes) -> bool:
    """Whether a network of Caffe2 continues with `data`: field 5 of its operators is a message, of layers a number."""
    found = re.match(rb"\x12[\x80-\xff]{0,3}[\0-\x7f]", data)
    place = len(data) if found is None else found.end()
    while place + 1 < len(data) and data[place] & 7 == 2 and data[place] != 0x2A:
        place += 2 + data[place + 1]
    return data[place : place + 1] == b"\x2a"

"""Recognize ONNX files by their first bytes: protobuf, and the encodings of `onnx.save` as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.formats.onnx.container import wire
from graphport.formats.onnx.container.wire import CorruptFileError

if TYPE_CHECKING:
    from pathlib import Path

_NEWEST_FORMAT = 1000
_WIRE_TYPES = {
    1: wire.VARINT,
    2: wire.LENGTH,
    3: wire.LENGTH,
    4: wire.LENGTH,
    5: wire.VARINT,
    6: wire.LENGTH,
    7: wire.LENGTH,
    8: wire.LENGTH,
    14: wire.LENGTH,
    20: wire.LENGTH,
    25: wire.LENGTH,
    26: wire.LENGTH,
}
"""Of the fields of a `ModelProto`."""
_TELLING = (7, 8)
"""`graph` and `opset_import`: other messages that begin with a small number have none of both."""
_SPACE = rb"(?:\xef\xbb\xbf)?(?:\s|#[^\n]*\n|//[^\n]*\n)*"
_ENCODINGS = {
    "textual syntax": re.compile(_SPACE + rb"<\s*(?:ir_version|opset_import)\s*:"),
    "text protobuf": re.compile(_SPACE + rb"(?:ir_version\s*:\s*\d+|opset_import\s*\{|producer_name\s*:\s*\")"),
    "JSON": re.compile(
        rb"(?:\xef\xbb\xbf)?\s*\{.*?\"(?:irVersion|ir_version|opsetImport|opset_import)\"\s*:", re.DOTALL
    ),
}
"""How files in other encodings than protobuf begin."""


def recognizes(path: Path, head: bytes) -> bool:
    """Whether a file is an ONNX model by its first fields, or else by the extension `.onnx`."""
    return _begins_as_model(memoryview(head)) or path.suffix.lower() == ".onnx"


def encoding(head: bytes) -> str | None:
    """The encoding of an ONNX file that is not protobuf, by its first bytes."""
    return next((name for name, begins in _ENCODINGS.items() if begins.match(head)), None)


def _begins_as_model(head: memoryview) -> bool:
    position, numbers = 0, set[int]()
    try:
        while position < len(head):
            tag, content = wire.varint(head, position, position)
            number = tag >> 3
            if _WIRE_TYPES.get(number) != tag & 7:
                return False
            if number == 1 and not 0 < wire.varint(head, content, position)[0] < _NEWEST_FORMAT:
                return False
            numbers.add(number)
            position = wire.skip(head, tag, content, position)
    except CorruptFileError:
        pass  # the head ends within a number
    return 1 in numbers and any(number in numbers for number in _TELLING)

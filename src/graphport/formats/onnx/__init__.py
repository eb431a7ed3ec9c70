"""ONNX: protobuf files and messages of every opset, with weights inside or beside.

A raw graph speaks `onnx.Conv` (see `domains`) at the versions in `graph.opsets`; what ONNX says besides is in notes
(see `notes`). The parts that need the package `onnx` are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.domains import keeps, versions
from graphport.formats.onnx.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.onnx.exchange import from_ir, to_ir
    from graphport.formats.onnx.functions import inline_functions
    from graphport.formats.onnx.reader import from_proto, read
    from graphport.formats.onnx.writer import to_proto, write

__all__ = [
    "from_ir",
    "from_proto",
    "inline_functions",
    "keeps",
    "read",
    "recognizes",
    "to_ir",
    "to_proto",
    "versions",
    "write",
]

_HOMES = {
    "from_ir": "exchange",
    "from_proto": "reader",
    "inline_functions": "functions",
    "read": "reader",
    "to_ir": "exchange",
    "to_proto": "writer",
    "write": "writer",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

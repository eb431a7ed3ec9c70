"""ONNX: protobuf files and messages of every opset, with embedded or external weights.

A raw graph has op types such as `onnx.Conv` (see `domains`) at the versions in `graph.opsets`; other content of the
file is in notes (see `notes`). Modules that need the package `onnx` are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import FINDINGS, Format, Hooks, deferred
from graphport.formats.onnx.container.domains import keeps, versions
from graphport.formats.onnx.container.recognition import encoding, recognizes

if TYPE_CHECKING:
    from graphport.formats.onnx.container.functions import inline_functions
    from graphport.formats.onnx.container.onnx_ir import from_ir, to_ir
    from graphport.formats.onnx.container.reader import from_proto, read
    from graphport.formats.onnx.container.writer import to_proto, write

__all__ = [
    "FORMAT",
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

__getattr__ = first_used(
    __name__,
    {
        "from_ir": "graphport.formats.onnx.container.onnx_ir",
        "from_proto": "graphport.formats.onnx.container.reader",
        "inline_functions": "graphport.formats.onnx.container.functions",
        "read": "graphport.formats.onnx.container.reader",
        "to_ir": "graphport.formats.onnx.container.onnx_ir",
        "to_proto": "graphport.formats.onnx.container.writer",
        "write": "graphport.formats.onnx.container.writer",
    },
)

FORMAT = Format(
    "onnx",
    "ONNX",
    (".onnx",),
    "",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=versions,
        write=deferred(__name__, "write"),
        keeps=keeps,
        encoding=encoding,
        decode=deferred("graphport.formats.onnx.container.text_encodings", "decode"),
    ),
    options=(FINDINGS,),
    choices=("external_data", "opset"),
    streamed=".onnx",
    has_metadata=True,
)

"""The project's file format, `.graphport`: a graph with weights and metadata, safe to open.

It is a zip archive whose members are uncompressed, so that weights can be memory-mapped:

    mimetype            application/x-graphport, the first member at a fixed offset: the signature
    manifest.json       version of the layout, sections and their members, dtypes and shapes of weights
    graph.txt           the graph, in the text form of `graphport.ir.text`
    weights/w0, …       elements of tensors in the text, each aligned to 64 bytes
    notes.json          notes of formats on values, nodes and the graph
    quantization.json   quantization settings and results
    dispatch.json       the device of each node
    provenance.json     source, version of the writer, and the result of the proof

The version is a major and a minor integer. A reader accepts files with its major version; a larger minor version is a
warning. A section marked as required must be supported, unknown optional sections are skipped with a warning. Every
member has a checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.archive.container.recognition import recognizes
from graphport.formats.contract import Format, Hooks, deferred
from graphport.ir.documents import NOTE, Documents, noted, provenance

if TYPE_CHECKING:
    from graphport.formats.archive.container.reader import keeps, read, versions
    from graphport.formats.archive.container.writer import write

__all__ = ["FORMAT", "NOTE", "Documents", "keeps", "noted", "provenance", "read", "recognizes", "versions", "write"]

__getattr__ = first_used(
    __name__,
    {
        "keeps": "graphport.formats.archive.container.reader",
        "read": "graphport.formats.archive.container.reader",
        "versions": "graphport.formats.archive.container.reader",
        "write": "graphport.formats.archive.container.writer",
    },
)

FORMAT = Format(
    "archive",
    "graphport archive",
    (".graphport",),
    "",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=deferred(__name__, "versions"),
        write=deferred(__name__, "write"),
        keeps=deferred(__name__, "keeps"),
    ),
    choices=("documents",),
    faithful_choices=("documents",),
    streamed=".graphport",
    packed_in=("zip",),
)

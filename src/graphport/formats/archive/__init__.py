"""The project's own file, `.graphport`: a graph with its weights and all that was found out about it, safe to open.

It is a zip archive whose members are stored as they are, so that weights are mapped and not read:

    mimetype            application/x-graphport, first and at a fixed place: the signature
    manifest.json       version of the layout, the sections and what holds them, element types and shapes of weights
    graph.txt           the graph, in the text form of `graphport.ir.text`
    weights/w0, …       numbers that the text refers to, each from a multiple of 64 bytes on
    notes.json          what formats have noted of values, nodes and the graph
    quantization.json   how it was quantized
    dispatch.json       where each node is computed
    provenance.json     what it was made from, by which version, and how that was checked

The version has two numbers. A reader takes a file whose first number is its own; a greater second one is a warning. A
section that is marked as required must be known, others are left out with a warning. Every member has a checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy import first_used
from graphport.formats.archive.container.documents import NOTE, Documents, noted, provenance
from graphport.formats.archive.container.recognition import recognizes
from graphport.formats.contract import Format, Hooks, deferred

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

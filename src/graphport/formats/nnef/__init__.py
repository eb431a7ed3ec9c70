"""NNEF 1.0 in both editions: texts, tensor files, folders and archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.lazy_imports import first_used
from graphport.formats.contract import Format, Hooks, deferred
from graphport.formats.nnef.container.original_text import has_facts, versions
from graphport.formats.nnef.container.recognition import recognizes

if TYPE_CHECKING:
    from graphport.formats.nnef.container.flavour_choice import choose_flavour
    from graphport.formats.nnef.container.packaging import model_folder, refuse_path
    from graphport.formats.nnef.container.reader import read
    from graphport.formats.nnef.container.writer import write
    from graphport.ir.graph import Graph

__all__ = [
    "FORMAT",
    "can_stay",
    "choose_flavour",
    "dialects_with",
    "has_facts",
    "model_folder",
    "read",
    "recognizes",
    "refuse_path",
    "versions",
    "write",
]

ASKING = ("flavour", "edition", "strict", "allow_fragments")
"""Options that select the target flavour or edition of the text."""

__getattr__ = first_used(
    __name__,
    {
        "model_folder": "graphport.formats.nnef.container.packaging",
        "refuse_path": "graphport.formats.nnef.container.packaging",
        "read": "graphport.formats.nnef.container.reader",
        "choose_flavour": "graphport.formats.nnef.container.flavour_choice",
        "write": "graphport.formats.nnef.container.writer",
    },
)


def can_stay(graph: Graph, **options: object) -> bool:
    """Whether the writer accepts a graph of the dialect `nnef` unchanged."""
    return options.get("flavour") != "tract" and all(node.dialect != "tract" for node in graph)


def dialects_with(**options: object) -> tuple[str, ...]:
    """Return the dialects that the writer accepts for these options."""
    if options.get("flavour") == "tract":
        return ("tract",)
    return ("nnef",) if any(options.get(name) is not None for name in ASKING) else ("nnef", "tract")


FORMAT = Format(
    "nnef",
    "NNEF 1.0",
    (".nnef", ".nnef.tgz", ".nnef.tar.gz", ".nnef.tar", ".tgz", ".tar.gz", ".tar"),
    "nnef",
    Hooks(
        recognize=recognizes,
        read=deferred(__name__, "read"),
        versions=versions,
        write=deferred(__name__, "write"),
        can_stay=can_stay,
        dialects_with=dialects_with,
        has_facts=has_facts,
        model_folder=deferred(__name__, "model_folder"),
        refuse_path=deferred(__name__, "refuse_path"),
        choose_flavour=deferred(__name__, "choose_flavour"),
    ),
    options=("edition", "shapes", "tolerant"),
    choices=("allow_fragments", "edition", "flatten", "flavour", "strict"),
    faithful_choices=("edition", "flatten", "strict"),
    streamed=".nnef.tgz",
    has_one_width=True,
    wide_flavour="tract",
    tells=True,
    packed_in=("tar", "gzip"),
)

"""The sides of a proof, and how their inputs correspond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.comparison.pairs import originals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.ir.graph import Graph
    from graphport.proof.runtimes import Runtime


@dataclass(frozen=True, eq=False)
class Side:
    """One of two files, or of two models in memory.

    `letter` is `a` or `b`; `graph` is the canonical graph that graphport read; without `path` there is no file, and so
    no runtime that reads it.
    """

    letter: str
    label: str
    graph: Graph
    path: Path | None = None
    runtime: Runtime | None = None
    size: int | None = None
    """Bytes of the files that it was read from, if it was."""
    format: str = ""
    """Name of its format; empty for a model in memory."""
    has_known_reader: bool = False
    """Whether the file is of no use if `runtime` rejects it."""


def paired(given: Mapping[str, Any], a: Graph, b: Graph) -> dict[str, Any]:
    """Entries by inputs of `a` as entries by inputs of `b`: paired by name, by original name, else by position."""
    known = {original: name for name, original in originals(b).items()}
    of_a, of_b = {value.name for value in a.inputs}, [value.name for value in b.inputs]
    free = [name for name in of_b if name not in of_a and name not in known.values()]
    found: dict[str, Any] = {}
    for name, entry in given.items():
        other = name if name in of_b else known.get(name)
        if other is None and free:
            other = free.pop(0)
        found[other or name] = entry
    return found

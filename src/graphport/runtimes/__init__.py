"""Interfaces of runtimes: the operations that native runtimes of formats provide to higher layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphport.core.diagnostics import Diagnostic
    from graphport.ir.graph import Graph

Export: TypeAlias = "Callable[[Graph, str], tuple[Graph, list[Diagnostic]]]"
"""Convert a canonical graph to a dialect; the diagnostics are the nodes that the dialect cannot express."""


class Session(Protocol):
    """A graph that a backend has made ready to run."""

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        """Outputs by name, in order; with `every_value`, before them every value that the graph itself computes.

        `inputs` has an array of the declared element type for each input of the graph.
        """
        ...


class Backend(NamedTuple):
    """A backend: its required package and its module."""

    package: str
    module: str
    least: str | None = None
    """The oldest version of the package that it takes."""
    is_automatic: bool = True
    """Whether `auto` may choose it."""
    is_expressive: bool = False
    """Whether it computes `graphport.Expression` nodes; otherwise they are lowered to canonical operators."""
    dialect: str | None = None
    """Its dialect: it computes operators of this dialect that have no canonical form."""
    keeps_memory: bool = False
    """Whether a session keeps its memory for the next run, unless `once` is set."""
    is_careful: bool = False
    """Whether it computes more precisely and slower than the runtime's default, unless `quick` is set."""
    most_threads: int | None = None
    """Maximum number of threads: unlimited if `None`; 0 if it cannot be set."""

"""Interfaces of runtimes: what a native runtime of a format offers to the layers above, which run models by it."""

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
    """A way to run graphs: the package that it needs and the module that speaks to it."""

    package: str
    module: str
    least: str | None = None
    """The oldest version of the package that it takes."""
    is_automatic: bool = True
    """Whether `auto` may choose it."""
    is_expressive: bool = False
    """Whether it computes `graphport.Expression` as it is; the others are given canonical operators instead."""
    dialect: str | None = None
    """The dialect that it is handed: words of it that have no canonical form it computes, and nobody else does."""
    keeps_memory: bool = False
    """Whether a session keeps the memory of a run for the next one, unless it is told that there is only one."""
    is_careful: bool = False
    """Whether it computes more exactly, and slower, than its runtime by itself, unless it is told to be quick."""
    most_threads: int | None = None
    """On how many threads it can be told to compute: any number if `None`; 0 where it cannot be told."""

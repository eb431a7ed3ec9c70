"""Backends: what computes a graph. Each imports its runtime inside its own module only."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from graphport.conversion.idle import without_idle
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph


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
    extra: str | None = None
    is_automatic: bool = True
    """Whether `auto` may choose it."""
    is_expressive: bool = False
    """Whether it computes `graphport.Expression` as it is; the others are given canonical operators instead."""


BACKENDS: dict[str, Backend] = {
    "onnxruntime": Backend("onnxruntime", "graphport.backends.onnxruntime"),
    "reference": Backend("numpy", "graphport.backends.reference", is_expressive=True),
    "fused": Backend("numpy", "graphport.backends.fused", is_automatic=False, is_expressive=True),
    "openvino": Backend("openvino", "graphport.backends.openvino", "openvino", is_automatic=False),
    "ncnn": Backend("ncnn", "graphport.backends.ncnn", "ncnn", is_automatic=False),
    "tract": Backend("tract", "graphport.backends.tract", "tract", is_automatic=False),
}
"""By name, in the order in which `auto` prefers them."""


def is_installed(name: str) -> bool:
    """Whether the package of backend `name` is there."""
    return find_spec(BACKENDS[name].package) is not None


def prepare(graph: Graph, backend: str = "auto") -> Session:
    """`graph` (canonical) ready to run; `auto` takes the first backend that is installed and loads it.

    Raises:
        DiagnosticError: RUN0001 unknown backend, RUN0002 its package is not installed, RUN0003 it cannot run an
            operator of the graph, RUN0004 weights are missing.
    """
    graph = without_idle(graph)
    missing = [value.name for inner in walk(graph) for value in inner.constants if value.storage is None]
    if missing:
        message = f"the numbers of {_listed(missing)} are not there"
        raise DiagnosticError(Diagnostic("RUN0004", message, None, "load the model with its weights"))
    if backend == "auto":
        return _first(graph)
    if backend not in BACKENDS:
        message = f"there is no backend {backend!r}"
        raise DiagnosticError(Diagnostic("RUN0001", message, None, f"backends: auto, {', '.join(BACKENDS)}"))
    if not is_installed(backend):
        extra = BACKENDS[backend].extra
        wanted = f"graphport[{extra}]" if extra else BACKENDS[backend].package
        message = f"backend {backend} needs the package {BACKENDS[backend].package}"
        raise DiagnosticError(Diagnostic("RUN0002", message, None, f"pip install {wanted}"))
    if not BACKENDS[backend].is_expressive:
        from graphport.passes.fuse_expressions import without_expressions

        graph = without_expressions(graph)
    return import_module(BACKENDS[backend].module).prepare(graph)


def _first(graph: Graph) -> Session:
    *others, last = [name for name, backend in BACKENDS.items() if backend.is_automatic and is_installed(name)]
    for name in others:
        try:
            return prepare(graph, name)
        except DiagnosticError as error:
            if any(finding.code != "RUN0003" for finding in error.diagnostics):
                raise
    return prepare(graph, last)


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

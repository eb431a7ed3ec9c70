"""Backends, which execute graphs. Each module imports its runtime lazily."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.names import find_similar
from graphport.core.packages import distribution, install, is_older, is_there
from graphport.core.progress import stage
from graphport.ir.graph import walk
from graphport.runtimes import Backend

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.runtimes import Session


BACKENDS: dict[str, Backend] = {
    "onnxruntime": Backend("onnxruntime", "graphport.formats.onnx.runtime", "1.20", keeps_memory=True, is_careful=True),
    "reference": Backend("numpy", "graphport.backends.reference", is_expressive=True, most_threads=0),
    "fused": Backend("numpy", "graphport.backends.fused", is_automatic=False, is_expressive=True),
    "openvino": Backend(
        "openvino", "graphport.formats.openvino.runtime", is_automatic=False, dialect="openvino", is_careful=True
    ),
    "ncnn": Backend("ncnn", "graphport.formats.ncnn.runtime", is_automatic=False, dialect="ncnn", is_careful=True),
    "litert": Backend(
        "ai_edge_litert",
        "graphport.formats.tflite.runtime",
        is_automatic=False,
        dialect="tflite",
        is_careful=True,
        most_threads=1,
    ),
    "tract": Backend("tract", "graphport.formats.nnef.runtime", is_automatic=False, dialect="nnef", most_threads=1),
}
"""Backends by name, in the order of preference of `auto`."""


def is_installed(name: str) -> bool:
    """Whether the package of backend `name` is installed in a supported version."""
    return is_there(BACKENDS[name].package) and not _is_too_old(BACKENDS[name])


def _is_too_old(backend: Backend) -> bool:
    found = None if backend.least is None else distribution(backend.package)
    return found is not None and is_older(found[1], backend.least or "")


def runs_dialect(dialect: str) -> bool:
    """Whether an installed backend computes operators of `dialect` that have no canonical form."""
    return any(backend.dialect == dialect and is_installed(name) for name, backend in BACKENDS.items())


def check_name(name: str) -> None:
    """Check that the name is `auto` or a backend.

    Raises:
        DiagnosticError: RUN0001.
    """
    known = ("auto", *BACKENDS)
    if name not in known:
        close = find_similar(name, known)
        remedy = f"did you mean {' or '.join(close)}?" if close else f"backends: {', '.join(known)}"
        raise DiagnosticError(Diagnostic("RUN0001", f"unknown backend {name!r}", None, remedy))


def prepare(
    graph: Graph, backend: str = "auto", *, threads: int = 0, once: bool = False, quick: bool = False
) -> Session:
    """Prepare a canonical `graph` for execution; `auto` uses the first backend of `preferred` that loads it.

    A session keeps the compiled graph; prepare it once for several runs.

    Args:
        graph: canonical; it may contain operators of the backend's dialect.
        backend: one of `BACKENDS`, or `auto`.
        threads: number of threads; the backend's default if 0. `auto` uses it if the backend supports it.
        once: whether the graph is run only once, so that memory is released afterwards.
        quick: whether to use the runtime's default settings, as needed for time measurements.

    Raises:
        DiagnosticError: RUN0001 unknown backend, RUN0002 its package is not installed, RUN0003 it does not support an
            operator of the graph, RUN0004 weights are missing, RUN0011 the number of threads cannot be set.
    """
    graph = remove_unused_constants(graph)
    missing = [value.name for inner in walk(graph) for value in inner.constants if value.storage is None]
    if missing:
        message = f"the weights {_listed(missing)} are missing"
        raise DiagnosticError(Diagnostic("RUN0004", message, None, "load the model with its weights"))
    if backend == "auto":
        return _prepare_preferred(graph, threads, once=once, quick=quick)
    check_name(backend)
    if not is_installed(backend):
        package, least = BACKENDS[backend].package, BACKENDS[backend].least
        message = f"backend {backend} requires the package {package}"
        if is_there(package) and (found := distribution(package)):
            message += f" {least} or newer, {found[0]} {found[1]} is installed"
        raise DiagnosticError(Diagnostic("RUN0002", message, None, install(package)))
    _check_threads(backend, threads)
    if not BACKENDS[backend].is_expressive:
        from graphport.passes.fuse_expressions import without_expressions

        graph = without_expressions(graph)
    _check_size(graph)
    known = BACKENDS[backend]
    module = import_module(known.module)
    options: dict[str, Any] = {} if known.most_threads is not None else {"threads": threads}
    options |= ({"once": once} if known.keeps_memory else {}) | ({"quick": quick} if known.is_careful else {})
    if known.dialect is not None:
        from graphport.conversion.export import export_graph

        options["export"] = export_graph
    with stage(f"{backend} loads {len(graph):,} nodes"):
        return module.prepare(graph, **options)


def _check_size(graph: Graph) -> None:
    """Refuse a graph that is too large for a run that its user did not ask for."""
    from graphport.runtimes.run_limits import current

    limits = current()
    if limits is not None:
        limits.check_size(graph, "the model")


def _check_threads(backend: str, threads: int) -> None:
    most = BACKENDS[backend].most_threads
    if threads in (0, most) or (most is None and threads > 0):
        return
    if threads < 0:
        message = f"invalid number of threads: {threads}"
        remedy = "pass 1 or more, or 0 for the backend's default"
    elif most:
        message = f"backend {backend} supports only one thread, not {threads}"
        remedy = "remove the number of threads"
    else:
        message = f"backend {backend} does not support a number of threads"
        remedy = "set OPENBLAS_NUM_THREADS or OMP_NUM_THREADS, which NumPy uses"
    raise DiagnosticError(Diagnostic("RUN0011", message, None, remedy))


def preferred(graph: Graph) -> list[str]:
    """Return the installed backends that `auto` tries, in order.

    First backends of dialects that occur in `graph`; then ONNX Runtime, and the reference interpreter, which computes
    every defined operator slowly. Other runtimes deviate in some operators and run only on request.
    """
    dialects = {node.dialect for inner in walk(graph) for node in inner}
    own = [name for name, backend in BACKENDS.items() if backend.dialect in dialects]
    others = [name for name, backend in BACKENDS.items() if backend.is_automatic]
    return [name for name in dict.fromkeys((*own, *others)) if is_installed(name)]


def _prepare_preferred(graph: Graph, threads: int, **flags: bool) -> Session:
    *others, last = preferred(graph)
    for name in others:
        try:
            return _prepared(graph, name, threads, **flags)
        except DiagnosticError as error:
            codes = {finding.code for finding in error.diagnostics}
            if codes != {"RUN0003"} and not (codes == {"ONNX0601"} and _is_interpreted(graph)):
                raise
    return _prepared(graph, last, threads, **flags)


def _is_interpreted(graph: Graph) -> bool:
    """Whether the reference interpreter computes all nodes that have no canonical form."""
    from graphport.ops import registry

    opaque = (node for inner in walk(graph) for node in inner if node.dialect)
    return all(registry.meaning(node) is not None for node in opaque)


def _prepared(graph: Graph, name: str, threads: int, **flags: bool) -> Session:
    return prepare(graph, name, threads=threads if BACKENDS[name].most_threads is None else 0, **flags)


def _listed(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

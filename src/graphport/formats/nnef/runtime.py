"""tract's CPU runtime, which loads the model from a standard NNEF folder.

tract runs in a separate process, because it aborts the process on internal errors.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.formats.nnef import write
from graphport.formats.nnef.container.original_text import NOTE
from graphport.runtimes.worker import RefusedError, Worker, bound, fixed, returned, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Graph, Value
    from graphport.runtimes import Export
    from graphport.runtimes.worker import Shapes

_SUPPORTED = {"f": DType.FLOAT32, "i": DType.INT64, "u": DType.INT64, "b": DType.BOOL}
_NARROWED = (DType.FLOAT64, DType.UINT64)
_NUMBERED = re.compile(r"^\d+: ")


def prepare(graph: Graph, *, export: Export) -> TractSession:
    """Load `graph`, immediately if every input has a shape, else when arrays are passed.

    Raises:
        DiagnosticError: RUN0003 if NNEF cannot represent the model, or with tract's message if it refuses it.
    """
    return TractSession(graph, export)


class TractSession:
    """Models loaded by tract: one per set of input shapes, with or without intermediate values."""

    def __init__(self, graph: Graph, export: Export) -> None:
        self._graph = graph
        self._export = export
        self._loaded: dict[tuple[tuple[tuple[int, ...], ...], bool], Worker] = {}
        wide = sorted({str(dtype) for value in graph.inputs if (dtype := value.dtype) in _NARROWED})
        if wide:
            message = f"tract supports float32 and int64 inputs in NNEF, but the model has inputs of {', '.join(wide)}"
            raise DiagnosticError(Diagnostic("RUN0003", message, None, "choose another backend"))
        shapes = fixed(graph)
        if shapes is not None:
            self._worker(shapes, every_value=False)

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        arrays = {value.name: np.asarray(inputs[value.name]) for value in self._graph.inputs}
        worker = self._worker({name: array.shape for name, array in arrays.items()}, every_value=every_value)
        answers = worker.run([_supported(array) for array in arrays.values()])
        values = returned(self._graph, every_value=every_value)
        return {value.name: _as_declared(array, value) for value, array in zip(values, answers, strict=True)}

    def _worker(self, shapes: Shapes, *, every_value: bool) -> Worker:
        key = tuple(shapes.values()), every_value
        if key not in self._loaded:
            self._loaded[key] = _loaded(_bound(self._graph, shapes, every_value=every_value), self._export)
        return self._loaded[key]


def _bound(graph: Graph, shapes: Shapes, *, every_value: bool) -> Graph:
    """Return a copy with these input shapes."""
    twin = bound(graph, shapes)
    twin.set_outputs(returned(twin, every_value=every_value))
    return twin


def _loaded(graph: Graph, export: Export) -> Worker:
    """Start a worker process with `graph` loaded in tract."""
    stated, findings = export(graph, "nnef")
    if findings:
        raise _unsupported(findings)
    # The original text may use features that tract does not support.
    stated.notes.pop(NOTE, None)
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model"
        try:
            write(stated, path, flavour="both")
        except DiagnosticError as error:
            raise _unsupported(error.diagnostics) from error
        return Worker("tract", __name__, [str(path)])


def _unsupported(findings: Sequence[Diagnostic]) -> DiagnosticError:
    reasons = "; ".join(finding.message for finding in findings)
    return DiagnosticError(
        Diagnostic(
            "RUN0003", f"the model cannot be written as NNEF for tract: {reasons}", None, "choose another backend"
        )
    )


def _supported(array: Any) -> Any:
    """Cast an array to the dtype that NNEF supports for its kind: float32, int64 or boolean."""
    kind = DType.of(array.dtype).kind
    return array.astype(_SUPPORTED[kind].numpy, copy=False) if kind in _SUPPORTED else array


def _as_declared(array: Any, value: Value) -> Any:
    dtype = value.dtype
    return array if dtype is None else array.astype(dtype.numpy, copy=False)


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _load(path: str) -> Callable[[list[Any]], Sequence[Any]]:
    """Return a function that computes the outputs of the model at `path`."""
    import tract

    runtime: Any = tract  # it has no types
    try:
        model = runtime.nnef().load(path).into_runnable()
    except Exception as error:
        raise RefusedError(_innermost_message(error)) from error

    def compute(arrays: list[Any]) -> list[Any]:
        try:
            return [tensor.to_numpy() for tensor in model.run(arrays)]
        except Exception as error:
            raise RefusedError(_innermost_message(error)) from error

    return compute


def _innermost_message(error: Exception) -> str:
    """The innermost reason that tract gives."""
    lines = [line.strip() for line in str(error).partition("Stack backtrace")[0].splitlines()]
    reasons = [_NUMBERED.sub("", line) for line in lines if line and line != "Caused by:"]
    return reasons[-1] if reasons else type(error).__name__


if __name__ == "__main__":
    serve(_load)

"""tract on the processor, which is handed the model as an NNEF folder that says nothing beyond the standard."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.conversion.lift import lift
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef import write
from graphport.ir import rewrite
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Value

    Shapes = tuple[tuple[int, ...], ...]

_SPOKEN = {"f": DType.FLOAT32, "i": DType.INT64, "u": DType.INT64, "b": DType.BOOL}
_NUMBER = re.compile(r"^\d+: ")
_NARROWED = (DType.FLOAT64, DType.UINT64)


def prepare(graph: Graph) -> TractSession:
    """A session on `graph`, which is loaded at once if every input has a shape, else when it is given arrays.

    Raises:
        DiagnosticError: RUN0003 with what NNEF cannot say, or with tract's words where it does not load the model.
    """
    return TractSession(graph)


class TractSession:
    """The models that tract has made of a graph: one for each choice of lengths, with all values returned or not."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._loaded: dict[tuple[Shapes, bool], Any] = {}
        wide = sorted({str(dtype) for value in graph.inputs if (dtype := _dtype(value)) in _NARROWED})
        if wide:
            message = (
                f"tract computes NNEF's numbers, which are float32 and int64: there are inputs of {', '.join(wide)}"
            )
            raise DiagnosticError(Diagnostic("RUN0003", message, None, "choose another backend"))
        if all(isinstance(value.fact, TensorFact) and value.fact.is_static for value in graph.inputs):
            self._model(None, every_value=False)

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        arrays = {value.name: np.asarray(inputs[value.name]) for value in self._graph.inputs}
        model = self._model({name: array.shape for name, array in arrays.items()}, every_value=every_value)
        given = [_spoken(arrays[value.name]) for value in self._graph.inputs]
        try:
            answers = [tensor.to_numpy() for tensor in model.run(given)]
        except Exception as error:
            raise DiagnosticError(Diagnostic("RUN0005", f"tract: {_words(error)}")) from error
        values = _returned(self._graph, every_value=every_value)
        return {value.name: _as_declared(array, value) for value, array in zip(values, answers, strict=True)}

    def _model(self, shapes: Mapping[str, tuple[int, ...]] | None, *, every_value: bool) -> Any:
        if shapes is None:
            facts = [value.fact for value in self._graph.inputs]
            shapes = {
                value.name: tuple(dim for dim in fact.dims if isinstance(dim, int))
                for value, fact in zip(self._graph.inputs, facts, strict=True)
                if isinstance(fact, TensorFact)
            }
        key = tuple(shapes.values()), every_value
        if key not in self._loaded:
            self._loaded[key] = _loaded(_bound(self._graph, shapes, every_value=every_value))
        return self._loaded[key]


def _dtype(value: Value) -> DType | None:
    return value.fact.dtype if isinstance(value.fact, TensorFact) else None


def _returned(graph: Graph, *, every_value: bool) -> list[Value]:
    """The outputs, each once, and with `every_value` all else that is computed."""
    computed = [value for node in graph for value in node.results] if every_value else []
    return list(dict.fromkeys([*graph.outputs, *computed]))


def _bound(graph: Graph, shapes: Mapping[str, tuple[int, ...]], *, every_value: bool) -> Graph:
    """A copy for inputs of these shapes."""
    twin = rewrite.copy(graph)
    bind_inputs(twin, shapes)
    Inference().graph(twin)
    twin.set_outputs(_returned(twin, every_value=every_value))
    return twin


def _loaded(graph: Graph) -> Any:
    import tract

    said, findings = lift(graph, "nnef")
    if findings:
        reasons = "; ".join(finding.message for finding in findings)
        raise DiagnosticError(Diagnostic("RUN0003", f"tract is handed NNEF: {reasons}", None, "unsupported operators"))
    runtime: Any = tract  # it has no types
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model"
        try:
            write(said, path)
        except DiagnosticError as error:
            reasons = "; ".join(finding.message for finding in error.diagnostics)
            raise DiagnosticError(Diagnostic("RUN0003", f"tract is handed NNEF: {reasons}")) from error
        try:
            return runtime.nnef().load(path).into_runnable()
        except Exception as error:
            message = f"tract does not load the model: {_words(error)}"
            raise DiagnosticError(Diagnostic("RUN0003", message)) from error


def _spoken(array: Any) -> Any:
    """An array of one of the three element types that NNEF's tensors have."""
    kind = DType.of(array.dtype).kind
    return np.ascontiguousarray(array.astype(_SPOKEN[kind].numpy, copy=False)) if kind in _SPOKEN else array


def _as_declared(array: Any, value: Value) -> Any:
    dtype = _dtype(value)
    return array if dtype is None else array.astype(dtype.numpy, copy=False)


def _words(error: Exception) -> str:
    """The innermost reason that tract gives."""
    lines = [line.strip() for line in str(error).partition("Stack backtrace")[0].splitlines()]
    reasons = [_NUMBER.sub("", line) for line in lines if line and line != "Caused by:"]
    return reasons[-1] if reasons else type(error).__name__

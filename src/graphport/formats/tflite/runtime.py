"""LiteRT on the CPU, which receives the model as a TFLite file.

LiteRT runs in a separate process: some of its kernels abort the process.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.formats.tflite import write
from graphport.formats.tflite.container.notes import TENSOR
from graphport.ir import rewrite
from graphport.ir.states import unmark
from graphport.runtimes.worker import RefusedError, Worker, returned, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Graph
    from graphport.runtimes import Export


_QUICK = "quick"


def prepare(graph: Graph, *, export: Export, quick: bool = False) -> LiteRTSession:
    """Create a session for `graph`, which is loaded at once.

    It uses LiteRT's builtin kernels; with `quick` XNNPACK's, which are LiteRT's default.

    Raises:
        DiagnosticError: RUN0003 TFLite cannot express the graph, or LiteRT rejects the model.
    """
    return LiteRTSession(graph, export, quick=quick)


class LiteRTSession:
    """LiteRT models of a graph: with the graph's outputs, and with all values as outputs."""

    def __init__(self, graph: Graph, export: Export, *, quick: bool = False) -> None:
        self._graph = graph
        self._export = export
        self._quick = quick
        self._loaded = {False: _loaded(graph, export, every_value=False, quick=quick)}

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        if every_value not in self._loaded:
            self._loaded[every_value] = _loaded(self._graph, self._export, every_value=every_value, quick=self._quick)
        given = [np.asarray(inputs[value.name]) for value in self._graph.inputs]
        values = returned(self._graph, every_value=every_value)
        return {value.name: array for value, array in zip(values, self._loaded[every_value].run(given), strict=True)}


def _loaded(graph: Graph, export: Export, *, every_value: bool, quick: bool) -> Worker:
    """Load `graph` into LiteRT."""
    twin = rewrite.copy(graph)
    twin.set_outputs(returned(twin, every_value=every_value))
    for value in twin.inputs:
        # States are graph inputs and outputs here.
        if value.has_notes:
            value.notes.pop(TENSOR, None)
            unmark(value)
    stated, findings = export(twin, "tflite")
    if findings:
        raise _unsupported(findings)
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model.tflite"
        try:
            write(stated, path)
        except DiagnosticError as error:
            raise _unsupported(error.diagnostics) from error
        return Worker("LiteRT", __name__, [str(path), *([_QUICK] if quick else [])])


def _unsupported(findings: Sequence[Diagnostic]) -> DiagnosticError:
    reasons = "; ".join(finding.message for finding in findings)
    return DiagnosticError(
        Diagnostic("RUN0003", f"LiteRT requires a TFLite file: {reasons}", None, "choose another backend")
    )


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _load(path: str, *modes: str) -> Callable[[list[Any]], Sequence[Any]]:
    """Load the model at `path`; with LiteRT's default kernels if `modes` request them."""
    from ai_edge_litert import interpreter

    runtime: Any = interpreter  # it has no types
    try:
        kinds = runtime.OpResolverType
        kernels = kinds.AUTO if _QUICK in modes else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        model = runtime.Interpreter(model_content=Path(path).read_bytes(), experimental_op_resolver_type=kernels)
    except Exception as error:
        raise RefusedError(_error_text(error)) from error

    def compute(arrays: list[Any]) -> list[Any]:
        try:
            for port, array in zip(model.get_input_details(), arrays, strict=True):
                if tuple(port["shape"]) != array.shape:
                    model.resize_tensor_input(port["index"], array.shape)
            model.allocate_tensors()
            for port, array in zip(model.get_input_details(), arrays, strict=True):
                model.set_tensor(port["index"], array)
            model.invoke()
            return [_read_result(model, port) for port in model.get_output_details()]
        except Exception as error:
            raise RefusedError(_error_text(error)) from error

    return compute


def _read_result(model: Any, port: Mapping[str, Any]) -> Any:
    """Return a result; LiteRT returns no array for zero-size results."""
    if not all(port["shape"]):
        return np.zeros(port["shape"], port["dtype"])
    return np.array(model.get_tensor(port["index"]))


def _error_text(error: Exception) -> str:
    return str(error).strip().replace("\n", " ")[:500] or type(error).__name__


if __name__ == "__main__":
    serve(_load)

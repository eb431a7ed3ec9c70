"""ncnn on the CPU, which receives the model as ncnn files.

Blobs have no batch axis: the samples of a batch are run one after another. ncnn runs in a separate process: it aborts
the process on unexpected data.
"""

from __future__ import annotations

from functools import partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import TensorFact
from graphport.formats.ncnn import write
from graphport.formats.ncnn.rules.annotations import annotation_parameters, missing_axis, shape_of
from graphport.ir import rewrite
from graphport.ops.batch_coupling import first_batch_coupling
from graphport.runtimes.worker import RefusedError, Worker, bound, fixed, returned, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.ir.graph import Graph, Value
    from graphport.runtimes import Export
    from graphport.runtimes.worker import Shapes

_NARROW = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage")
"""Reduced-precision options that ncnn enables by default; integers are used only if the model contains them."""
_QUICK, _CAREFUL = "quick", "careful"


def prepare(graph: Graph, *, export: Export, threads: int = 0, quick: bool = False) -> NcnnSession:
    """Create a session for `graph`, which is loaded at once if every input has a static shape, else at the first run.

    It runs on `threads` threads, by default one, in float32; with `quick` in ncnn's default precision, also for timing.

    Raises:
        DiagnosticError: RUN0003 ncnn cannot express the graph, or rejects the model.
    """
    return NcnnSession(graph, export, threads=threads, quick=quick)


class NcnnSession:
    """ncnn models of a graph: one for each set of input shapes."""

    def __init__(self, graph: Graph, export: Export, *, threads: int = 0, quick: bool = False) -> None:
        self._graph = graph
        self._export = export
        self._threads = threads
        self._quick = quick
        self._loaded: dict[tuple[tuple[tuple[int, ...], ...], bool], _Loaded] = {}
        self._parted: set[tuple[tuple[int, ...], ...]] = set()
        shapes = fixed(graph)
        if shapes is not None:
            self._model(shapes, every_value=False)

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        arrays = {value.name: np.asarray(inputs[value.name]) for value in self._graph.inputs}
        model, count = self._model({name: array.shape for name, array in arrays.items()}, every_value=every_value)
        rows = [model.run([_blob(array, item, count) for array in arrays.values()]) for item in range(count)]
        return {
            value.name: _joined([row[index] for row in rows], value, model.stated[value.name])
            for index, value in enumerate(model.values)
        }

    def _model(self, shapes: Shapes, *, every_value: bool) -> tuple[_Loaded, int]:
        """Return a model for input shapes, and the number of runs: one, or one for each sample of a batch.

        Raises:
            DiagnosticError: RUN0003 ncnn cannot express the model, RUN0005 the inputs have different batch sizes.
        """
        items = sorted({shape[0] if shape else 1 for shape in shapes.values()})
        if items in ([], [1]):
            return self._load_once(shapes, lambda: _bind_shapes(self._graph, shapes), every_value=every_value), 1
        key = tuple(shapes.values())
        if key not in self._parted:
            try:
                # Inputs without a batch axis, and batches that no layer depends on, are blobs with all axes.
                return self._load_once(shapes, lambda: _bind_shapes(self._graph, shapes), every_value=every_value), 1
            except DiagnosticError as error:
                if len(items) > 1:
                    message = f"the inputs have batches of {', '.join(map(str, items))}"
                    remedy = "use the same batch size, on the first axis, for all inputs"
                    raise DiagnosticError(Diagnostic("RUN0005", message, None, remedy)) from error
                self._parted.add(key)
        ones = {name: (1, *shape[1:]) for name, shape in shapes.items()}
        return self._load_once(
            ones, lambda: _bind_batch_of_one(self._graph, shapes, ones), every_value=every_value
        ), items[0]

    def _load_once(self, shapes: Shapes, made: Callable[[], Graph], *, every_value: bool) -> _Loaded:
        key = tuple(shapes.values()), every_value
        found = self._loaded.get(key)
        if found is None:
            found = self._loaded[key] = _Loaded(
                made(), self._export, self._threads, every_value=every_value, quick=self._quick
            )
        return found


def _blob(array: Any, item: int, count: int) -> Any:
    """Return sample `item` of a batch of `count`; a single sample without a batch axis of 1 is the whole array."""
    return array if count == 1 and array.shape[:1] != (1,) else array[item]


def _bind_shapes(graph: Graph, shapes: Shapes) -> Graph:
    if any(node.dialect for node in graph):
        return graph  # a noncanonical op type is reported by name, regardless of shapes
    return bound(graph, shapes)


def _bind_batch_of_one(graph: Graph, shapes: Shapes, ones: Shapes) -> Graph:
    """Return a copy for batch 1, if all values of a larger batch scale with it and samples are independent.

    Raises:
        DiagnosticError: RUN0003 the samples are not independent.
    """
    if any(node.dialect for node in graph):
        return graph
    whole, twin = bound(graph, shapes), rewrite.copy(graph)
    for value in twin.inputs:
        if isinstance(value.fact, TensorFact) and value.fact.shape:
            value.fact = value.fact.with_shape((1, *value.fact.shape[1:]))
    (batch,) = {shape[0] for shape in shapes.values() if shape}
    message = "the graph mixes the samples of a batch, and ncnn computes one sample at a time"
    refusal = DiagnosticError(Diagnostic("RUN0003", message, None, "choose another backend"))
    try:
        twin = bound(twin, ones)
    except DiagnosticError as error:
        raise refusal from error
    if not _is_itemwise(whole, twin, batch) or first_batch_coupling(whole, twin) is not None:
        raise refusal
    return twin


def _is_itemwise(graph: Graph, twin: Graph, batch: int) -> bool:
    """Whether each value that depends on an input has `batch` times the elements of its counterpart in `twin`."""
    reached = {value.name for value in graph.inputs}
    for node, other in zip(graph, twin, strict=True):
        if not any(value.name in reached for value in node.operands):
            continue
        for whole, one in zip(node.results, other.results, strict=True):
            sizes = _size(whole), _size(one)
            if not _is_length(whole):
                reached.add(whole.name)
                if None in sizes or sizes[0] != batch * (sizes[1] or 0):
                    return False
    return True


def _size(value: Value) -> int | None:
    fact = value.fact
    dims = [dim for dim in fact.shape or () if isinstance(dim, int)] if isinstance(fact, TensorFact) else []
    known = isinstance(fact, TensorFact) and fact.shape is not None and len(dims) == len(fact.shape)
    return prod(dims) if known else None


def _is_length(value: Value) -> bool:
    return isinstance(value.fact, TensorFact) and value.fact.elements is not None


def _joined(blobs: Sequence[Any], value: Value, declared: Mapping[str, Any]) -> Any:
    """Concatenate the results of all samples along the batch axis; return them in the declared type and rank.

    Raises:
        DiagnosticError: RUN0005 there are several samples, and the result has no batch axis.
    """
    fact = value.fact
    dims = [dim for dim in fact.shape or () if isinstance(dim, int)] if isinstance(fact, TensorFact) else []
    is_known = isinstance(fact, TensorFact) and fact.shape is not None and len(dims) == len(fact.shape)
    place = missing_axis(declared)
    items = [np.asarray(blob).reshape(dims if is_known else shape_of(declared, np.shape(blob))) for blob in blobs]
    if len(items) > 1 and not 0 <= place < items[0].ndim:
        message = f"{value.name} has no batch axis, and ncnn computes one sample at a time"
        raise DiagnosticError(Diagnostic("RUN0005", message, None, "choose another backend"))
    found = items[0] if len(items) == 1 else np.concatenate(items, axis=place)
    dtype = fact.dtype if isinstance(fact, TensorFact) else None
    return found if dtype is None else found.astype(dtype.numpy, copy=False)


class _Loaded:
    """A process with one model in ncnn, and its results. It ends when no session refers to it."""

    def __init__(self, graph: Graph, export: Export, threads: int, *, every_value: bool, quick: bool) -> None:
        self.values = returned(graph, every_value=every_value)
        exported, findings = export(graph, "ncnn")
        if findings:
            raise _unsupported(findings)
        self.stated = {value.name: _annotations_of(value) for value in exported.values()}
        self.values = [value for value in self.values if value.name in self.stated]
        with TemporaryDirectory(prefix="graphport-") as folder:
            path = Path(folder) / "model.param"
            try:
                write(exported, path)
            except DiagnosticError as error:
                raise _unsupported(error.diagnostics) from error
            names = [*(value.name for value in graph.inputs), "--", *(value.name for value in self.values)]
            self._worker = Worker(
                "ncnn", __name__, [str(path), str(threads or 1), _QUICK if quick else _CAREFUL, *names]
            )

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the blobs of one sample.

        Raises:
            DiagnosticError: RUN0005 with ncnn's message.
        """
        return self._worker.run([_supported(array) for array in arrays])


def _annotations_of(value: Value) -> Mapping[str, Any]:
    """Return the information about a value that its blob lacks, from the layer after it."""
    maker = value.producer
    own = {} if maker is None or maker.op_type != "Noop" else maker.attributes
    return own or annotation_parameters(value)


def _unsupported(findings: Sequence[Diagnostic]) -> DiagnosticError:
    reasons = "; ".join(finding.message for finding in findings)
    return DiagnosticError(Diagnostic("RUN0003", reasons, None, "choose another backend"))


def _supported(array: Any) -> Any:
    """Convert an array to an element type of blobs: float, or integer indices."""
    found = np.ascontiguousarray(array, np.int32 if array.dtype.kind in "iub" else np.float32)
    return found.reshape(array.shape or (1,))


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _load(path: str, threads: str, way: str, *names: str) -> Callable[[list[Any]], Sequence[Any]]:
    """Load the model at `path`; output names follow `--`, input names precede it."""
    import ncnn

    runtime: Any = ncnn  # it has no types
    net = runtime.Net()
    net.opt.num_threads = int(threads)
    net.opt.lightmode = way == _QUICK
    for option in _NARROW if way == _CAREFUL else ():
        setattr(net.opt, option, False)
    if net.load_param(path) or net.load_model(path.removesuffix("param") + "bin"):
        message = "ncnn cannot load the model: a layer type is unknown to it, or a weight is missing"
        raise RefusedError(message)
    middle = names.index("--")
    return partial(_computed, runtime, net, names[:middle], names[middle + 1 :])


def _computed(runtime: Any, net: Any, inputs: Sequence[str], outputs: Sequence[str], arrays: list[Any]) -> list[Any]:
    extractor = net.create_extractor()
    # A blob of an array lacks the channel padding that layers expect; its copy has it.
    blobs = [runtime.Mat(array).clone() for array in arrays]
    for name, blob in zip(inputs, blobs, strict=True):
        extractor.input(name, blob)
    found: list[Any] = []
    for name in outputs:
        failed, blob = extractor.extract(name)
        if failed:
            message = f"ncnn does not compute {name}"
            raise RefusedError(message)
        found.append(np.array(blob))
    return found


if __name__ == "__main__":
    serve(_load)

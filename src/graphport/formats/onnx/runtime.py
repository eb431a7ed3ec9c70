"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType, is_numpy_own
from graphport.core.facts import SequenceFact, TensorFact
from graphport.core.packages import disable_telemetry, distribution, is_older
from graphport.core.storage import ArrayStorage, pack, unpack
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.ops.constant_folding import folded
from graphport.runtimes.custom_libraries import register_libraries
from graphport.runtimes.error_attribution import blamed, fault
from graphport.runtimes.run_limits import RunLimitError, current

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value

IN_MEMORY = 1 << 26
"""Models with more bytes of weights are passed as a file with external weights, which ONNX Runtime maps: a serialized
message in memory is stored three times and takes three times as long.
"""
_MOST_IN_MEMORY = 1 << 30
"""Up to so many are handed over in memory where no file can be written: protobuf ends at 2 GiB."""

_MANY = 2_000
"""Nodes from which on expressions that occur twice are not looked for."""
_QUADRATIC = ("CommonSubexpressionElimination",)
"""Optimizers that compare nodes pairwise if their operands have equal hashes, as in `Add(a, a)`: 25 s for 20,000 nodes.
Without them the same expression may be computed twice.
"""
_FATAL = ("MatmulTransposeFusion",)
"""Optimizers that crash (SIGSEGV in 1.31.1) if the operand of a product with float16 weights has its first two axes
transposed. Without them the transpose runs.
"""
_TAKEN_FOR_NONE = ("Pad_Fusion",)
"""Optimizers that fuse zero padding into a MaxPool as padding that is never selected (1.31.1; not 1.32), as in
TensorFlow layers ported to PyTorch: wrong if all elements of a window are negative.
"""
_ROUNDING = ("WeightBiasQuantization",)
"""Optimizers that quantize float weights per tensor to 8 bits if surrounding activations are quantized: errors of 5 %
of a result and more.
"""

_NAMED = (
    re.compile(r"\bnode\. Name:'([^']+)'"),
    re.compile(r"\bin node \(([^()]+)\)"),
    re.compile(r"\bNode \(([^()]+)\) Op \("),
    re.compile(r"\bNode:\s?(\S+)"),
    re.compile(r"\bwith name '([^']+)'"),
)
"""Where it names the node that it complains of."""
_TOO_NEW = re.compile(r"max supported IR version: (?P<format>\d+)|is till opset (?P<opset>\d+)")
_SORTS_NOTHING = "1.31"
"""Before this version TopK of an empty tensor crashes (SIGFPE in 1.23 and 1.30)."""
_TWICE = "Attempt to replace the existing tensor"
_KERNEL = "_kernel_time"
_BYTE = 8
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")


class _Options(NamedTuple):
    """Options of `prepare`."""

    optimize: bool = True
    threads: int = 0
    once: bool = False
    quick: bool = False
    spins: bool = True


def prepare(
    graph: Graph,
    *,
    optimize: bool = True,
    threads: int = 0,
    once: bool = False,
    quick: bool = False,
    spins: bool = True,
) -> OnnxRuntimeSession:
    """Create a session for `graph`; without `optimize` nodes are not fused.

    It uses `threads` threads, by default ONNX Runtime's choice. With `once` memory is released after the run. Unless
    `quick` (the default settings, used to measure time), integer products are exact on every processor, and all
    rounding follows the model. Idle threads spin by default (`spins`), except after a model that is run `once`.

    Raises:
        DiagnosticError: RUN0003 with ONNX Runtime's message, if it refuses the model.
    """
    return OnnxRuntimeSession(graph, _Options(optimize, threads, once, quick, spins))


class OnnxRuntimeSession:
    """An inference session, and on demand a second one that returns every value."""

    def __init__(self, graph: Graph, options: _Options) -> None:
        self._graph = graph
        self._options = options
        self._session = _session(graph, (), options)
        self._observed: Any = None

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        session, order = self._session, [value.name for value in self._graph.outputs]
        if every_value:
            computed = [value.name for node in self._graph for value in node.results]
            session = self._observed = self._observed or _session(self._graph, computed, self._options)
            order = [*computed, *order]
        wanted = [value.name for value in self._graph.inputs]
        names = [output.name for output in session.get_outputs()]
        if any(isinstance(inputs[name], np.ndarray) and not inputs[name].size for name in wanted):
            _refuse_to_sort_nothing(self._graph)
        try:
            with _limited() as options:
                if all(_is_numpy(inputs[name]) for name in wanted) and _plain_outputs(session):
                    answers = session.run(names, {name: inputs[name] for name in wanted}, options)
                else:
                    given = {name: _ort_value(inputs[name]) for name in wanted}
                    answers = [_array(value) for value in session.run_with_ort_values(names, given, options)]
        except RunLimitError:
            raise
        except Exception as error:
            raise _fault("RUN0005", "ONNX Runtime", error, self._graph) from error
        found = dict(zip(names, answers, strict=True))
        return {name: found[name] for name in order}


@contextmanager
def _limited() -> Generator[Any]:
    """Yield run options that terminate the run at the limits of `run_limits.current`; `None` without limits."""
    limits = current()
    if limits is None:
        yield None
        return
    import onnxruntime

    runtime: Any = onnxruntime  # it has no types
    options = runtime.RunOptions()
    with limits.watching("ONNX Runtime", lambda: setattr(options, "terminate", True)):
        yield options


def _refuse_to_sort_nothing(graph: Graph) -> None:
    found = distribution("onnxruntime")
    if found is None or not is_older(found[1], _SORTS_NOTHING):
        return
    sorting = next((node for inner in walk(graph) for node in inner if node.op == "TopK"), None)
    if sorting is not None:
        message = f"{found[0]} {found[1]} may crash at TopK {sorting.name}, which has an empty input"
        remedy = f"install {_SORTS_NOTHING} or newer, or use --backend reference"
        raise DiagnosticError(Diagnostic("RUN0005", message, sorting.origin, remedy))


class Kernel(NamedTuple):
    """A kernel that a run calls: its name and operator after all optimizations, and its median time."""

    name: str
    operator: str
    microseconds: float
    elements: int
    """Of its first result."""


def kernel_times(graph: Graph, inputs: Mapping[str, Any], *, runs: int = 24) -> list[Kernel]:
    """Return the kernels in ONNX Runtime's profile of `graph` on one thread, in the order of first calls.

    Its clock includes preemption, so times are the lower quartile of all runs.

    Raises:
        DiagnosticError: RUN0003 it refuses the model, RUN0005 the run fails.
    """
    with TemporaryDirectory(prefix="graphport-") as folder:
        session = _session(graph, (), _Options(threads=1, quick=True), profile=str(Path(folder) / "profile"))
        names = [output.name for output in session.get_outputs()]
        try:
            for _ in range(runs):
                with _limited() as options:
                    session.run(names, {value.name: inputs[value.name] for value in graph.inputs}, options)
        except RunLimitError:
            raise
        except Exception as error:
            raise _fault("RUN0005", "ONNX Runtime", error, graph) from error
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    times: dict[str, list[float]] = {}
    about: dict[str, tuple[str, int]] = {}
    for event in events:
        name = event.get("name", "")
        if event.get("cat") != "Node" or not name.endswith(_KERNEL):
            continue
        name = name.removesuffix(_KERNEL)
        times.setdefault(name, []).append(float(event["dur"]))
        shapes: list[list[int]] = [
            shape for entry in event["args"].get("output_type_shape", ())[:1] for shape in entry.values()
        ]
        about[name] = event["args"].get("op_name", ""), int(np.prod(shapes[0])) if shapes else 0
    quartiles = {name: sorted(spent)[len(spent) // 4] for name, spent in times.items()}
    return [Kernel(name, about[name][0], spent, about[name][1]) for name, spent in quartiles.items()]


def _session(graph: Graph, extra_outputs: Sequence[str], settings: _Options, profile: str | None = None) -> Any:
    disable_telemetry()
    import onnxruntime

    if extra_outputs:
        graph = rewrite.copy(graph)
        missing = set(extra_outputs) - {value.name for value in graph.outputs}
        for node in graph:
            for value in node.results:
                if value.name in missing:
                    graph.add_output(value)
    runtime: Any = onnxruntime  # its native module has no type information
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = settings.threads
    options.enable_cpu_mem_arena = not settings.once
    if settings.once or not settings.spins:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    if not settings.quick:
        # By default it quantizes the other operand of products with compressed weights to 8 bits: errors of 4e-3.
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        # On x86 without dot products of bytes its kernels add two products in 16 bits, which overflow.
        options.add_session_config_entry("session.x64quantprecision", "1")
        graph = _with_zero_points(graph)
    graph = _with_short_windows(graph)
    keeps = not settings.quick and _has_real_weights_among_steps(graph)
    if not settings.optimize or _has_sequences_below(graph):
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return _loaded(runtime, graph, options, _ROUNDING if keeps else ())


def _has_real_weights_among_steps(graph: Graph) -> bool:
    """Whether a layer has float weights although activations of the model are quantized."""
    nodes = [node for inner in walk(graph) for node in inner]
    is_quantized = any(node.op == "QuantizeLinear" and not node.operands[0].is_constant for node in nodes)
    known: dict[Value, Storage | None] = {}
    return is_quantized and any(has_real_weights(node, known) for node in nodes)


def has_real_weights(node: Node, known: dict[Value, Storage | None] | None = None) -> bool:
    """Whether a layer has constant weights that are not dequantized from integers; `known` is the cache of `folded`."""
    op_def = registry.op_defs().get(node.op)
    weights = node.operand(1)
    if op_def is None or op_def.role != "weighted" or weights is None or folded(weights, known) is None:
        return False
    return weights.producer is None or weights.producer.op != "DequantizeLinear"


def _has_sequences_below(graph: Graph) -> bool:
    """Whether a body has a sequence value, on which ONNX Runtime's optimizer may crash."""
    bodies = [inner for inner in walk(graph) if inner is not graph]
    values = (value for inner in bodies for node in inner for value in node.results)
    return any(isinstance(value.fact, SequenceFact) for value in values)


def _with_zero_points(graph: Graph) -> Graph:
    """Return `graph`, or a copy in which every per-channel int8 tensor has zero points and separate constants.

    With `session.x64quantprecision` ONNX Runtime converts int8 weights to uint8; it adds a zero point of one element if
    there is none, which its kernels refuse with per-channel scales. A constant dequantized by two nodes is duplicated
    under one name, and loading fails.
    """
    if not any(_lacks_zero_points(node) or _shared(node) for inner in walk(graph) for node in inner):
        return graph
    twin = rewrite.copy(graph)
    for inner in walk(twin):
        for node in list(inner):
            for index in _shared(node):
                value = node.operands[index]
                storage = folded(value)
                if storage is not None:
                    node.set_input(index, inner.add_constant(f"{value.name}.own", value.fact, storage))
            if _lacks_zero_points(node):
                scale = node.operands[1]
                storage = ArrayStorage(np.zeros(_extents(scale), np.int8))
                node.set_input(2, inner.add_constant(f"{scale.name}.zero", TensorFact.of(storage), storage))
    return twin


def _with_short_windows(graph: Graph) -> Graph:
    """`graph`, or a copy in which no LRN reaches beyond all channels: its kernel holds zeros for the whole window."""
    if all(_whole_window(node) is None for inner in walk(graph) for node in inner):
        return graph
    twin = rewrite.copy(graph)
    for inner in walk(twin):
        for node in inner:
            if (size := _whole_window(node)) is not None:
                stated: Any = {"alpha": 0.0001, **node.attributes}
                node.set_attribute("alpha", stated["alpha"] * size / stated["size"])
                node.set_attribute("size", size)
    return twin


def _whole_window(node: Node) -> int | None:
    """The size of a window of all channels, where that of an LRN is larger."""
    size = node.attributes.get("size") if node.op == "LRN" else None
    channels = _extents(node.operands[0])[1:2] if isinstance(size, int) else []
    whole = 2 * channels[0] - 1 if channels else 0
    return whole if isinstance(size, int) and 0 < whole < size else None


def _lacks_zero_points(node: Node) -> bool:
    if node.op != "DequantizeLinear" or node.operand(2) is not None:
        return False
    x = node.operands[0].fact
    return isinstance(x, TensorFact) and x.dtype == DType.INT8 and bool(_extents(node.operands[1]))


def _shared(node: Node) -> list[int]:
    """Return the indices of int8 operands of a DequantizeLinear that are constant and have other consumers."""
    if node.op != "DequantizeLinear":
        return []
    return [
        index
        for index in (0, 2)
        if (value := node.operand(index)) is not None
        and len(value.uses) > 1
        and isinstance(value.fact, TensorFact)
        and value.fact.dtype == DType.INT8
        and folded(value) is not None
    ]


def _extents(value: Value) -> list[int]:
    """Return the shape; empty if it is not static."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or not fact.is_static:
        return []
    return [dim for dim in fact.dims if isinstance(dim, int)]


def _loaded(
    runtime: Any,
    graph: Graph,
    options: Any,
    unwanted: Sequence[str] = (),
    opset: int | None = None,
    *,
    merges: bool = True,
) -> Any:
    """Create a session without some optimizers; an older ONNX Runtime gets the opset that it supports.

    `merges` enables common subexpression elimination, unless that creates two constants of one name.
    """
    from graphport.formats.onnx import to_proto

    weights = sum(value.storage.nbytes for value in graph.constants if value.storage is not None)
    every = [
        *unwanted,
        *(_QUADRATIC if not merges or _is_large(graph) else ()),
        *(_FATAL if _has_halves(graph) else ()),
        *(_TAKEN_FOR_NONE if _chooses_among_pads(graph) else ()),
    ]
    left_out = {"disabled_optimizers": every} if every else {}
    try:
        register_libraries(options)
        if weights > IN_MEMORY:
            with TemporaryDirectory(prefix="graphport-", ignore_cleanup_errors=True) as folder:
                path = Path(folder) / "model.onnx"
                if _try_write(graph, path, opset, must_be=weights > _MOST_IN_MEMORY):
                    return runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"], **left_out)
        model = to_proto(graph, opset=opset).SerializeToString()
        return runtime.InferenceSession(model, options, ["CPUExecutionProvider"], **left_out)
    except DiagnosticError:
        raise
    except Exception as error:
        if merges and _TWICE in str(error):
            return _loaded(runtime, graph, options, unwanted, opset, merges=False)
        known = _newest_opset(str(error))
        if known is None or known == opset:
            raise _fault("RUN0003", "ONNX Runtime does not load the model", error, graph) from error
    try:
        return _loaded(runtime, graph, options, unwanted, known, merges=merges)
    except DiagnosticError as error:
        stated = error.diagnostics[0]
        message = f"ONNX Runtime {runtime.__version__} supports opsets up to {known}, not this model: "
        remedy = "install a newer ONNX Runtime, or choose another backend"
        raise DiagnosticError(Diagnostic("RUN0003", message + stated.message, stated.span, remedy)) from error


def _try_write(graph: Graph, path: Path, opset: int | None, *, must_be: bool) -> bool:
    """Write a file; return whether it was written. With `must_be`, errors are raised."""
    from graphport.formats.onnx import write

    try:
        write(graph, path, external_data=True, opset=opset)
    except DiagnosticError:
        if must_be:
            raise
        return False
    return True


def _has_halves(graph: Graph) -> bool:
    constants = (value.fact for inner in walk(graph) for value in inner.constants)
    return any(isinstance(fact, TensorFact) and fact.dtype is DType.FLOAT16 for fact in constants)


def _chooses_among_pads(graph: Graph) -> bool:
    pads = (node for inner in walk(graph) for node in inner if node.op == "Pad")
    return any(user.op == "MaxPool" for node in pads for user in node.output.users)


def _is_large(graph: Graph) -> bool:
    return sum(1 for _ in islice(chain.from_iterable(walk(graph)), _MANY)) == _MANY


def _newest_opset(complaint: str) -> int | None:
    """The newest opset that an ONNX Runtime knows which complains of a newer file; `None` if it does not."""
    from graphport.formats.onnx.container.schema import ir_version
    from graphport.ops.declare import OPSET

    found = _TOO_NEW.search(complaint)
    if found is None:
        return None
    if found["opset"]:
        return int(found["opset"])
    return next((opset for opset in range(OPSET, 0, -1) if ir_version(opset) <= int(found["format"])), None)


def _is_numpy(array: Any) -> bool:
    # Types of extension libraries are not built in, even if they claim to be floats.
    return array is None or isinstance(array, list) or (array.dtype.kind in "biufcOU" and is_numpy_own(array.dtype))


def _plain_outputs(session: Any) -> bool:
    return not any(
        "bfloat16" in output.type or "float8" in output.type or re.search(r"int[24]\b", output.type)
        for output in session.get_outputs()
    )


def _ort_value(array: Any) -> Any:
    from onnxruntime import OrtValue

    # A tensor of rank 0 would become rank 1.
    if _is_numpy(array):
        return OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(np.shape(array)))
    from graphport.formats.onnx.container.types import CODES

    flat = np.ascontiguousarray(array).reshape(array.shape)
    raw = flat.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    bits = DType.of(array.dtype).bits
    if bits < _BYTE:
        # Several elements share a byte; the array keeps the shape, and its other bytes are not looked at.
        dense = np.frombuffer(pack(flat.reshape(-1), bits), np.uint8)
        raw = np.zeros(array.shape, np.uint8)
        raw.reshape(-1)[: len(dense)] = dense
    return OrtValue.ortvalue_from_numpy_with_onnx_type(raw, CODES[DType.of(array.dtype)])


def _array(value: Any) -> Any:
    """Return the elements of a result; ONNX Runtime returns types unknown to NumPy as bytes."""
    from ctypes import POINTER, c_uint8, cast

    name = value.data_type().removeprefix("tensor(").removesuffix(")")
    is_dense = name in ("int4", "uint4", "int2", "uint2")
    if name != "bfloat16" and not name.startswith("float8") and not is_dense:
        return value.numpy()
    address = cast(value.data_ptr(), POINTER(c_uint8))
    raw = np.ctypeslib.as_array(address, (value.tensor_size_in_bytes(),)).copy()
    dtype = DType.of({"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}.get(name, name))
    if is_dense:
        return unpack(raw, dtype, value.shape())
    return raw.view(dtype.numpy).reshape(value.shape())


def _fault(code: str, what: str, error: Exception, graph: Graph) -> DiagnosticError:
    return fault(code, f"{what}: {_error_message(error)}", blamed(graph, str(error), _NAMED))


def _error_message(error: Exception) -> str:
    lines = _STATUS.sub("", str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__

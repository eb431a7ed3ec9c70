"""Remove quantization from a graph: convert quantized values to floats, and dequantize weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import spilling
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value, walk
from graphport.ops import registry
from graphport.ops.constant_folding import folded
from graphport.ops.definitions.quantization import integer_range
from graphport.passes import driver
from graphport.passes.simplify import COMPUTE, SIMPLIFY
from graphport.passes.substitution import add_constant
from graphport.quantization.engine import Noise, session
from graphport.quantization.output_parts import find_output_parts
from graphport.quantization.random_inputs import random_samples
from graphport.quantization.result_diagnostics import UNUSABLE_SNR_DB
from graphport.quantization.samples import evenly_spaced_indices, gather

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Attribute, Graph
    from graphport.quantization.samples import Run

Array: TypeAlias = "np.ndarray[Any, Any]"

_QUANTIZED = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"),
        *("ConvInteger", "MatMulInteger"),
    }
)
_INTEGERS = frozenset(
    {DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT4, DType.UINT4, DType.INT2, DType.UINT2}
)
_NARROW_FLOATS = frozenset(dtype for dtype in DType if str(dtype).startswith(("float8", "float4")))
_ORDER_KEEPING = frozenset({"MaxPool", "Max", "Min", "Concat", "Where"})
"""Operators that return elements of their operands, if all have one scale."""
_NONNEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Abs", "Sqrt", "Softplus"})
_MAX_CHAIN = 64
_RELU6 = 6.0
_MAX_SAMPLES = 32
_NUM_RANDOM_INPUTS = 3


@dataclass(frozen=True, slots=True)
class RealValue:
    """The float value `scale * (q - zero_point)` of an integer value `q`."""

    value: Value
    scale: Array
    zero_point: Array


@dataclass(frozen=True, slots=True)
class DequantizeReport:
    """Removed operators by op type, and the SNR of the float model relative to the quantized one.

    `kept` names quantized nodes that remain. `samples` is 0 for random inputs; `snr_db` is `None` if the model cannot
    be run.
    """

    removed: Mapping[str, int]
    kept: tuple[str, ...]
    samples: int
    snr_db: float | None
    snr_range: tuple[float, float] | None
    bytes_before: int
    bytes_after: int
    findings: tuple[Diagnostic, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the outputs resemble the outputs of the quantized model."""
        return self.snr_db is None or self.snr_db >= UNUSABLE_SNR_DB

    def as_json(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "removed": dict(self.removed),
            "kept": list(self.kept),
            "samples": self.samples,
            "snr_db": None if self.snr_db is None else round(self.snr_db, 3),
            "snr_range_db": None if self.snr_range is None else [round(x, 3) for x in self.snr_range],
            "weight_bytes": {"source": self.bytes_before, "target": self.bytes_after},
        }


@dataclass(slots=True)
class _State:
    """Float values of the integer values of one graph, and integer inputs converted to float."""

    reals: dict[Value, RealValue] = field(default_factory=dict[Value, RealValue])
    inputs: dict[str, RealValue] = field(default_factory=dict[str, RealValue])
    outputs: dict[str, RealValue] = field(default_factory=dict[str, RealValue])


@spilling()
def dequantize(graph: Graph, *, data: object = None, threads: int = 0) -> tuple[Graph, DequantizeReport]:
    """Return a float copy of `graph`, and a report; see `graphport.dequantize`.

    Raises:
        DiagnosticError: CAST0010 nothing is quantized.
    """
    source = rewrite.copy(graph)
    driver.run(source, COMPUTE)
    before = _count(source)
    if not before:
        message = "the model has no quantized operators or weights"
        raise DiagnosticError(Diagnostic("CAST0010", message, None, "check its operators with graphport inspect"))
    made = rewrite.copy(source)
    state = remove_quantization(made)
    driver.run(made, SIMPLIFY)
    after = _count(made)
    findings: list[Diagnostic] = []
    kept = tuple(node.output.name for inner in walk(made) for node in inner if node.results and _is_quantized(node))
    if kept:
        message = f"{len(kept)} nodes remain quantized: {', '.join(kept[:3])}"
        remedy = "check these nodes: their integers have other consumers, or their scales are computed"
        findings.append(Diagnostic("CAST0011", message, None, remedy, Severity.WARNING))
    noise, samples = _measured(source, made, state, data, threads)
    report = DequantizeReport(
        before - after,
        kept,
        samples,
        None if noise is None else noise.snr,
        None if noise is None else noise.snr_range,
        _weight_bytes(graph),
        _weight_bytes(made),
        tuple(findings),
    )
    return made, report


def remove_quantization(graph: Graph) -> _State:
    """Replace quantized values by floats in place.

    Before  y = DequantizeLinear(QuantizeLinear(x, s, z), s, z);  w = DequantizeLinear(codes, s, z)
    After   y = x;  w = s * (codes - z)

    Before  q = QLinearConv(a, …, codes, …)       After   y = Conv(real(a), w)
    Before  y = Cast(MatMulInteger(DynamicQuantizeLinear(x), codes, …)) * scales
    After   y = MatMul(x, codes - z) * scales

    A range from 0 means a fused Relu, one from 0 to 6 a fused Relu6: they are written as Relu and Clip.
    Integers that other operators compute with, and scales that are not constant, remain.
    """
    state = _State()
    for inner in list(walk(graph)):
        for value in list(inner.inputs):
            _free_input(state, value)
        for node in list(inner):
            if not node.dialect and node.graph is not None:
                _RULES.get(node.op_type, _convert_move)(state, node)
    for value in list(graph.outputs):
        if value in state.reals and not value.is_input and not value.users:
            state.outputs[value.name] = state.reals[value]
            rewrite.replace(value, state.reals[value].value)
    for inner in list(walk(graph)):
        rewrite.remove_dead(inner)
    return state


def _free_input(state: _State, value: Value) -> None:
    """Make an integer input float if all of its consumers dequantize it with one scale."""
    if value.dtype not in _INTEGERS or value.is_output or not isinstance(value.fact, TensorFact):
        return
    scales: list[tuple[Array, Array]] = []
    waiting, count = [value], 0
    while waiting:
        current = waiting.pop()
        for user in current.users:
            count += 1
            parameters = _reads_scale(user, current)
            if parameters is not None:
                scales.append(parameters)
            elif count < _MAX_CHAIN and _is_move(user) and user.operands[0] is current and not user.output.is_output:
                waiting.append(user.output)
            else:
                return
    if not scales or any(not _is_equal(scales[0], other) for other in scales[1:]):
        return
    scale, zero = scales[0]
    value.fact = TensorFact(DType.of(scale.dtype), value.fact.shape)
    state.reals[value] = state.inputs[value.name] = RealValue(value, scale, zero)


def _reads_scale(node: Node, value: Value) -> tuple[Array, Array] | None:
    """Return scale and zero point with which `node` dequantizes operand `value`; `None` if it does not."""
    if node.dialect or node.op_type not in {"DequantizeLinear", "QLinearConv", "QLinearMatMul"}:
        return None
    return _parameters(node, 1) if node.operand(0) is value else None


def _remove_quantize(state: _State, node: Node) -> None:
    parameters, source = _parameters(node, 1), node.operand(0)
    if parameters is None or source is None:
        return
    state.reals[node.output] = _clipped(node, source, *parameters)


def _clipped(node: Node, source: Value, scale: Array, zero: Array) -> RealValue:
    """Return `source` with the Relu or Relu6 that the range of the result of `node` implies."""
    dtype = node.output.dtype
    if scale.size != 1 or dtype is None or not dtype.is_integer or source.is_input or _is_nonnegative(source):
        return RealValue(source, scale, zero)
    codes = integer_range(dtype)
    if int(zero.reshape(-1)[0]) != codes[0]:
        return RealValue(source, scale, zero)
    step = float(scale.reshape(-1)[0])
    high = step * (codes[1] - codes[0])
    is_relu6 = abs(high - _RELU6) <= step
    limits = [0.0, _RELU6] if is_relu6 else [0.0]
    graph = _graph_of(node)
    constants = [add_constant(graph, np.asarray(x, scale.dtype), f"{source.name}_limit") for x in limits]
    clip = _insert(node, "Clip" if is_relu6 else "Relu", [source, *(constants if is_relu6 else [])], source, "relu")
    return RealValue(clip, scale, zero)


def _remove_dequantize(state: _State, node: Node) -> None:
    parameters, codes = _parameters(node, 1), node.operand(0)
    if codes is None:
        return
    known = state.reals.get(codes)
    if known is not None and parameters is not None:
        rewrite.replace(node.output, _rescaled(node, known, parameters))
        return
    operands = [folded(value) for value in node.operands]
    if all(storage is not None for storage in operands):
        arrays = [storage.numpy() for storage in operands if storage is not None]
        weights = registry.op_defs()["DequantizeLinear"](*arrays, **node.attributes)
        rewrite.replace(node.output, add_constant(_graph_of(node), np.asarray(weights), f"{codes.name}_float"))


def _rescaled(node: Node, known: RealValue, parameters: tuple[Array, Array]) -> Value:
    """Return the float value of the codes of `known` with another scale and zero point."""
    if _is_equal((known.scale, known.zero_point), parameters):
        return known.value
    scale, zero = (x.astype(np.float64) for x in parameters)
    factor = scale / known.scale
    offset = (known.zero_point.astype(np.float64) - zero) * scale
    made = _arithmetic(node, "Mul", known.value, factor.astype(known.scale.dtype))
    return _arithmetic(node, "Add", made, offset.astype(known.scale.dtype)) if offset.any() else made


def _remove_dynamic(state: _State, node: Node) -> None:
    """Replace the scale of dynamic quantization by 1, if only integer products with constant weights read it."""
    codes, scale, source = node.results[0], node.results[1], node.operand(0)
    readers = [user for user in codes.users if user.op_type in {"MatMulInteger", "ConvInteger"} and not user.dialect]
    casts = [user for reader in readers for user in reader.output.users]
    is_simple = all(user.op_type == "Cast" and not user.dialect for user in casts)
    has_weights = all(reader.operand(0) is codes and folded(reader.operands[1]) is not None for reader in readers)
    if source is None or len(readers) < len(codes.users) or not (is_simple and has_weights) or codes.is_output:
        return
    one = np.ones((), np.float32)
    state.reals[codes] = RealValue(source, one, np.zeros((), np.uint8))
    rewrite.replace(scale, add_constant(_graph_of(node), one, f"{source.name}_one"))


def _convert_integer_product(state: _State, node: Node) -> None:
    known, weights = state.reals.get(node.operands[0]), folded(node.operands[1])
    zero = node.operand(3)
    zeros = np.zeros((), np.int32) if zero is None else None if (found := folded(zero)) is None else found.numpy()
    if known is None or weights is None or zeros is None:
        return
    shift = zeros.astype(np.float32)
    if node.op_type == "ConvInteger" and shift.ndim:
        shift = shift.reshape(-1, *[1] * (len(weights.shape) - 1))
    dense = (weights.numpy().astype(np.float32) - shift).astype(known.scale.dtype)
    weight = add_constant(_graph_of(node), dense, f"{node.operands[1].name}_float")
    op_type = "Conv" if node.op_type == "ConvInteger" else "MatMul"
    made = _insert(node, op_type, [known.value, weight], node.output, "float", node.attributes, known.value)
    unit = np.ones((), known.scale.dtype)
    state.reals[node.output] = RealValue(_arithmetic(node, "Div", made, known.scale), unit, np.zeros((), np.int32))


def _remove_cast(state: _State, node: Node) -> None:
    """Remove casts of integer sums to floats, and through floats of 8 and 4 bits."""
    source, to = node.operands[0], node.output.dtype
    known = state.reals.get(source)
    if to is None or not to.is_floating or to in _NARROW_FLOATS:
        return
    if known is not None and known.scale.size == 1 and float(known.scale.reshape(-1)[0]) == 1:
        is_shifted = bool(known.zero_point.any())
        if not is_shifted and known.value.dtype == to:
            rewrite.replace(node.output, known.value)
        return
    if source.dtype not in _NARROW_FLOATS or source.producer is None or source.producer.op_type != "Cast":
        return
    wide = source.producer.operands[0]
    before = wide.producer
    if wide.dtype is not to and before is not None and before.op_type == "Cast" and before.operands[0].dtype is to:
        wide = before.operands[0]
    if wide.dtype is to:
        rewrite.replace(node.output, wide)


def _convert_product(state: _State, node: Node) -> None:
    """Replace QLinearConv and QLinearMatMul by their float operators."""
    is_conv = node.op_type == "QLinearConv"
    left = _dequantized_operand(state, node, 0, None)
    right = _dequantized_operand(state, node, 3, 0 if is_conv else None)
    result = _parameters(node, 6)
    if left is None or right is None or result is None:
        return
    operands = [left.value, right.value]
    bias = node.operand(8) if is_conv else None
    if bias is not None:
        sums = folded(bias)
        if sums is None:
            return
        units = sums.numpy().astype(np.float64) * left.scale.reshape(-1) * right.scale.reshape(-1)
        operands.append(add_constant(_graph_of(node), units.astype(left.scale.dtype), f"{bias.name}_float"))
    op_type = "Conv" if is_conv else "MatMul"
    made = _insert(node, op_type, operands, node.output, "float", node.attributes, left.value)
    state.reals[node.output] = _clipped(node, made, *result)


def _dequantized_operand(state: _State, node: Node, index: int, axis: int | None) -> RealValue | None:
    """Return the float value of an operand of a quantized product; constant codes are dequantized along `axis`."""
    codes, parameters = node.operands[index], _parameters(node, index + 1)
    if parameters is None:
        return None
    known = state.reals.get(codes)
    if known is not None:
        return RealValue(_rescaled(node, known, parameters), *parameters)
    storage = folded(codes)
    if storage is None:
        return None
    scale, zero = parameters
    shape = (-1, *[1] * (len(storage.shape) - 1)) if axis == 0 and scale.size > 1 else scale.shape
    array = (storage.numpy().astype(np.float32) - zero.astype(np.float32).reshape(shape)) * scale.reshape(shape)
    value = add_constant(_graph_of(node), array.astype(scale.dtype), f"{codes.name}_float")
    return RealValue(value, scale, zero)


def _remove_fake_quantization(state: _State, node: Node) -> None:
    """Remove a fake quantization that is written out: Where(x <= low, low, Where(x > high, high, … Round(…) …))."""
    below, low, inner = node.operands
    test, other = below.producer, inner.producer
    if test is None or other is None or test.op_type != "LessOrEqual" or other.op_type != "Where":
        _convert_move(state, node)
        return
    above, high, inside = other.operands
    upper = above.producer
    if (
        upper is None
        or upper.op_type != "Greater"
        or upper.operands[0] is not test.operands[0]
        or not _has_round(inside)
    ):
        return
    ends = [folded(value) for value in (test.operands[1], low, upper.operands[1], high)]
    arrays = [end.numpy() for end in ends if end is not None]
    if len(arrays) == len(ends) and np.allclose(arrays[0], arrays[1]) and np.allclose(arrays[2], arrays[3]):
        rewrite.replace(node.output, test.operands[0])


def _has_round(value: Value) -> bool:
    """Whether a chain of element-wise operators before `value` has a Round."""
    for _ in range(_MAX_CHAIN):
        node = value.producer
        if node is None or not node.operands:
            return False
        if node.op_type == "Round":
            return True
        value = node.operands[0]
    return False


def _convert_move(state: _State, node: Node) -> None:
    """Move floats instead of integers, if all moved integers have one scale."""
    moved = [value for value in node.operands if value in state.reals]
    others = [value for value in node.operands if value not in moved and value.dtype in _INTEGERS]
    if not moved or others or not (_is_move(node) or node.op_type in _ORDER_KEEPING) or len(node.results) != 1:
        return
    first = state.reals[moved[0]]
    parameters = (first.scale, first.zero_point)
    rest = [state.reals[value] for value in moved]
    if first.scale.size > 1 or any(not _is_equal(parameters, (x.scale, x.zero_point)) for x in rest):
        return
    operands = [state.reals[value].value if value in state.reals else value for value in node.inputs if value]
    if len(operands) < len(node.inputs):
        return
    made = _insert(node, node.op_type, operands, node.output, "float", node.attributes, first.value)
    state.reals[node.output] = replace(first, value=made)


_RULES = {
    "QuantizeLinear": _remove_quantize,
    "DequantizeLinear": _remove_dequantize,
    "DynamicQuantizeLinear": _remove_dynamic,
    "QLinearConv": _convert_product,
    "QLinearMatMul": _convert_product,
    "ConvInteger": _convert_integer_product,
    "MatMulInteger": _convert_integer_product,
    "Cast": _remove_cast,
    "Where": _remove_fake_quantization,
}


def _parameters(node: Node, index: int) -> tuple[Array, Array] | None:
    """Return the constant scale and zero point at `index`; `None` if they are computed."""
    scale = node.operand(index)
    zero = node.operand(index + 1)
    scales = None if scale is None else folded(scale)
    zeros = None if zero is None else folded(zero)
    if scales is None or (zero is not None and zeros is None):
        return None
    x = scales.numpy()
    return x, np.zeros(x.shape, np.int32) if zeros is None else zeros.numpy().astype(np.float32)


def _is_equal(a: tuple[Array, Array], b: tuple[Array, Array]) -> bool:
    return all(np.array_equal(np.squeeze(x), np.squeeze(y)) for x, y in zip(a, b, strict=True))


def _is_move(node: Node) -> bool:
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    return op_def is not None and op_def.role == "passive" and op_def.moves_data and len(node.results) == 1


def _is_nonnegative(value: Value) -> bool:
    for _ in range(_MAX_CHAIN):
        node = value.producer
        if node is None or node.dialect or not node.operands:
            return False
        if node.op_type in _NONNEGATIVE:
            return True
        if not (_is_move(node) or node.op_type in {"MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean"}):
            return False
        value = node.operands[0]
    return False


def _insert(
    node: Node,
    op_type: str,
    operands: Sequence[Value],
    like: Value,
    suffix: str,
    attributes: Mapping[str, Attribute] | None = None,
    dtype_like: Value | None = None,
) -> Value:
    """Insert a node before `node`, and return its result with the shape of `like`."""
    graph, fact = _graph_of(node), like.fact
    dtype = (dtype_like or like).dtype
    if isinstance(fact, TensorFact) and dtype is not None:
        fact = TensorFact(dtype, fact.shape)
    made = Value(graph.fresh(f"{like.name}_{suffix}"), fact)
    graph.insert_before(node, Node(op_type, [*operands], [made], dict(attributes or {}), name="", origin=node.origin))
    return made


def _arithmetic(node: Node, op_type: str, value: Value, constant: Array) -> Value:
    if op_type in {"Mul", "Div"} and np.all(constant == 1):
        return value
    operand = add_constant(_graph_of(node), constant, f"{value.name}_{op_type.lower()}")
    return _insert(node, op_type, [value, operand], value, op_type.lower())


def _graph_of(node: Node) -> Graph:
    if node.graph is None:
        message = f"{node} is in no graph"
        raise RuntimeError(message)
    return node.graph


def _is_quantized(node: Node) -> bool:
    if node.dialect:
        return False
    is_narrow = node.op_type == "Cast" and any(value.dtype in _NARROW_FLOATS for value in node.results)
    return node.op_type in _QUANTIZED or is_narrow


def _count(graph: Graph) -> Counter[str]:
    """Count quantized nodes, and roundings of fake quantization."""
    nodes = [node for inner in walk(graph) for node in inner]
    found = Counter(node.op_type for node in nodes if _is_quantized(node))
    fakes = sum(not node.dialect and node.op_type == "Where" and _is_fake(node) for node in nodes)
    return found + Counter({"FakeQuantize": fakes})


def _is_fake(node: Node) -> bool:
    test, inner = node.operands[0].producer, node.operands[2].producer
    has_tests = test is not None and test.op_type == "LessOrEqual" and inner is not None and inner.op_type == "Where"
    return has_tests and inner is not None and _has_round(inner.operands[2])


def _weight_bytes(graph: Graph) -> int:
    return sum(v.storage.nbytes for inner in walk(graph) for v in inner.constants if v.storage is not None and v.uses)


def _measured(source: Graph, made: Graph, state: _State, data: object, threads: int) -> tuple[Noise | None, int]:
    """Return the noise of the quantized model relative to the float one, and the number of samples."""
    try:
        runs, samples = _runs(source, state, data)
        quantized, real = session(source, threads=threads), session(made, threads=threads)
        outputs = [(_as_floats(quantized.run(codes), state), real.run(floats), count) for codes, floats, count in runs]
    except DiagnosticError:
        if data is not None:
            raise
        return None, 0
    values = {value.name: value for value in made.outputs}
    noise = Noise(find_output_parts(values, [expected for expected, _, _ in outputs]))
    for expected, found, count in outputs:
        noise.add(expected, found, count)
    return noise, samples


def _as_floats(outputs: Mapping[str, Any], state: _State) -> dict[str, Any]:
    """Dequantize the outputs that are floats in the float model."""
    found = dict(outputs)
    for name, real in state.outputs.items():
        found[name] = ((outputs[name].astype(np.float32) - real.zero_point) * real.scale).astype(np.float32)
    return found


def _runs(source: Graph, state: _State, data: object) -> tuple[list[tuple[dict[str, Any], dict[str, Any], int]], int]:
    """Return runs (quantized inputs, float inputs, size) and the number of samples; 0 for random inputs."""
    given: list[Run]
    count = 0
    if data is None:
        drawn, _ = random_samples(source, _NUM_RANDOM_INPUTS)
        given = [(_within_ranges(source, each), 1) for each in drawn[:_NUM_RANDOM_INPUTS]]
    else:
        samples = gather(source, data)
        taken = samples.select_samples(evenly_spaced_indices(samples.count, min(samples.count, _MAX_SAMPLES)))
        given, count = list(taken.runs(1)), taken.count
    runs: list[tuple[dict[str, Any], dict[str, Any], int]] = []
    for inputs, size in given:
        floats = dict(inputs)
        for name, real in state.inputs.items():
            floats[name] = ((inputs[name].astype(np.float32) - real.zero_point) * real.scale).astype(real.scale.dtype)
        runs.append((dict(inputs), floats, size))
    return runs, count


def _within_ranges(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Limit random float inputs to the range that the model quantizes them to."""
    found = dict(inputs)
    for value in graph.inputs:
        for user in value.users:
            parameters = _parameters(user, 1) if user.op_type == "QuantizeLinear" and not user.dialect else None
            dtype = user.output.dtype if user.results else None
            if parameters is None or parameters[0].size != 1 or dtype is None or not dtype.is_integer:
                continue
            (scale,), (zero,) = (x.reshape(-1) for x in parameters)
            low, high = ((code - zero) * scale for code in integer_range(dtype))
            found[value.name] = np.clip(found[value.name], low, high)
    return found

"""Insert QuantizeLinear and DequantizeLinear nodes around integer computations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.tflite.rules.fixed_point import in_fifteen_bits
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant
from graphport.quantization.integer_sums import emit_sums
from graphport.quantization.parameters import QuantizationParameters, activation_qparams, limits
from graphport.quantization.placement import data_operands, moves
from graphport.quantization.recurrent import store_recurrent

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from graphport.ir.graph import Attribute, Graph
    from graphport.quantization.layer import Layer
    from graphport.quantization.placement import Placement

Array: TypeAlias = "np.ndarray[Any, Any]"
_LONGEST = 2.0**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """Quantized constants of a layer: codes with qparams, and the float bias."""

    qparams: QuantizationParameters
    codes: Array
    bias: Array | None


@dataclass(slots=True, eq=False)
class Quantization:
    """All decisions: qparams of each root value, and the constants of each layer.

    `is_narrow`: the runtime does not use the least code of signed activations; `guarded`: operators that it would take
    for integer ones although they are not marked so. The qparams of `fixed` must not change. `alone` are layers with
    quantized weights and float products, `halves` nodes whose constant is stored as float16, `tables` Gather nodes with
    the codes of their table. For activations of `short_factors` types, convolution kernels use 15 bits of the combined
    multiplier.
    """

    placement: Placement
    all_qparams: dict[Value, QuantizationParameters] = field(default_factory=dict["Value", QuantizationParameters])
    weights: MutableMapping[Node, Weight] = field(default_factory=dict["Node", Weight])
    bias_bits: int = 32
    is_narrow: bool = False
    guarded: frozenset[str] = frozenset()
    fixed: set[Value] = field(default_factory=set["Value"])
    alone: dict[Node, Layer] = field(default_factory=dict["Node", "Layer"])
    halves: dict[Node, DType] = field(default_factory=dict["Node", DType])
    tables: dict[Node, Weight] = field(default_factory=dict["Node", Weight])
    short_factors: frozenset[DType] = frozenset()

    def qparams_of(self, value: Value) -> QuantizationParameters | None:
        """Return the qparams of `value`."""
        root = self.placement.points.get(value)
        return None if root is None else self.all_qparams.get(root)

    def result_qparams(self, node: Node) -> QuantizationParameters | None:
        """Return the qparams that all operands of `node` must have; `None` if each may have its own."""
        value = self.placement.results.get(node)
        return None if value is None else self.qparams_of(value)


def insert_qdq(graph: Graph, quantization: Quantization) -> Graph:
    """Return a copy of `graph` with the nodes of `quantization`; `graph` is the placed graph.

    Before  y = Conv(x, w, b)
    After   y_1 = Conv(DQ(Q(x)), DQ(w_codes), DQ(b_codes));  y = DQ(Q(y_1))

    Layers that return integer sums are emitted by `sums.emit_sums`.
    If the scale of a bias is so small that 32 bits overflow, it remains float.
    """
    twin = rewrite.copy(graph)
    values = dict(zip(_values(graph), _values(twin), strict=True))
    nodes = dict(zip(graph, twin, strict=True))
    for node, dtype in quantization.halves.items():
        emit_halves(twin, nodes[node], dtype)
    for node, weight in quantization.tables.items():
        name = nodes[node].operands[0].name
        nodes[node].set_input(0, constant(twin, nodes[node], weight.codes, weight.qparams, name))
    for node, most in quantization.placement.recurrent.items():
        store_recurrent(twin, nodes[node], most)
    for layer in (*quantization.placement.layers.values(), *quantization.alone.values()):
        _emit_layer(twin, layer, nodes, values, quantization)
    for node in quantization.placement.pointwise:
        _emit_numbers(twin, nodes[node], node, quantization)
    for value in quantization.placement.points:
        qparams = quantization.qparams_of(value)
        if qparams is not None:
            _emit_point(twin, value, values[value], qparams, nodes, quantization)
    for node in quantization.placement.requantized:
        _requantize(twin, nodes[node], node, quantization)
    for node in quantization.placement.summing:
        weight = quantization.weights.get(node)
        if weight is not None:
            emit_sums(twin, nodes[node], weight.qparams, weight.codes, weight.bias)
    pointwise = quantization.placement.pointwise
    for node, other in nodes.items():
        weight = quantization.weights.get(node)
        reads_real = weight is None or node in quantization.alone
        is_real = reads_real and node.op in quantization.guarded and node not in pointwise and not moves(node)
        is_narrow = weight is not None and bool(quantization.guarded) and weight.qparams.dtype.is_floating
        if (is_real or is_narrow) and _reads_rounded(other):
            _cut(twin, other, None)
    if quantization.guarded:
        _hold_signed(twin)
    rewrite.remove_dead(twin)
    return twin


def _reads_rounded(node: Node) -> bool:
    value = node.operand(0)
    return value is not None and value.producer is not None and value.producer.op == "DequantizeLinear"


def _hold_signed(graph: Graph) -> None:
    """Keep ONNX Runtime from propagating DequantizeLinear of int8 past data movements to float consumers.

    ONNX Runtime 1.31 uses operators of opset 21 for it, then takes them for uint8 and rejects the model.
    """
    for node in list(graph):
        if not moves(node) or not _reads_rounded(node):
            continue
        maker = node.operands[0].producer
        if maker is None or maker.operands[0].is_constant:
            continue
        codes = _rounding(node)
        readers = [user for value in node.results for user in value.users]
        if codes is DType.INT8 and not any(user.op == "QuantizeLinear" for user in readers):
            _cut(graph, node, None)


def _rounding(node: Node) -> DType | None:
    """Return the integer type from which the first operand is dequantized."""
    maker = node.operands[0].producer
    fact = None if maker is None else maker.operands[0].fact
    return fact.dtype if isinstance(fact, TensorFact) else None


def _values(graph: Graph) -> list[Value]:
    return list(graph.values())


def _emit_point(
    graph: Graph,
    original: Value,
    value: Value,
    qparams: QuantizationParameters,
    nodes: dict[Node, Node],
    quantization: Quantization,
) -> None:
    node, placement = value.producer, quantization.placement
    codes = Value(graph.fresh(f"{value.name}_codes"), TensorFact(qparams.dtype, value.shape))
    rounded = Value(graph.fresh(f"{value.name}_rounded"), value.fact)
    scale, zero_point = _parameters(graph, qparams, value.name)
    attributes = _axis(qparams)
    quantize = Node("QuantizeLinear", [value, scale, zero_point], [codes], attributes)
    # Runtimes take a pair for an integer operator, and then reject the model.
    is_separate = bool(quantization.guarded) and qparams.dtype.is_floating
    decoded = Value(graph.fresh(f"{value.name}_decoded"), value.fact) if is_separate else rounded
    dequantize = Node("DequantizeLinear", [codes, scale, zero_point], [decoded], attributes)
    graph.insert_after(node, quantize)
    graph.insert_after(quantize, dequantize)
    if is_separate:
        graph.insert_after(dequantize, Node("Max", [decoded], [rounded]))
    if original in placement.carried and not value.is_input:
        rewrite.replace(value, rounded, keep=[quantize])
    else:
        _hand_over(value, rounded, [nodes[reader] for reader in placement.readers.get(original, ())])
    is_cut = quantization.is_narrow and qparams.dtype.is_integer and qparams.least > limits(qparams.dtype)[0]
    if is_cut or is_separate:
        _cut(graph, quantize, qparams.min_value if is_cut else None)


def _requantize(graph: Graph, twin: Node, node: Node, quantization: Quantization) -> None:
    """Requantize operands of `node` with the qparams of its result.

    Before  y = DQ(Q(Concat(DQ(a, sa), DQ(b, sb)), s))
    After   y = DQ(Q(Concat(DQ(Q(DQ(a, sa), s), s), DQ(b, sb)), s))
    """
    qparams, operands = quantization.result_qparams(node), quantization.placement.requantized[node]
    for index, original in enumerate(node.inputs):
        value = twin.inputs[index]
        if original not in operands or value is None or qparams is None or quantization.qparams_of(original) is qparams:
            continue
        codes = Value(graph.fresh(f"{value.name}_requantized"), TensorFact(qparams.dtype, value.shape))
        rounded = Value(graph.fresh(f"{value.name}_rounded"), value.fact)
        parameters = _parameters(graph, qparams, value.name)
        graph.insert_before(twin, Node("QuantizeLinear", [value, *parameters], [codes]))
        graph.insert_before(twin, Node("DequantizeLinear", [codes, *parameters], [rounded]))
        twin.set_input(index, rounded)


def _hand_over(value: Value, rounded: Value, readers: list[Node]) -> None:
    for reader in readers:
        for index, operand in enumerate(reader.inputs):
            if operand is value:
                reader.set_input(index, rounded)


def _cut(graph: Graph, node: Node, low: float | None) -> None:
    """Insert Max(operand, low), or the identity Max(operand), before `node` to prevent a runtime's pattern fusion.

    Before  y = Conv(DequantizeLinear(q), w)
    After   y = Conv(Max(DequantizeLinear(q)), w)
    """
    value = node.operands[0]
    kept = Value(graph.fresh(f"{value.name}_kept"), value.fact)
    least: list[Value] = []
    if low is not None:
        floor = ArrayStorage(np.asarray(low, np.float32))
        least = [graph.add_constant(f"{value.name}_least", TensorFact(DType.FLOAT32, ()), floor)]
    graph.insert_before(node, Node("Max", [value, *least], [kept]))
    node.set_input(0, kept)


def _emit_layer(
    graph: Graph, layer: Layer, nodes: dict[Node, Node], values: dict[Value, Value], quantization: Quantization
) -> None:
    weight, node = quantization.weights.get(layer.node), nodes[layer.node]
    if weight is None:
        return
    if quantization.short_factors and layer.kind != "product" and layer.node not in quantization.alone:
        weight = _as_multiplied(layer, weight, quantization)
    name = values[layer.weight].name
    node.set_input(1, constant(graph, node, weight.codes, weight.qparams, name))
    if weight.bias is None:
        return
    adder = node if layer.adds is None else nodes[layer.adds]
    place = 2
    if layer.adds is not None and layer.bias is not None:
        place = adder.inputs.index(values[layer.bias])
    bias = weight.bias.astype(np.float32)
    if layer.bias is not None and layer.bias.storage is not None:
        bias = bias.reshape(layer.bias.storage.shape)
    source = None if layer.node in quantization.alone else quantization.qparams_of(layer.input)
    qparams = None if layer.adds is not None or source is None else bias_qparams(weight, source, quantization.bias_bits)
    bias_name = f"{name}_bias" if layer.bias is None else values[layer.bias].name
    if qparams is None or layer.kind == "transposed":
        value = add_constant(graph, bias, bias_name)
    else:
        value = constant(graph, node, qparams.codes(bias.reshape(-1)), qparams, bias_name)
    adder.set_input(place, value)


def _as_multiplied(layer: Layer, weight: Weight, quantization: Quantization) -> Weight:
    """Return a weight with scales for which input scale * weight scale / output scale has 15 bits."""
    source, value = quantization.qparams_of(layer.input), layer.node.output
    while (
        (result := quantization.qparams_of(value)) is None
        and len(value.users) == 1
        and len(value.users[0].outputs) == 1
    ):
        value = value.users[0].output
    if source is None or result is None or {source.dtype, result.dtype} - quantization.short_factors:
        return weight
    ratio = float(source.scale) / float(result.scale)
    scales = np.array([in_fifteen_bits(float(each) * ratio) / ratio for each in weight.qparams.scale.reshape(-1)])
    qparams = replace(weight.qparams, scale=scales.reshape(weight.qparams.scale.shape).astype(np.float32))
    return Weight(qparams, weight.codes, weight.bias)


def least_scales(layer: Layer, source: QuantizationParameters | None) -> Array | None:
    """Return for each output channel of `layer` the least weight scale with which the bias fits 32 bits."""
    is_real = layer.kind == "transposed" or layer.adds is not None
    if layer.bias is None or is_real or source is None or source.dtype.is_floating:
        return None
    return np.abs(layer.offsets().astype(np.float64)) / (float(source.scale) * _LONGEST / 2)


def bias_qparams(weight: Weight, source: QuantizationParameters, bits: int) -> QuantizationParameters | None:
    """Return the scales of the layer's integer sums; `None` if the bias overflows or remains float."""
    if (
        not bits
        or weight.bias is None
        or source.dtype.is_floating
        or weight.qparams.dtype.is_floating
        or weight.qparams.block
    ):
        return None
    scale = (weight.qparams.scale.astype(np.float64) * float(source.scale)).astype(np.float32).reshape(-1)
    bias = weight.bias.reshape(-1)
    if scale.size not in (1, bias.size):
        # A grouped transposed convolution has one scale per channel of each group.
        scale = np.tile(scale, bias.size // scale.size)
    if np.any(np.abs(bias) > scale.astype(np.float64) * _LONGEST) or np.any(scale <= 0):
        return None
    whole = np.broadcast_to(scale, bias.shape) if scale.size == 1 else scale
    limit = 2 ** (bits - 1) - 1
    return QuantizationParameters(DType.INT32, whole.copy(), np.zeros(whole.shape, np.int32), -limit - 1, limit)


def _emit_numbers(graph: Graph, twin: Node, node: Node, quantization: Quantization) -> None:
    """Quantize scalar operands; a range from zero to the scalar represents it exactly."""
    beside = (quantization.qparams_of(value) for value in (*node.operands, *node.results))
    like = next((qparams.dtype for qparams in beside if qparams is not None), DType.UINT8)
    shared = quantization.result_qparams(node)
    for index, value in enumerate(twin.inputs):
        if value is None or not value.is_constant or value not in data_operands(twin) or value.storage is None:
            continue
        number = np.asarray(value.storage.numpy(), np.float32)
        ends = float(number.min()), float(number.max())
        qparams = shared or activation_qparams(*ends, like, is_symmetric=like.kind == "i")
        twin.set_input(index, constant(graph, twin, qparams.codes(number), qparams, value.name))


def constant(graph: Graph, before: Node, codes: Array, qparams: QuantizationParameters, name: str) -> Value:
    """Create the dequantized constant of `codes` before the node `before`."""
    stored = add_constant(graph, ArrayStorage(codes, qparams.dtype), f"{name}_codes")
    scale, zero_point = _parameters(graph, qparams, name)
    real = Value(graph.fresh(f"{name}_rounded"), TensorFact(DType.FLOAT32, codes.shape))
    graph.insert_before(before, Node("DequantizeLinear", [stored, scale, zero_point], [real], _axis(qparams)))
    return real


def emit_halves(graph: Graph, node: Node, dtype: DType) -> None:
    """Store the largest float constant operand of `node` as float16.

    Before  y = Conv(x, w)
    After   y = Conv(x, Cast(w_halves))
    """
    constants = {value: value.storage for value in node.operands if value.is_constant and value.storage is not None}
    real = [value for value, stored in constants.items() if stored.dtype is DType.FLOAT32]
    if not real:
        return
    value = max(real, key=lambda x: constants[x].count)
    narrow = ArrayStorage(constants[value].numpy().astype(dtype.numpy), dtype)
    stored = add_constant(graph, narrow, f"{value.name}_halves")
    wide = Value(graph.fresh(f"{value.name}_wide"), value.fact)
    graph.insert_before(node, Node("Cast", [stored], [wide], {"to": DType.FLOAT32}))
    for index, operand in enumerate(node.inputs):
        if operand is value:
            node.set_input(index, wide)


def _parameters(graph: Graph, qparams: QuantizationParameters, name: str) -> tuple[Value, Value]:
    scale, zero_point = qparams.scale.astype(np.float32), qparams.zero_point
    return (
        add_constant(graph, scale, f"{name}_scale"),
        add_constant(graph, ArrayStorage(zero_point, qparams.dtype), f"{name}_zero_point"),
    )


def _axis(qparams: QuantizationParameters) -> dict[str, Attribute]:
    if qparams.scale.ndim == 0:
        return {}
    return {"axis": qparams.axis, "block_size": qparams.block} if qparams.block else {"axis": qparams.axis}

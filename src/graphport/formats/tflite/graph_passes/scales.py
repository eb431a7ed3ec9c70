"""Fold per-channel factors into the scales of integer filters, and terms into the bias.

NNCF quantizes after the batch normalization of a convolution, and quantizes the input of a depthwise convolution per
channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.integers import filters_of, float_bias_of
from graphport.formats.tflite.graph_passes.kernels import KERNELS
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.binding import Quantization

    Numbers = np.ndarray[Any, Any]

_DIALECT = "tflite"
_DEPTHWISE = "DEPTHWISE_CONV_2D"
_CLAMPS = frozenset(("RELU", "RELU6", "MINIMUM", "MAXIMUM"))
_MIN_INT8 = -128


def even_out(graph: Graph) -> None:
    """Quantize the input of a depthwise convolution per-tensor, with multiplications by channel before and after.

    Before  y = DEPTHWISE_CONV_2D(DEQUANTIZE(QUANTIZE(x, scales of channels)))
    After   y = DEPTHWISE_CONV_2D(MUL(DEQUANTIZE(QUANTIZE(MUL(x, scale / scales), scale)), scales / scale))
    """
    for node in list(graph):
        quantization = _quantization(node, "quantized_results") if _is(node, "QUANTIZE") else None
        if quantization is None or quantization[1] < 0 or len(set(quantization[3])) != 1 or node.output.is_output:
            continue
        readers = [use.user for use in node.output.uses]
        fact = node.output.fact
        if not isinstance(fact, TensorFact) or not all(
            isinstance(user, Node) and _is(user, "DEQUANTIZE") and _quantization(user, "quantized") == quantization
            for user in readers
        ):
            continue
        nodes = cast("list[Node]", readers)
        if not all(_feeds_depthwise(reader) for reader in nodes):
            continue
        dtype, axis, scales, zeros = quantization
        step = float(np.float32(max(scales)))
        one: Quantization = (dtype, -1, (step,), zeros[:1])
        shape = (-1, *[1] * (len(fact.dims) - axis - 1))
        up = (step / np.array(scales)).reshape(shape).astype(np.float32)
        node.set_input(0, _multiplied(graph, node.operands[0], up, node))
        node.set_attribute("quantized_results", cast("Any", (one,)))
        for reader in nodes:
            reader.set_attribute("quantized", cast("Any", (one,)))
            result = reader.output
            behind = Value(graph.fresh(f"{result.name}_even"), result.fact)
            result.replace_uses(behind)
            down = _constant(graph, (1 / up).astype(np.float32))
            after = Node("MUL", [], [behind], {"fused_activation_function": 0}, dialect=_DIALECT, origin=reader.origin)
            graph.insert_after(reader, after)
            after.inputs = [result, down]


def fold_scales(graph: Graph) -> None:
    """Fold per-channel factors and terms around integer filters into scales and bias.

    Before  y = QUANTIZE(RELU(ADD(MUL(CONV_2D(x, DEQUANTIZE(w), b), c), d)))
    After   y = QUANTIZE(RELU(CONV_2D(x, DEQUANTIZE(w with scales times c), b * c + d)))
    """
    for node in list(graph):
        kernel = KERNELS.get(node.op_type) if node.dialect == _DIALECT else None
        if kernel is None or kernel.weights is None or node.attributes.get("quantized") is not None:
            continue
        place, last, along = kernel.weights
        found = filters_of(node.inputs[place])
        bias = float_bias_of(node.inputs[last]) if len(node.inputs) > last else None
        if found is None or bias is None or found[1][0] is not DType.INT8 or found[1][1] not in (-1, along):
            continue
        count = found[0].shape[along]
        factor, term, gone = _affine_after(node, count)
        before = _factors_before(node, count) if node.op_type == _DEPTHWISE else None
        whole = factor if before is None else factor * before[0]
        if (not gone and before is None) or not np.all(np.isfinite(whole)) or np.any(whole == 0):
            continue
        array, quantization = _scale_filters(found, whole, along)
        if array is None:
            continue
        node.set_input(place, _dequantized(graph, node, array, quantization))
        node.set_input(last, _constant(graph, (bias.reshape(-1) * factor + term).astype(np.float32)))
        for other in gone:
            other.output.replace_uses(other.operands[0])
            graph.remove(other)
        if before is not None:
            before[1].output.replace_uses(before[1].operands[0])
            graph.remove(before[1])


def _feeds_depthwise(node: Node) -> bool:
    """Whether all consumers of a node are depthwise convolutions, possibly after Transposes and padding."""
    users = [use.user for use in node.output.uses]
    if node.output.is_output or not users:
        return False
    for user in users:
        if not isinstance(user, Node) or user.dialect != _DIALECT or user.operand(0) is not node.output:
            return False
        if user.op_type != _DEPTHWISE and not (user.op_type in ("TRANSPOSE", "PAD") and _feeds_depthwise(user)):
            return False
    return True


def _affine_after(node: Node, count: int) -> tuple[Numbers, Numbers, list[Node]]:
    """Return the per-channel factor and term applied before QUANTIZE, and their nodes; 1, 0 and no nodes otherwise."""
    factor, term = np.ones(count), np.zeros(count)
    gone: list[Node] = []
    is_clamped, value = False, node.output
    while True:
        user = _only_user(value)
        if user is None:
            return np.ones(count), np.zeros(count), []
        if user.op_type == "QUANTIZE":
            return factor, term, gone
        other = _channel_constant(user, value, count) if user.op_type in ("MUL", "ADD") else None
        if user.op_type == "MUL" and other is not None and (not is_clamped or np.all(other > 0)):
            factor, term = factor * other, term * other
            gone.append(user)
        elif user.op_type == "ADD" and other is not None and not is_clamped:
            term = term + other
            gone.append(user)
        elif user.op_type == "RELU":
            # ReLU commutes with positive factors.
            is_clamped = True
        elif user.op_type in _CLAMPS:
            return factor, term, gone
        else:
            return np.ones(count), np.zeros(count), []
        value = user.output


def _factors_before(node: Node, count: int) -> tuple[Numbers, Node] | None:
    """Return the per-channel factors by which a MUL scales the operand of a depthwise convolution, and the MUL."""
    first = value = node.operand(0)
    while value is not None and value.producer is not None and _is(value.producer, "PAD") and len(value.uses) == 1:
        value = value.producer.operand(0)
    maker = None if value is None or len(value.uses) != 1 else value.producer
    fact = None if first is None else first.fact
    channels = fact.dims[-1] if isinstance(fact, TensorFact) else None
    if maker is None or not _is(maker, "MUL") or maker.output.is_output or not isinstance(channels, int):
        return None
    other = _channel_constant(maker, maker.operands[0], channels)
    return None if other is None or count % channels else (np.repeat(other, count // channels), maker)


def _only_user(value: Value) -> Node | None:
    user = next(iter(value.uses)).user if len(value.uses) == 1 and not value.is_output else None
    return user if isinstance(user, Node) and user.dialect == _DIALECT else None


def _channel_constant(node: Node, value: Value, count: int) -> Numbers | None:
    """Return the constant operand with one element per channel (last axis)."""
    if node.attributes.get("fused_activation_function") or node.operands[0] is not value:
        return None
    storage = node.operands[1].storage if node.operands[1].is_constant else None
    if storage is None or storage.count not in (1, count) or storage.dtype is not DType.FLOAT32:
        return None
    if storage.count != 1 and storage.shape[-1] != count:
        return None
    numbers = storage.numpy().reshape(-1).astype(np.float64)
    return np.broadcast_to(numbers, (count,)) if np.all(np.isfinite(numbers)) else None


def _scale_filters(
    found: tuple[Numbers, Quantization], factor: Numbers, along: int
) -> tuple[Numbers | None, Quantization]:
    """Multiply filters by a factor per output channel: scale the scales, and negate integers for negative factors."""
    array, (dtype, _, scales, zeros) = found
    if any(zeros) or (np.any(factor < 0) and array.min(initial=0) == _MIN_INT8):
        return None, found[1]
    shape = [1] * array.ndim
    shape[along] = len(factor)
    steps = np.broadcast_to(np.array(scales, np.float64), (len(factor),)) * np.abs(factor)
    signs = np.sign(factor).astype(array.dtype).reshape(shape)
    return array * signs, (dtype, along, tuple(map(float, steps.astype(np.float32))), (0,) * len(factor))


def _dequantized(graph: Graph, before: Node, array: Numbers, quantization: Quantization) -> Value:
    storage = storage_of(np.ascontiguousarray(array))
    value = graph.add_constant(graph.fresh(f"{before.output.name}_w"), TensorFact.of(storage), storage)
    result = Value(graph.fresh(f"{before.output.name}_filters"), TensorFact(DType.FLOAT32, storage.shape))
    attributes: dict[str, Any] = {"quantized": (quantization,)}
    graph.insert_before(
        before, Node("DEQUANTIZE", [value], [result], attributes, dialect=_DIALECT, origin=before.unasked_origin)
    )
    return result


def _multiplied(graph: Graph, value: Value, factor: Numbers, before: Node) -> Value:
    result = Value(graph.fresh(f"{value.name}_even"), value.fact)
    made = Node("MUL", [], [result], {"fused_activation_function": 0}, dialect=_DIALECT, origin=before.unasked_origin)
    graph.insert_before(before, made)
    made.inputs = [value, _constant(graph, factor)]
    return result


def _constant(graph: Graph, array: Numbers) -> Value:
    storage = storage_of(array)
    return graph.add_constant(graph.fresh("of_channels"), TensorFact.of(storage), storage)


def _is(node: Node, op_type: str) -> bool:
    return node.dialect == _DIALECT and node.op_type == op_type


def _quantization(node: Node, name: str) -> Quantization | None:
    entries = node.attributes.get(name)
    return cast("Any", entries)[0] if isinstance(entries, tuple) and entries else None

"""Operators of TFLite between DEQUANTIZE and QUANTIZE, as the integer operators that compute the same within a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from graphport.ops.tflite import Quantization

_DIALECT = "tflite"
_BYTES = 128
"""How far uint8 and int8 are apart."""
_ADD_SHIFT = 20
"""Bits by which ADD moves its operands up before it divides."""
_WEIGHTED = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""Operators with filters and a bias, and the axis of filters along which scales may differ."""
_SUMS = frozenset(("ADD", "MUL"))
_MOVES = frozenset(("RESHAPE", "TRANSPOSE", "PAD", "MAX_POOL_2D"))
"""Operators of which the result has the scale of the first operand."""
_POOLS = frozenset(("AVERAGE_POOL_2D",))
_FUSED = frozenset((*_WEIGHTED, *_SUMS, *_MOVES, *_POOLS, "CONCATENATION"))
_CLAMPS = {"RELU": 1, "RELU6": 3}
_MOST = (1 << 31) - 1


def integers(graph: Graph) -> None:
    """Let operators that read what DEQUANTIZE gives, and give it to one QUANTIZE, compute in int8.

    Before  y = QUANTIZE(RELU(CONV_2D(DEQUANTIZE(x), DEQUANTIZE(w), b)))
    After   y = CONV_2D(x, w, b as integers), with the activation fused
    """
    for node in list(graph):
        if node.word == "QUANTIZE":
            _make_signed(node)
    fused = [node for node in list(graph) if node.word in _FUSED and _fuse(graph, node)]
    if not fused:
        return
    for node in reversed(list(graph)):
        is_ours = node.dialect == _DIALECT and (
            node.word in _FUSED or node.word in _CLAMPS or node.word == "DEQUANTIZE"
        )
        if is_ours and not any(value.uses for value in node.results):
            graph.remove(node)


def _make_signed(node: Node) -> None:
    """Let what only DEQUANTIZE reads be int8 instead of uint8: kernels for uint8 take no scales of each channel."""
    told, users = _entry(node, "quantized_results"), [use.user for use in node.output.uses]
    if told is None or told[0] is not DType.UINT8 or told[1] >= 0 or node.output.is_output or not users:
        return
    readers = [user for user in users if isinstance(user, Node) and user.word == "DEQUANTIZE"]
    fact = node.output.fact
    if len(readers) < len(users) or not isinstance(fact, TensorFact):
        return
    if any(_entry(reader, "quantized") != told for reader in readers):
        return
    signed = _signed(told)
    node.output.fact = TensorFact(DType.INT8, fact.shape)
    node.set_attribute("quantized_results", cast("Any", (signed,)))
    node.set_attribute("types", (DType.INT8,))
    for reader in readers:
        reader.set_attribute("quantized", cast("Any", (signed,)))


def _signed(told: Quantization) -> Quantization:
    return DType.INT8, told[1], told[2], tuple(zero - _BYTES for zero in told[3])


def _fuse(graph: Graph, node: Node) -> bool:
    """Whether an integer operator has taken the place of a node."""
    end = _end(node)
    if end is None or node.attributes.get("quantized") is not None:
        return False
    activation, last = end
    told = _entry(last, "quantized_results")
    if told is None or told[0] is not DType.INT8 or told[1] >= 0 or activation is None:
        return False
    if activation and (node.word == "CONCATENATION" or (node.word in _MOVES and node.word != "MAX_POOL_2D")):
        # Kernels clamp nothing there.
        return False
    operands = _operands(graph, node, told)
    if operands is None:
        return False
    values, entries = operands
    attributes: dict[str, Any] = {**node.attributes, "quantized": tuple(entries), "quantized_results": (told,)}
    attributes["types"] = (DType.INT8,)
    if activation:
        attributes["fused_activation_function"] = activation
    fact = last.output.fact
    result = Value(graph.fresh(f"{last.output.name}_int8"), fact)
    graph.insert_after(node, made := Node(node.word, [], [result], attributes, dialect=_DIALECT, origin=node.origin))
    made.inputs = values
    if last.output.is_output:
        name = last.output.name
        graph.rename(last.output, graph.fresh(f"{name}_unused"))
        graph.rename(result, name)
    last.output.replace_uses(result)
    graph.remove(last)
    return True


def _end(node: Node) -> tuple[int | None, Node] | None:
    """The activation behind a node, and the QUANTIZE behind that; `None` if anything else reads the result."""
    activation = node.attributes.get("fused_activation_function", 0)
    found = cast("int", activation)
    value = node.output
    for _ in range(2):
        if len(value.uses) != 1 or value.is_output or not isinstance(user := next(iter(value.uses)).user, Node):
            return None
        if user.word == "QUANTIZE":
            return found, user
        if user.word not in _CLAMPS or found:
            return None
        found, value = _CLAMPS[user.word], user.output
    return None


def _entry(node: Node, name: str) -> Quantization | None:
    told = node.attributes.get(name)
    return cast("Any", told)[0] if isinstance(told, tuple) and told else None


def _operands(
    graph: Graph, node: Node, result: Quantization
) -> tuple[list[Value | None], list[Quantization | None]] | None:
    word = node.word
    count = 1 if word in _WEIGHTED or word in _MOVES or word in _POOLS else len(node.inputs)
    told = [_stands(value) for value in node.inputs[:count]]
    if any(each is None for each in told):
        return None
    entries = told
    if word not in _WEIGHTED and word not in _SUMS and any(each != result for each in entries):
        return None
    if word == "ADD" and 2 * max(cast("Quantization", each)[2][0] for each in entries) >= result[2][0] * 2**_ADD_SHIFT:
        # Its kernel ends the process.
        return None
    rest: list[Value | None] = list(node.inputs[count:])
    if word in _WEIGHTED:
        found = _weights(graph, node, cast("Quantization", entries[0]))
        if found is None:
            return None
        rest, more = found
        entries = [*entries, *more]
    values: list[Value | None] = [_stored(graph, node, cast("Value", value)) for value in node.inputs[:count]]
    return [*values, *rest], [*entries, *[None] * (len(values) + len(rest) - len(entries))]


def _stands(value: Value | None) -> Quantization | None:
    """What integers there are for a value; `None` if there are none."""
    node = None if value is None else value.producer
    if node is None or node.dialect != _DIALECT:
        return None
    if node.word == "DEQUANTIZE":
        told = _entry(node, "quantized")
        return told if told is not None and told[0] is DType.INT8 and told[1] < 0 else None
    if node.word in _MOVES and not node.attributes.get("fused_activation_function"):
        return _stands(node.inputs[0])
    return None


def _stored(graph: Graph, before: Node, value: Value) -> Value:
    """The integers for a value for which there are some."""
    node = cast("Node", value.producer)
    first = cast("Value", node.inputs[0])
    if node.word == "DEQUANTIZE":
        return first
    told = _stands(value)
    fact = cast("TensorFact", value.fact)
    result = Value(graph.fresh(f"{value.name}_int8"), TensorFact(DType.INT8, fact.shape))
    entries = (told, *[None] * (len(node.inputs) - 1))
    attributes: dict[str, Any] = {**node.attributes, "quantized": entries, "quantized_results": (told,)}
    attributes["types"] = (DType.INT8,)
    source = _stored(graph, before, first)
    made = Node(node.word, [], [result], attributes, dialect=_DIALECT, origin=node.unasked_origin)
    graph.insert_before(before, made)
    made.inputs = [source, *node.inputs[1:]]
    return result


def _weights(graph: Graph, node: Node, x: Quantization) -> tuple[list[Value | None], list[Quantization | None]] | None:
    """Filters in int8, and the bias in steps of the products."""
    found = _filters(node.inputs[1])
    bias = _reals(node.inputs[2]) if len(node.inputs) > 2 else None
    if found is None or bias is None:
        return None
    array, told = found
    along = _WEIGHTED[node.word]
    if told[0] is not DType.INT8 or any(told[3]) or told[1] not in (-1, along):
        return None
    if array.min(initial=0) == -_BYTES:
        # Kernels multiply in 16 bits what is symmetric.
        return None
    steps = np.array(told[2], np.float64) * np.float32(x[2][0])
    numbers = np.round(bias.reshape(-1).astype(np.float64) / steps)
    if np.abs(numbers).max(initial=0) > _MOST:
        return None
    weights, counts = storage_of(array), storage_of(numbers.astype(np.int32))
    values = [
        graph.add_constant(f"{node.output.name}_w", TensorFact.of(weights), weights),
        graph.add_constant(f"{node.output.name}_b", TensorFact.of(counts), counts),
    ]
    by_axis = 0 if told[1] >= 0 else -1
    products: Quantization = (DType.INT32, by_axis, tuple(map(float, steps)), (0,) * len(told[2]))
    return list(values), [told, products]


def _filters(value: Value | None) -> tuple[np.ndarray[Any, Any], Quantization] | None:
    """The stored numbers of constant filters, in their order of axes."""
    node = None if value is None else value.producer
    if node is None or node.dialect != _DIALECT:
        return None
    first = node.inputs[0]
    if node.word == "DEQUANTIZE" and first is not None and first.storage is not None and first.is_constant:
        told = _entry(node, "quantized")
        if told is None:
            return None
        if told[0] is not DType.UINT8:
            return first.storage.numpy(), told
        return (first.storage.numpy().astype(np.int16) - _BYTES).astype(np.int8), _signed(told)
    order = node.inputs[1] if node.word == "TRANSPOSE" else None
    found = _filters(first) if order is not None and order.storage is not None else None
    if found is None or order is None or order.storage is None:
        return None
    perm = [int(axis) for axis in order.storage.numpy()]
    array, (dtype, axis, scales, zeros) = found
    return np.ascontiguousarray(array.transpose(perm)), (dtype, perm.index(axis) if axis >= 0 else -1, scales, zeros)


def _reals(value: Value | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a constant bias, which may be made out of integers."""
    if value is None:
        return None
    if value.is_constant and value.storage is not None:
        return value.storage.numpy()
    node = value.producer
    if node is None or node.dialect != _DIALECT:
        return None
    if node.word == "RESHAPE":
        return _reals(node.inputs[0])
    found = _filters(value)
    if found is None or found[0].ndim != 1:
        return None
    array, (_, _, scales, zeros) = found
    return (array.astype(np.float64) - np.array(zeros)) * np.array(scales)

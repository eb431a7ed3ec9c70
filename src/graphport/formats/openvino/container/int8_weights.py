"""Weights in a quarter of the bytes: eight bits each, with a scale and a zero point for each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import CHUNK, ArrayStorage, Bytes, Storage
from graphport.formats.openvino.container import operators
from graphport.formats.openvino.container.weights import Coded
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph

_MIN_ELEMENTS = 64
"""Weights with fewer elements are not compressed: the scales would cost more than is saved."""
_STEPS = 255
_FLOATS = frozenset({DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16})


class ChannelParameters(NamedTuple):
    """Steps of each channel: a number w is the integer `round(w / scale) + zero`, within 0 and 255."""

    scale: np.ndarray[Any, Any]
    zero: np.ndarray[Any, Any]


class Int8Weights(Storage):
    """Elements of another storage, quantized to 8 bits on access."""

    __slots__ = ("channel_parameters", "of")

    def __init__(self, of: Storage, channel_parameters: ChannelParameters) -> None:
        super().__init__(DType.UINT8, of.shape)
        self.of = of
        self.channel_parameters = channel_parameters

    def numpy(self) -> np.ndarray[Any, Any]:
        array = np.concatenate([*self._chunks_of_rows()]) if self.shape[0] else np.empty(self.shape, np.uint8)
        array.flags.writeable = False
        return array

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        for piece in self._chunks_of_rows():
            yield from Bytes(piece.reshape(-1).data).chunks(0, piece.nbytes, limit)

    def _chunks_of_rows(self) -> Iterator[np.ndarray[Any, Any]]:
        """Yield slices along the first axis that take a few megabytes as float32."""
        numbers = self.of.numpy()
        rows = max(1, CHUNK * self.shape[0] // max(1, self.count * 4))
        for start in range(0, self.shape[0], rows):
            piece = slice(start, start + rows)
            scale, zero = (each[piece] if each.shape[0] > 1 else each for each in self.channel_parameters)
            steps = np.rint(numbers[piece].astype(np.float32) / scale) + zero
            yield np.clip(steps, 0, _STEPS).astype(np.uint8)


def int8_weights(graph: Graph) -> Graph:
    """Return a copy of a graph whose large weights are uint8 and dequantized where they are used.

    Before  y = MatMul(x, w)
    After   y = MatMul(x, Multiply(Subtract(Convert(c), Convert(z)), s))  with uint8 c and, for each channel,
            s = (max(w, 0) - min(w, 0)) / 255 and z = round(-min(w, 0) / s)

    The error of a weight is at most s / 2, and 0 is exact. `operators.txt` declares the weight operand of an operation
    and its channel axes. Does not apply to weights with few elements, with elements that are not finite, of types
    narrower than float16, and to graph outputs.
    """
    result = rewrite.copy(graph)
    for inner in walk(result):
        for node in list(inner):
            _reduce(inner, node)
    return result


def _reduce(graph: Graph, node: Node) -> None:
    operator = operators.find_operator(node.op_type) if node.dialect == "openvino" else None
    if operator is None or operator.weights is None:
        return
    value = node.operand(operator.weights.operand)
    source = None if value is None else _source(value)
    if value is None or source is None or source.storage is None or not _is_fit(source, value):
        return
    axes = operator.weights.channels(len(source.storage.shape), swaps=bool(node.attributes.get("transpose_b")))
    channel_parameters = _channel_parameters(source.storage, axes)
    if channel_parameters is not None:
        _replace(graph, node, value, source, channel_parameters)


def _source(value: Value) -> Value | None:
    """Return the constant that `value` is, or that it is cast from."""
    maker = value.producer
    if maker is not None and maker.dialect == "openvino" and maker.op_type == "opset1.Convert":
        found = maker.operand(0)
        return found if found is not None and found.is_constant else None
    return value if value.is_constant else None


def _is_fit(source: Value, value: Value) -> bool:
    storage, fact = source.storage, value.fact
    wide = isinstance(fact, TensorFact) and fact.dtype is DType.FLOAT32
    if storage is None or isinstance(storage, Coded) or storage.dtype not in _FLOATS or not wide:
        return False
    return len(storage.shape) > 1 and storage.count >= _MIN_ELEMENTS and not (value.is_output or source.is_output)


def _channel_parameters(storage: Storage, channels: tuple[int, ...]) -> ChannelParameters | None:
    """Return scale and zero point of each channel; `None` if an element is not finite."""
    numbers = storage.numpy()
    others = tuple(axis for axis in range(numbers.ndim) if axis not in channels)
    low = np.minimum(numbers.min(others, keepdims=True), 0).astype(np.float32)
    high = np.maximum(numbers.max(others, keepdims=True), 0).astype(np.float32)
    if not np.isfinite(low).all() or not np.isfinite(high).all():
        return None
    with np.errstate(over="ignore"):
        width = high - low
    if not np.isfinite(width).all():
        return None
    scale = np.where(width > 0, width / np.float32(_STEPS), np.float32(1))
    # Subnormal scales would be flushed to 0.
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    return ChannelParameters(scale, np.clip(np.rint(-low / scale), 0, _STEPS).astype(np.float32))


def _replace(graph: Graph, node: Node, value: Value, source: Value, channel_parameters: ChannelParameters) -> None:
    """Replace all uses of `value` by its dequantized copy, inserted before the first user."""
    storage = source.storage
    if storage is None:
        return
    stem = value.name
    first = node if value.producer is None else value.producer
    if value.producer is None:
        first = next((each for each in graph if value in each.operands), node)
    steps = _convert(graph, first, f"{stem}_compressed", Int8Weights(storage, channel_parameters))
    zero = _convert(graph, first, f"{stem}_zero", ArrayStorage(channel_parameters.zero.astype(np.uint8), DType.UINT8))
    scale = ArrayStorage(channel_parameters.scale, DType.FLOAT32)
    scales = graph.add_constant(f"{stem}_scale", TensorFact.of(scale), scale)
    centred = _computed(graph, first, "opset1.Subtract", [steps, zero], f"{stem}_centred", value.fact)
    wide = _computed(graph, first, "opset1.Multiply", [centred, scales], stem, value.fact)
    value.replace_uses(wide)
    rewrite.swap_names(value, wide)
    if value.producer is not None:
        graph.remove(value.producer)
    if not source.uses:
        graph.remove_constant(source)


def _convert(graph: Graph, first: Node, name: str, storage: Storage) -> Value:
    small = graph.add_constant(name, TensorFact.of(storage), storage)
    fact = TensorFact(DType.FLOAT32, storage.shape)
    wide = Value(graph.fresh(f"{name}_wide"), fact)
    node = Node("opset1.Convert", [small], [wide], {"destination_type": DType.FLOAT32}, dialect="openvino")
    graph.insert_before(first, node)
    return wide


def _computed(graph: Graph, first: Node, op_type: str, operands: list[Value], name: str, fact: Fact) -> Value:
    made = Value(graph.fresh(name), fact)
    graph.insert_before(first, Node(op_type, operands, [made], {}, dialect="openvino"))
    return made

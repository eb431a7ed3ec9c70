"""Products of dynamically quantized rows: as nodes, and as TFLite's hybrid operators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Graph

    Array = np.ndarray[Any, Any]

_LEAST, _MOST = -128.0, 127.0
_MIN_SCALE = 2.0**-100
"""Scale of a row of zeros, whose codes all equal the zero point."""


_HYBRID = frozenset(
    (
        *("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "BATCH_MATMUL", "SVDF", "RNN", "LSTM"),
        *("UNIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN"),
        "BIDIRECTIONAL_SEQUENCE_LSTM",
    )
)
_WEIGHTS = frozenset((DType.INT4, DType.INT8, DType.UINT8))


def is_hybrid(node: Node) -> bool:
    """Whether LiteRT quantizes the float operand of an operator at run time because its weights are integers."""
    if node.dialect != "tflite" or node.op_type not in _HYBRID:
        return False
    kinds = [value.fact.dtype if value and isinstance(value.fact, TensorFact) else None for value in node.inputs]
    return kinds[:1] == [DType.FLOAT32] and not _WEIGHTS.isdisjoint(kinds[1:])


def rounded_rows(put: Callable[..., Any], x: Any) -> tuple[Any, Any]:
    """Quantize each row of `x` to 8 bits; return the integers minus their zero point, and the scale of each row.

    `put` creates a node from an op type, operands (constants as arrays) and attributes. The range of a row includes
    zero and has 255 steps, as LiteRT's kernels quantize the operand of float32 x int8 products.

    Shapes: x [..., k]; the integers like x, the scales [..., 1].
    """
    axes, zero = np.array([-1]), np.float32(0)
    low = put("Min", put("ReduceMin", x, axes, keepdims=1), zero)
    high = put("Max", put("ReduceMax", x, axes, keepdims=1), zero)
    step = put("Max", put("Mul", put("Sub", high, low), np.float32(1 / 255)), np.float32(_MIN_SCALE))
    middle = put("Round", put("Sub", np.float32(_LEAST), put("Div", low, step)))
    moved = put("Add", put("Round", put("Div", x, step)), middle)
    codes = put("Clip", moved, np.float32(_LEAST), np.float32(_MOST))
    return put("Sub", codes, middle), step


@dataclass(frozen=True, slots=True)
class _NodePattern:
    """An expected node: op type and operands."""

    op: str
    operands: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])


def _expected(op: str, *operands: Any, **attributes: Any) -> _NodePattern:
    return _NodePattern(op, operands, attributes)


def _is(value: Value | None, expected: Any, known: dict[int, Value]) -> bool:
    """Whether a value is computed by the expected nodes; a repeated pattern must match the same value."""
    if value is None or isinstance(expected, Value):
        return value is expected
    if isinstance(expected, _NodePattern):
        if id(expected) in known:
            return known[id(expected)] is value
        maker = value.producer
        is_alike = maker is not None and not maker.dialect and maker.op == expected.op
        if not is_alike or maker is None or len(maker.inputs) != len(expected.operands):
            return False
        if any(maker.attributes.get(name) != x for name, x in expected.attributes.items()):
            return False
        known[id(expected)] = value
        return all(_is(one, other, known) for one, other in zip(maker.inputs, expected.operands, strict=True))
    stored = value.storage if value.is_constant else None
    return stored is not None and bool(np.array_equal(stored.numpy().reshape(-1), np.reshape(expected, -1)))


def products_of_rows(graph: Graph) -> None:
    """Recompose products of quantized rows as `FULLY_CONNECTED` of float32 and int8.

    Before  r, t = rounded_rows(x);  y = MatMul(r, Cast(w)) * t * s + b       w [k, n] int8, s [1] or [n]
    After   y = FULLY_CONNECTED(x, transpose(w), b)
    """
    for node in list(graph):
        if node.graph is graph and not node.dialect and node.op == "Mul":
            _fuse(graph, node)
    rewrite.remove_dead(graph)


def _fuse(graph: Graph, node: Node) -> None:
    scaled, steps = node.operands[0].producer, node.operands[1]
    product = scaled.operands[0].producer if scaled is not None and scaled.op == "Mul" else None
    if scaled is None or product is None or product.op != "MatMul" or steps.storage is None:
        return
    less, filters = product.operands[0].producer, product.operands[1].producer
    codes = None if filters is None or filters.op != "Cast" else filters.operands[0].storage
    if less is None or codes is None or codes.dtype is not DType.INT8 or len(codes.shape) != 2:
        return
    source = _quantized_value(less)
    if source is None:
        return
    rows, step = rounded_rows(_expected, source)
    known: dict[int, Value] = {}
    if not _is(product.operands[0], rows, known) or not _is(scaled.operands[1], step, known):
        return
    last, bias = _biased(node, codes.shape[1])
    scales = tuple(map(float, steps.storage.numpy().reshape(-1)))
    if len(scales) not in (1, codes.shape[1]):
        return
    quantization = (DType.INT8, 0 if len(scales) > 1 else -1, scales, (0,) * len(scales))
    weights = storage_of(np.ascontiguousarray(codes.numpy().T))
    addends = storage_of(np.zeros(codes.shape[1], np.float32) if bias is None else bias)
    name = filters.operands[0].name if filters is not None else "w"
    operands = [
        source,
        graph.add_constant(graph.fresh(name), TensorFact.of(weights), weights),
        graph.add_constant(graph.fresh(f"{name}_bias"), TensorFact.of(addends), addends),
    ]
    rank = len(cast("TensorFact", source.fact).shape or ())
    attributes: dict[str, Any] = {"asymmetric_quantize_inputs": True, "keep_num_dims": rank != 2}
    attributes |= {"quantized": (None, quantization, None), "types": (DType.FLOAT32,)}
    made = Node("FULLY_CONNECTED", [], [], attributes, dialect="tflite", name=last.name, origin=last.origin)
    graph.insert_before(last, made)
    made.inputs = list(operands)
    made.take_outputs(last)
    graph.remove(last)


def _quantized_value(difference: Node) -> Value | None:
    """Return x of Sub(Clip(Add(Round(Div(x, scale)), zero), ...), zero), the expanded quantization of x."""
    node: Node | None = difference
    for op in ("Sub", "Clip", "Add", "Round"):
        if node is None or node.op != op:
            return None
        node = node.operands[0].producer
    return None if node is None or node.op != "Div" else node.operands[0]


def _biased(node: Node, count: int) -> tuple[Node, Array | None]:
    """Return the node that adds the bias to the product, and the bias."""
    users = node.output.users
    adder = users[0] if len(users) == 1 and not node.output.is_output else None
    if adder is None or adder.op != "Add" or adder.operands[0] is not node.output:
        return node, None
    stored = adder.operands[1].storage if adder.operands[1].is_constant else None
    if stored is None or stored.shape != (count,):
        return node, None
    return adder, stored.numpy().astype(np.float32)

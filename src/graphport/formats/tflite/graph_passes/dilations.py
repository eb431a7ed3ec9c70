"""Replace SPACE_TO_BATCH, convolution, BATCH_TO_SPACE by a dilated convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.ir.graph import Node, Value
from graphport.ops.lowering.operands import integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Attribute, Graph

_DIALECT = "tflite"
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_SPLIT, _MERGE = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"
_WIDENS, _NARROWS = frozenset(("EXPAND_DIMS", "RESHAPE")), frozenset(("SQUEEZE", "RESHAPE"))
_VALID, _IMAGE = 1, 4


@dataclass(frozen=True, slots=True)
class _Chain:
    """The nodes around a convolution: `axis` is the temporary axis of length 1 of a 1-D signal, 0 for images."""

    split: Node
    convolution: Node
    narrows: Node | None
    merge: Node
    axis: int
    blocks: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]


def dilate(graph: Graph) -> None:
    """Replace a convolution between SPACE_TO_BATCH and BATCH_TO_SPACE by a dilated convolution.

    Before  h = SPACE_TO_BATCH_ND(x, blocks, pads);  k = CONV_2D(h, w, bias);  y = BATCH_TO_SPACE_ND(k, blocks, crops)
    After   h = PAD(x, pads - crops);  y = CONV_2D(h, w, bias, dilations=blocks)

    A 1-D signal may gain an axis of length 1 after the first and drop it before the last node. Results are bit-exact.
    Does not apply with strides, with padding in the convolution, if crops exceed the pads, or if an intermediate value
    has another consumer.
    """
    for node in list(graph):
        if node.dialect == _DIALECT and node.op_type in _CONVOLUTIONS and (chain := _chain(node)) is not None:
            _replace(graph, chain)


def _chain(node: Node) -> _Chain | None:
    attributes = node.attributes
    plain = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": _VALID}
    if any(attributes.get(name, 1) != value for name, value in plain.items()):
        return None
    before, after = _producer(node.operand(0)), _only_consumer(node)
    widens = before if before is not None and before.op_type in _WIDENS else None
    narrows = after if after is not None and after.op_type in _NARROWS else None
    split = before if widens is None else _producer(widens.operand(0))
    merge = after if narrows is None else _only_consumer(narrows)
    if split is None or merge is None or (widens is None) != (narrows is None):
        return None
    if split.op_type != _SPLIT or merge.op_type != _MERGE or not _is_alike(split, node, merge):
        return None
    axis = 0 if widens is None else _axis(_dims(split.output), _dims(node.operand(0)))
    if axis is None or (narrows is not None and _axis(_dims(narrows.output), _dims(node.output)) != axis):
        return None
    blocks, others = integers(split.operand(1)), integers(merge.operand(1))
    pads, crops = integers(split.operand(2)), integers(merge.operand(2))
    rank = len(_dims(split.operand(0)))
    if (
        not blocks
        or blocks != others
        or pads is None
        or crops is None
        or not len(pads) == len(crops) == 2 * len(blocks)
    ):
        return None
    if len(blocks) != rank - 2 or rank + (axis > 0) != _IMAGE or min(blocks) < 1:
        return None
    left = [pad - crop for pad, crop in zip(pads, crops, strict=True)]
    whole = [_dims(split.operand(0))[1 + place] for place in range(len(blocks))]
    if min(left) < 0 or not all(isinstance(n, int) for n in whole):
        return None
    padded = [n + pads[2 * place] + pads[2 * place + 1] for place, n in enumerate(whole)]
    if any(n % block for n, block in zip(padded, blocks, strict=True)):
        return None
    return _Chain(split, node, narrows, merge, axis, blocks, tuple(zip(left[::2], left[1::2], strict=True)))


def _producer(value: Value | None) -> Node | None:
    node = None if value is None else value.producer
    return node if node is not None and node.dialect == _DIALECT and len(node.results) == 1 else None


def _only_consumer(node: Node) -> Node | None:
    """Return the only consumer of a node's result, if it reads the result as its first operand."""
    if len(node.results) != 1 or node.output.is_output or len(node.output.uses) != 1:
        return None
    (user,) = node.output.users
    return user if user.dialect == _DIALECT and len(user.results) == 1 and user.operand(0) is node.output else None


def _dims(value: Value | None) -> tuple[Dim, ...]:
    fact = None if value is None else value.fact
    return fact.shape or () if isinstance(fact, TensorFact) else ()


def _axis(narrow: tuple[Dim, ...], wide: tuple[Dim, ...]) -> int | None:
    """Return the axis of length 1 (1 or 2) by which an image [N, H, W, C] differs from a 1-D signal [N, L, C]."""
    for axis in (1, 2):
        if len(wide) == _IMAGE and wide[axis] == 1 and (*wide[1:axis], *wide[axis + 1 :]) == narrow[1:]:
            return axis
    return None


def _is_alike(space_to_batch: Node, node: Node, batch_to_space: Node) -> bool:
    """Whether SPACE_TO_BATCH and BATCH_TO_SPACE keep the quantization parameters of operand and convolution result."""

    def attribute_of(each: Node, name: str) -> object:
        found = each.attributes.get(name)
        return found[0] if isinstance(found, tuple) and found else None

    moved = all(
        attribute_of(each, "quantized") == attribute_of(each, "quantized_results")
        for each in (space_to_batch, batch_to_space)
    )
    return moved and attribute_of(node, "quantized_results") == attribute_of(batch_to_space, "quantized_results")


def _replace(graph: Graph, chain: _Chain) -> None:
    node, split, axis = chain.convolution, chain.split, chain.axis
    x = _padded(graph, chain)
    if axis:
        shape = (*_dims(x)[:axis], 1, *_dims(x)[axis:])
        x = _emit(graph, node, "EXPAND_DIMS", [x, _ints(graph, axis)], _moving(split), (x.dtype, shape))
    factors = list(chain.blocks)
    if axis:
        factors.insert(axis - 1, 1)
    attributes = {**node.attributes, "dilation_h_factor": factors[0], "dilation_w_factor": factors[1]}
    results: list[Value] = []
    if axis:
        shape = (*_dims(chain.merge.output)[:axis], 1, *_dims(chain.merge.output)[axis:])
        results = [Value(graph.fresh(node.output.name), TensorFact(node.output.dtype, shape))]
    twin = Node(node.op_type, [x, *node.inputs[1:]], results, attributes, dialect=_DIALECT, origin=node.unasked_origin)
    graph.insert_before(chain.merge, twin)
    if axis:
        squeezed = {**_moving(chain.merge), "squeeze_dims": (axis,)}
        narrow = Node("SQUEEZE", list(results), [], squeezed, dialect=_DIALECT, origin=node.unasked_origin)
        graph.insert_before(chain.merge, narrow)
        narrow.take_outputs(chain.merge)
    else:
        twin.take_outputs(chain.merge)
    gone = [chain.merge, chain.narrows, node, _producer(node.operand(0)), split]
    for each in gone:
        if (
            each is not None
            and each.graph is graph
            and not any(value.uses or value.is_output for value in each.results)
        ):
            graph.remove(each)


def _padded(graph: Graph, chain: _Chain) -> Value:
    x = chain.split.operands[0]
    if not any(map(any, chain.pads)):
        return x
    dims = list(_dims(x))
    for place, (first, last) in enumerate(chain.pads):
        dims[1 + place] = dims[1 + place] + first + last
    table = [[0, 0], *map(list, chain.pads), [0, 0]]
    return _emit(graph, chain.convolution, "PAD", [x, _ints(graph, table)], _moving(chain.split), (x.dtype, dims))


def _emit(
    graph: Graph,
    before: Node,
    op_type: str,
    operands: list[Value],
    attributes: dict[str, Attribute],
    fact: tuple[DType | None, Sequence[Dim]],
) -> Value:
    result = Value(graph.fresh(before.output.name), TensorFact(fact[0], tuple(fact[1])))
    node = Node(op_type, operands, [result], attributes, dialect=_DIALECT, origin=before.unasked_origin)
    graph.insert_before(before, node)
    return result


def _moving(node: Node) -> dict[str, Attribute]:
    """Return the quantization attributes of a data movement, adapted to a node with two operands."""
    attributes = node.attributes
    found = {name: attributes[name] for name in ("quantized_results", "types") if name in attributes}
    quantized = attributes.get("quantized")
    return {**found, "quantized": (quantized[0], None)} if isinstance(quantized, tuple) and quantized else found


def _ints(graph: Graph, numbers: object) -> Value:
    storage = store_array(np.array(numbers, np.int32), DType.INT32)
    return graph.add_constant("places", TensorFact.of(storage), storage)

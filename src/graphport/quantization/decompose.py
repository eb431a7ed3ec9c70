"""Decompose operators without a suitable integer kernel, for models that compute on integers alone."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant
from graphport.quantization.canonicalize import float_attribute, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph

_IMAGE_RANK = 4


def decompose(graph: Graph, operators: Collection[str]) -> Graph:
    """Return `graph`, or a copy in which nodes of `operators` are decomposed.

    Before  y = HardSigmoid(x, alpha=a, beta=b)
    After   y = Mul(Clip(Add(x, b / a), 0, 1 / a), a)

    Before  y, z = Split(x)
    After   y = Slice(x, 0, n);  z = Slice(x, n, m)

    Before  y = ReduceSum(x, axes)
    After   y = Mul(ReduceMean(x, axes), count)

    Before  y = AveragePool(x, kernel_shape=(h, w))
    After   y = Conv(x, [C, 1, h, w] of 1 / (h w), group=C)

    Before  y = Clip(x, a, b)
    After   y = Min(Max(x, a), b)

    A Clip is decomposed only where it cannot be fused into the node before it.
    """
    rules = {op: _RULES[op] for op in operators}
    if not any(rules[node.op][0](node) for node in graph if not node.dialect and node.op in rules):
        return graph
    twin = rewrite.copy(graph)
    for node in list(twin):
        if not node.dialect and node.op in rules and rules[node.op][0](node):
            rules[node.op][1](twin, node)
    rewrite.remove_dead(twin)
    return twin


def _is_hard_sigmoid(node: Node) -> bool:
    return float_attribute(node, "alpha", 0.2) > 0


def _sum_clip_product(graph: Graph, node: Node) -> None:
    alpha, beta = float_attribute(node, "alpha", 0.2), float_attribute(node, "beta", 0.5)
    x, result = node.operands[0], node.output
    numbers = {"shift": beta / alpha, "least": 0.0, "most": 1 / alpha, "slope": alpha}
    shift, least, most, slope = (
        add_constant(graph, np.asarray(number, np.float32), f"{result.name}_{name}") for name, number in numbers.items()
    )
    total, clipped, product = (
        Value(graph.fresh(f"{result.name}_{name}"), result.fact) for name in ("shifted", "clipped", "scaled")
    )
    graph.insert_before(node, Node("Add", [x, shift], [total], origin=node.origin))
    graph.insert_before(node, Node("Clip", [total, least, most], [clipped], origin=node.origin))
    new = Node("Mul", [clipped, slope], [product], name=node.name, origin=node.origin)
    graph.insert_before(node, new)
    rewrite.replace(result, product, keep=[new])


def _is_uniform_pool(node: Node) -> bool:
    """Whether all windows of an AveragePool have the same number of elements."""
    if len(dims := shape_of(node.operands[0])) != _IMAGE_RANK:
        return False
    is_whole = not any(node.attributes.get(name) for name in ("ceil_mode", "dilations"))
    is_padded = any(_ints(node, "pads")) or node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    return is_whole and isinstance(dims[1], int) and (bool(node.attributes.get("count_include_pad")) or not is_padded)


def _depthwise(graph: Graph, node: Node) -> None:
    """Replace an AveragePool by a depthwise Conv: its result may have a finer scale than its operand."""
    channels, kernel = shape_of(node.operands[0])[1], _ints(node, "kernel_shape")
    if not isinstance(channels, int):
        return
    weight = np.full((channels, 1, *kernel), 1 / prod(kernel), np.float32)
    attributes = {name: x for name, x in node.attributes.items() if name in ("strides", "pads", "auto_pad")}
    made = Value(graph.fresh(f"{node.output.name}_means"), node.output.fact)
    operands = [node.operands[0], add_constant(graph, weight, f"{node.output.name}_weight")]
    attributes |= {"group": channels, "kernel_shape": kernel}
    new = Node("Conv", operands, [made], attributes, name=node.name, origin=node.origin)
    graph.insert_before(node, new)
    rewrite.replace(node.output, made, keep=[new])


def _is_separate_clip(node: Node) -> bool:
    """Whether a Clip cannot be fused into the node before it."""
    return len(node.operands[0].uses) > 1 or node.operands[0].is_input


def _max_min(graph: Graph, node: Node) -> None:
    value, result = node.operands[0], node.output
    limits = [
        (op_type, limit) for op_type, limit in zip(("Max", "Min"), node.inputs[1:], strict=False) if limit is not None
    ]
    for op_type, limit in limits:
        made = Value(graph.fresh(f"{result.name}_{op_type.lower()}"), result.fact)
        graph.insert_before(node, Node(op_type, [value, limit], [made], name=node.name, origin=node.origin))
        value = made
    rewrite.replace(result, value)


def _is_static_split(node: Node) -> bool:
    return all(isinstance(n, int) for n in _split_lengths(node))


def _split_lengths(node: Node) -> list[Dim | None]:
    shapes, axis = [shape_of(value) for value in node.results], int(float_attribute(node, "axis", 0))
    return [shape[axis] if -len(shape) <= axis < len(shape) else None for shape in shapes]


def _slices(graph: Graph, node: Node) -> None:
    axis, start = int(float_attribute(node, "axis", 0)), 0
    axes = add_constant(graph, np.array([axis]), f"{node.results[0].name}_axis")
    for result, length in zip(node.results, _split_lengths(node), strict=True):
        end = start + length if isinstance(length, int) else start
        ends = [
            add_constant(graph, np.array([n]), f"{result.name}_{name}") for name, n in (("from", start), ("to", end))
        ]
        made = Value(graph.fresh(f"{result.name}_slice"), result.fact)
        graph.insert_before(node, Node("Slice", [node.operands[0], *ends, axes], [made], origin=node.origin))
        rewrite.replace(result, made)
        start = end


def _is_static_sum(node: Node) -> bool:
    if node.output.dtype is not DType.FLOAT32:
        return False
    return isinstance(_summed_count(node), int)


def _summed_count(node: Node) -> int | None:
    """Return the number of elements in a sum; `None` if it is unknown."""
    dims, axes = shape_of(node.operands[0]), node.operand(1)
    if axes is None or axes.storage is None or not axes.storage.count:
        return None
    numbers = cast("list[int]", axes.storage.numpy().reshape(-1).tolist())
    extents = [dims[axis] for axis in numbers if -len(dims) <= axis < len(dims)]
    known = [extent for extent in extents if isinstance(extent, int)]
    return prod(known) if len(known) == axes.storage.count else None


def _mean_times_count(graph: Graph, node: Node) -> None:
    count = add_constant(graph, np.asarray(_summed_count(node), np.float32), f"{node.output.name}_count")
    mean, product = (Value(graph.fresh(f"{node.output.name}_{name}"), node.output.fact) for name in ("mean", "sum"))
    new = Node("Mul", [mean, count], [product], name=node.name, origin=node.origin)
    graph.insert_before(node, Node("ReduceMean", node.inputs, [mean], node.attributes, origin=node.origin))
    graph.insert_before(node, new)
    rewrite.replace(node.output, product)


def _ints(node: Node, name: str) -> tuple[int, ...]:
    found = node.attributes.get(name, ())
    return tuple(int(n) for n in found if isinstance(n, int)) if isinstance(found, tuple) else ()


_RULES: dict[str, tuple[Callable[[Node], bool], Callable[[Graph, Node], None]]] = {
    "HardSigmoid": (_is_hard_sigmoid, _sum_clip_product),
    "Clip": (_is_separate_clip, _max_min),
    "Split": (_is_static_split, _slices),
    "ReduceSum": (_is_static_sum, _mean_times_count),
    "AveragePool": (_is_uniform_pool, _depthwise),
}

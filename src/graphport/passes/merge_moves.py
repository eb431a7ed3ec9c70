"""Merge consecutive operators that only move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops import registry
from graphport.ops.products import constant_elements, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import shape_of
from graphport.passes.resolve_shapes import target_shape
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def merge_reshapes(graph: Graph, journal: Journal) -> None:
    """Merge a Reshape, Flatten, Squeeze or Unsqueeze with the one before it.

    Before  h = Unsqueeze(x, [1]);  y = Reshape(h, [0, -1])        x [N, 3, 4]
    After   y = Reshape(x, [0, -1])

    Does not apply if no constant target expresses the shape. Preserves values bit for bit.
    """
    apply(graph, journal, _merge_reshape, registry.stating("reshapes").keys())


def _merge_reshape(node: Node) -> str | None:
    value = node.operand(0)
    before = None if value is None else value.producer
    if before is None or before.op not in registry.stating("reshapes") or before.graph is not node.graph:
        return None
    source = before.operand(0)
    if source is None:
        return None
    shape = shape_of(node.output)
    target = None if shape is None or 0 in shape else target_shape(shape, shape_of(source) or ())
    if target is None:
        return None
    constant = add_constant(graph_of(node), np.array(target, np.int64), f"{node.output.name}.shape")
    node.op_type = "Reshape"
    node.attributes.clear()
    node.inputs = [source, constant]
    return f"reshapes {source.name} directly to {list(target)}"


def merge_transposes(graph: Graph, journal: Journal) -> None:
    """Merge two consecutive Transposes.

    Before  h = Transpose(x, perm=p);  y = Transpose(h, perm=q)
    After   y = Transpose(x, perm=[p[i] for i in q])

    Does not apply if a permutation is unknown. Preserves values bit for bit.
    """
    apply(graph, journal, _merge_transpose, {"Transpose"})


def _merge_transpose(node: Node) -> str | None:
    value = node.operand(0)
    before = None if value is None else value.producer
    if before is None or before.op != "Transpose" or before.graph is not node.graph:
        return None
    first, second = before.attributes.get("perm"), node.attributes.get("perm")
    if not isinstance(first, tuple) or not isinstance(second, tuple) or len(first) != len(second):
        return None
    order = tuple(first[axis] for axis in second if isinstance(axis, int))
    node.set_input(0, before.operand(0))
    node.set_attribute("perm", order)
    return f"permutes {value.name if value else ''} directly by {list(order)}"


def merge_slices(graph: Graph, journal: Journal) -> None:
    """Merge two Slices along different axes.

    Before  h = Slice(x, [0], [8], [1]);  y = Slice(h, [1], [9], [2])
    After   y = Slice(x, [0, 1], [8, 9], [1, 2])

    Does not apply to computed bounds, to a common axis, or to an `h` with another consumer. Preserves values bit for
    bit.
    """
    apply(graph, journal, _merge_slice, {"Slice"})


def _merge_slice(node: Node) -> str | None:
    value = node.operand(0)
    before = None if value is None else value.producer
    if value is None or before is None or before.op != "Slice" or sole_consumer(value) is not node:
        return None
    one, two = _cuts(before), _cuts(node)
    if one is None or two is None or {cut[2] for cut in one} & {cut[2] for cut in two}:
        return None
    graph = graph_of(node)
    columns = [np.array(column, np.int64) for column in zip(*one, *two, strict=True)]
    names = ("starts", "ends", "axes", "steps")
    constants = [add_constant(graph, c, f"{node.output.name}.{name}") for c, name in zip(columns, names, strict=True)]
    node.inputs = [before.operand(0), *constants]
    return f"slices {value.name} along all axes at once"


def _cuts(node: Node) -> list[tuple[int, int, int, int]] | None:
    """Return start, end, axis (not negative) and step of each sliced axis."""
    shape = shape_of(node.operand(0))
    starts, ends = constant_elements(node.operand(1)), constant_elements(node.operand(2))
    if shape is None or starts is None or ends is None:
        return None
    axes = np.arange(starts.size) if node.operand(3) is None else constant_elements(node.operand(3))
    steps = np.ones(starts.size, np.int64) if node.operand(4) is None else constant_elements(node.operand(4))
    if axes is None or steps is None:
        return None
    rank = len(shape)
    rows = zip(starts.tolist(), ends.tolist(), (axes % rank).tolist(), steps.tolist(), strict=True)
    return list(rows)


def merge_concats(graph: Graph, journal: Journal) -> None:
    """Merge a Concat into the following Concat along the same axis, and drop empty operands.

    Before  h = Concat(a, b, axis=1);  y = Concat(h, Slice(c, [0], [0], [1]), axis=1)
    After   y = Concat(a, b, axis=1)

    Does not apply to different axes, or to an `h` with another consumer. Preserves values bit for bit.
    """
    apply(graph, journal, _merge_concat, {"Concat"})


def _merge_concat(node: Node) -> str | None:
    nonempty = [value for value in node.inputs if not _is_empty(value, node)]
    if nonempty and len(nonempty) < len(node.inputs):
        empty = len(node.inputs) - len(nonempty)
        node.inputs = nonempty
        return f"omits {empty} empty operand{'' if empty == 1 else 's'}"
    consumer = sole_consumer(node.output)
    if consumer is not None and consumer.op == "Concat" and _is_along(node, consumer, node.output):
        return None  # merged with the last Concat of the chain, in linear time
    operands, merged = _operands_through(node)
    if not merged:
        return None
    node.inputs = operands
    for inner in merged:
        graph_of(inner).remove(inner)
    return f"concatenates the operands of {len(merged)} preceding nodes"


def _operands_through(node: Node) -> tuple[list[Value | None], list[Node]]:
    """Return the operands of a Concat after expansion of merged Concats, and the merged Concats, consumers first."""
    operands: list[Value | None] = []
    merged: list[Node] = []
    pending = [(node, value) for value in reversed(node.inputs)]
    while pending:
        user, value = pending.pop()
        inner = None if value is None else value.producer
        if value is not None and inner is not None and inner.op == "Concat" and _is_along(inner, user, value):
            merged.append(inner)
            pending += [(inner, each) for each in reversed(inner.inputs)]
        else:
            operands.append(value)
    return operands, merged


def _is_empty(value: Value | None, node: Node) -> bool:
    """Whether an operand of a Concat has length 0 along its axis."""
    axis, shape = node.attributes.get("axis"), shape_of(value)
    return isinstance(axis, int) and bool(shape) and shape[axis] == 0


def _is_along(inner: Node, node: Node, value: Value) -> bool:
    if sole_consumer(value) is not node:
        return False
    one, two = inner.attributes.get("axis"), node.attributes.get("axis")
    shape = shape_of(value)
    if isinstance(one, int) and isinstance(two, int) and shape:
        return one % len(shape) == two % len(shape)
    return one == two

"""Remove Expand before operators that broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.products import producer
from graphport.ops.shapes import Broadcasting, broadcast
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import fill_value, same_dims, shape_of
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


def drop_expands(graph: Graph, journal: Journal) -> None:
    """Remove an Expand or ConstantOfShape before an operator that broadcasts.

    Before  y = Add(x, Expand(b, shape))        or  Where(c, ConstantOfShape(shape), x)      or  MatMul(x, Expand(w))
    After   y = Add(x, b)                       or  Where(c, 0, x)                           or  MatMul(x, w)

    For MatMul only batch axes. Does not apply if the Expand enlarges the result, or may. The Expand is removed when it
    has no consumer left. Preserves values bit for bit, products up to summation order.
    """
    apply(graph, journal, _drop)


def _drop(node: Node) -> str | None:
    op_def = None if node.dialect else registry.op_defs().get(node.op)
    if op_def is None or not (node.op == "MatMul" or isinstance(op_def.shape, Broadcasting)):
        return None
    dropped: list[str] = []
    for index, value in enumerate(node.inputs):
        made = None if value is None else producer(value, "Expand") or producer(value, "ConstantOfShape")
        if made is None or value is None:
            continue
        source = made.operand(0) if made.op == "Expand" else None
        dims = shape_of(source) if made.op == "Expand" else (1,) * min(len(shape_of(value) or ()), 1)
        if dims is None or not _keeps_shape(node, index, dims):
            continue
        node.set_input(index, source if source is not None else _fill_value(node, made, len(dims)))
        dropped.append(value.name)
    return f"reads {' and '.join(dropped)} without the Expand before it" if dropped else None


def _keeps_shape(node: Node, index: int, dims: Sequence[Dim]) -> bool:
    """Whether the result keeps its shape if an operand has the shape `dims`."""
    shapes = [dims if at == index else shape_of(value) for at, value in enumerate(node.inputs)]
    result, before = shape_of(node.output), shape_of(node.inputs[index])
    known = [shape for shape in shapes if shape is not None]
    if result is None or before is None or len(known) < len(shapes):
        return False
    kept = 0
    if node.op == "MatMul":
        kept = 2
        if min(map(len, known)) < kept or not same_dims(dims[-kept:], before[-kept:]):
            return False
    try:
        found = broadcast(*(shape[: len(shape) - kept] for shape in known))
    except ShapeError:
        return False
    return same_dims(found, result[: len(result) - kept])


def _fill_value(node: Node, made: Node, rank: int) -> Value:
    """Return the fill value of a ConstantOfShape."""
    return add_constant(graph_of(node), fill_value(made).reshape([1] * rank), made.output.name)

"""What operators make larger that broadcast by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.products import producer
from graphport.ops.shapes import Broadcasting, broadcast
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import filling, same_dims, shape_of
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


def drop_expands(graph: Graph, journal: Journal) -> None:
    """Let an operator that broadcasts read what an Expand, or a ConstantOfShape, makes as large as its result.

    Before  y = Add(x, Expand(b, shape))        or  Where(c, ConstantOfShape(shape), x)      or  MatMul(x, Expand(w))
    After   y = Add(x, b)                       or  Where(c, 0, x)                           or  MatMul(x, w)

    Of a product only the axes of its batch. Leaves alone: what makes the result larger, or may; the Expand goes when
    nobody reads it. Keeps values bit for bit, products up to the order of their sums.
    """
    apply(graph, journal, _drop)


def _drop(node: Node) -> str | None:
    page = None if node.dialect else registry.pages().get(node.op)
    if page is None or not (node.op == "MatMul" or isinstance(page.shape, Broadcasting)):
        return None
    dropped: list[str] = []
    for index, value in enumerate(node.inputs):
        made = None if value is None else producer(value, "Expand") or producer(value, "ConstantOfShape")
        if made is None or value is None:
            continue
        source = made.operand(0) if made.op == "Expand" else None
        dims = shape_of(source) if made.op == "Expand" else (1,) * min(len(shape_of(value) or ()), 1)
        if dims is None or not _is_enough(node, index, dims):
            continue
        node.set_input(index, source if source is not None else _uniform(node, made, len(dims)))
        dropped.append(value.name)
    return f"reads {' and '.join(dropped)} as it was before it was made larger" if dropped else None


def _is_enough(node: Node, index: int, dims: Sequence[Dim]) -> bool:
    """Whether the result is as large as it is, with `dims` for those of an operand."""
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


def _uniform(node: Node, made: Node, rank: int) -> Value:
    """The entry that a ConstantOfShape has everywhere."""
    return add_constant(graph_of(node), filling(made).reshape([1] * rank), made.output.name)

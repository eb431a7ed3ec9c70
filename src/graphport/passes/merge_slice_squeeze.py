"""Replace slices of length 1 by Gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.products import constant_elements, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import insert_operator, shape_of
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def merge_slice_squeeze(graph: Graph, journal: Journal) -> None:
    """Replace a Slice of length 1, or a Split into such slices, and the following Squeeze by a Gather.

    Before  h = Slice(x, [1], [2], [0]);  y = Squeeze(h, [0])      or      _, h = Split(x, [1, 1], axis=0)
    After   y = Gather(x, 1, axis=0)

    Does not apply to computed bounds, to axes of unknown length, to a result with another consumer, or to a Split of
    which only some results are squeezed. Preserves values bit for bit.
    """
    apply(graph, journal, _match_gather, {"Squeeze"})


def _match_gather(node: Node) -> str | None:
    piece = node.operand(0)
    made = None if piece is None else piece.producer
    axis = _squeezed_axis(node)
    if piece is None or made is None or made.op not in {"Slice", "Split"}:
        return None
    if axis is None or sole_consumer(piece) is not node:
        return None
    source = made.operand(0)
    shape = shape_of(source)
    extent = shape[axis] if shape else None
    if source is None or not isinstance(extent, int):
        return None
    place = _slice_index(made, axis, extent) if made.op == "Slice" else _split_offset(made, piece, axis)
    if place is None:
        return None
    index = add_constant(graph_of(node), np.array(place, np.int64), f"{node.output.name}.index")
    insert_operator(node, "Gather", [source, index], {"axis": axis})
    return f"selects index {place} of {source.name}"


def _squeezed_axis(node: Node) -> int | None:
    """Return the only axis that a Squeeze removes (not negative), or None."""
    shape, axes = shape_of(node.operand(0)), constant_elements(node.operand(1))
    if not shape or axes is None or axes.size != 1:
        return None
    axis = int(axes.reshape(-1)[0]) % len(shape)
    return axis if shape[axis] == 1 else None


def _slice_index(made: Node, axis: int, extent: int) -> int | None:
    """Return the index that a Slice selects along `axis` of length `extent`, if it slices no other axis."""
    shape = shape_of(made.operand(0)) or ()
    starts, axes = constant_elements(made.operand(1)), constant_elements(made.operand(3))
    if starts is None or starts.size != 1 or (axes is None and (axis or made.operand(3) is not None)):
        return None
    if axes is not None and int(axes.reshape(-1)[0]) % len(shape) != axis:
        return None
    steps = constant_elements(made.operand(4))
    start = int(starts.reshape(-1)[0])
    # The result shape shows that exactly one element is selected; bounds from the end clamp to the last element.
    if start < 0:
        start = max(start + extent, 0)
    if start >= extent:
        return extent - 1 if steps is not None and int(steps.reshape(-1)[0]) < 0 else None
    return None if made.operand(4) is not None and steps is None else start


def _split_offset(made: Node, piece: Value, axis: int) -> int | None:
    """Return the offset of a Split result along `axis`, if all used results have length 1 and are squeezed."""
    rank = len(shape_of(made.operand(0)) or ())
    along = made.attributes.get("axis", 0)
    if not isinstance(along, int) or along % rank != axis or len(made.results) < len(made.outputs):
        return None
    for each in made.results:
        reader = sole_consumer(each)
        if each.uses and (reader is None or reader.op != "Squeeze" or _squeezed_axis(reader) != axis):
            return None
    lengths = [(shape_of(each) or (None,) * rank)[axis] for each in made.results[: piece.index]]
    known = [length for length in lengths if isinstance(length, int)]
    return sum(known) if len(known) == len(lengths) else None

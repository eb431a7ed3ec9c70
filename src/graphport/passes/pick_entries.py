"""Single entries of an axis, taken at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.products import numbers, sole_reader
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import put, shape_of
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def pick_entries(graph: Graph, journal: Journal) -> None:
    """Make a Slice of one entry, or a Split into single ones, and the Squeeze of its axis behind it a Gather.

    Before  h = Slice(x, [1], [2], [0]);  y = Squeeze(h, [0])      or      _, h = Split(x, [1, 1], axis=0)
    After   y = Gather(x, 1, axis=0)

    Leaves alone: bounds that are computed, axes of which the length is not known, what somebody else reads, a Split of
    which not all pieces go. Keeps values bit for bit.
    """
    apply(graph, journal, _pick, {"Squeeze"})


def _pick(node: Node) -> str | None:
    piece = node.operand(0)
    made = None if piece is None else piece.producer
    axis = _squeezed(node)
    if piece is None or made is None or made.op not in {"Slice", "Split"}:
        return None
    if axis is None or sole_reader(piece) is not node:
        return None
    source = made.operand(0)
    shape = shape_of(source)
    extent = shape[axis] if shape else None
    if source is None or not isinstance(extent, int):
        return None
    place = _start(made, axis, extent) if made.op == "Slice" else _offset(made, piece, axis)
    if place is None:
        return None
    index = add_constant(graph_of(node), np.array(place, np.int64), f"{node.output.name}.index")
    put(node, "Gather", [source, index], {"axis": axis})
    return f"takes entry {place} of {source.name}"


def _squeezed(node: Node) -> int | None:
    """The only axis that a Squeeze takes away, from 0; `None` where there are others, or it is not said."""
    shape, axes = shape_of(node.operand(0)), numbers(node.operand(1))
    if not shape or axes is None or axes.size != 1:
        return None
    axis = int(axes.reshape(-1)[0]) % len(shape)
    return axis if shape[axis] == 1 else None


def _start(made: Node, axis: int, extent: int) -> int | None:
    """The entry that a Slice takes of `extent` along `axis`, if it cuts nothing else."""
    shape = shape_of(made.operand(0)) or ()
    starts, axes = numbers(made.operand(1)), numbers(made.operand(3))
    if starts is None or starts.size != 1 or (axes is None and (axis or made.operand(3) is not None)):
        return None
    if axes is not None and int(axes.reshape(-1)[0]) % len(shape) != axis:
        return None
    steps = numbers(made.operand(4))
    start = int(starts.reshape(-1)[0])
    # That exactly one entry is left is known from its shape; from the end, bounds are cut to the last entry.
    if start < 0:
        start = max(start + extent, 0)
    if start >= extent:
        return extent - 1 if steps is not None and int(steps.reshape(-1)[0]) < 0 else None
    return None if made.operand(4) is not None and steps is None else start


def _offset(made: Node, piece: Value, axis: int) -> int | None:
    """Where a piece of a Split along `axis` begins, if all that somebody reads are single entries that are squeezed."""
    rank = len(shape_of(made.operand(0)) or ())
    along = made.attributes.get("axis", 0)
    if not isinstance(along, int) or along % rank != axis or len(made.results) < len(made.outputs):
        return None
    for each in made.results:
        reader = sole_reader(each)
        if each.uses and (reader is None or reader.op != "Squeeze" or _squeezed(reader) != axis):
            return None
    lengths = [(shape_of(each) or (None,) * rank)[axis] for each in made.results[: piece.index]]
    known = [length for length in lengths if isinstance(length, int)]
    return sum(known) if len(known) == len(lengths) else None

"""Constant tables of equal lookups in both graphs: all rows are compared, independent of the indices in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.proof.segments.judging import RELATIVE, Finding

if TYPE_CHECKING:
    from graphport.ir.graph import Node
    from graphport.proof.segments.segments import Segment


def table_difference(segment: Segment) -> tuple[Any, Finding] | None:
    """Return the index of the worst differing row of two Gather tables, and its difference; `None` if they agree."""
    a, b = segment.output.a.producer, segment.output.b.producer
    if a is None or b is None or not _is_lookup(a) or not _is_lookup(b) or len(segment.inputs) != 1:
        return None
    (index,) = segment.inputs
    if a.operands[1] is not index.a or b.operands[1] is not index.b:
        return None
    axis = a.attributes.get("axis", 0)
    one, two = (node.operands[0].storage for node in (a, b))
    if one is None or two is None or axis != b.attributes.get("axis", 0) or one.shape != two.shape:
        return None
    x, y = one.numpy(), two.numpy()
    if x.dtype.kind != "f" or y.dtype.kind != "f" or not isinstance(axis, int) or np.array_equal(x, y):
        return None
    with np.errstate(all="ignore"):
        gap = np.abs(x.astype(np.float64) - y.astype(np.float64))
        wrong = gap > RELATIVE * np.max(np.abs(x), axis=-1, keepdims=True, initial=0.0)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(wrong, gap, -1.0))), gap.shape))
    return np.full(np.shape(index.x), first[axis], np.asarray(index.x).dtype), Finding(float(gap[first]), first)


def _is_lookup(node: Node) -> bool:
    return node.op == "Gather" and node.operands[0].storage is not None

"""Boxes at an angle in OpenVINO: which of them to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.declare import lower
from graphport.ops.dialects.extents import cut, entry, joined
from graphport.ops.dialects.openvino.detection_boxes import (
    LOWEST,
    Greedy,
    best,
    grouped,
    narrowed,
    rows_of,
    selected_boxes,
)
from graphport.ops.dialects.operands import as_vector, cast, dtype_of, scalar, vector
from graphport.ops.pages.arithmetic import Add, Cos, Div, Max, Min, Mul, Neg, Sin, Sub
from graphport.ops.pages.comparison import And, Equal, Greater, Less, LessOrEqual, Where
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reduction import CumSum, ReduceSum
from graphport.ops.pages.reshape import Concat, Expand, Reshape, Shape, Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

_CLOSE = 1e-5
"""Edges nearer to one another than this part of a box lie on one line."""


@lower("openvino", "opset13.NMSRotated")
def rotated_suppression(
    b: Builder,
    boxes: Value,
    scores: Value,
    most: Value,
    overlap: Value,
    least: Value,
    *,
    sort_result_descending: bool = True,
    output_type: DType = DType.INT64,
    clockwise: bool = True,
) -> tuple[Value, ...]:
    """Boxes (middle, width, height, angle) worth keeping: batch, class and number; the same with scores; how many."""
    dtype = dtype_of(scores)
    marks = cast(b, scores, DType.FLOAT32)
    found, indices = best(b, marks)
    floor = cast(b, least, DType.FLOAT32)
    usable, found, indices = narrowed(b, b(Greater, found, floor), found, indices)
    corners = _corners(b, cast(b, boxes, DType.FLOAT32), clockwise=clockwise)
    table = b(Expand, b(Unsqueeze, corners, vector(b, [1])), joined(b, b(Shape, scores), 9))
    candidates = rows_of(b, grouped(b, table, 2), grouped(b, indices, 1))
    limit = b(Reshape, cast(b, overlap, DType.FLOAT32), vector(b, []))
    kept = Greedy(RotatedOverlap(), limit)(b, candidates, cast(b, grouped(b, usable, 1), DType.FLOAT32))
    ranks = b(CumSum, kept, scalar(b, 1, DType.INT64))
    allowed = cast(b, as_vector(b, most), DType.FLOAT32)
    is_kept = b(And, b(Greater, kept, b.like(kept, 0)), b(LessOrEqual, ranks, allowed))
    found = b(Where, b(Reshape, is_kept, b(Shape, indices)), found, b.like(found, LOWEST))
    return selected_boxes(b, found, indices, dtype, output_type, is_sorted=sort_result_descending)


def _corners(b: Builder, boxes: Value, *, clockwise: bool) -> Value:
    """Four corners x and y, one turn around the box, and the area: [..., 9]."""
    x, y, w, h, angle = (entry(b, boxes, place) for place in range(5))
    angle = angle if clockwise else b(Neg, angle)
    half = b.like(boxes, 0.5)
    c, s = b(Mul, b(Cos, angle), half), b(Mul, b(Sin, angle), half)
    along = [b(Mul, c, w), b(Mul, s, w)]
    across = [b(Neg, b(Mul, s, h)), b(Mul, c, h)]
    parts: list[Value] = []
    for axis, middle in enumerate((x, y)):
        plus, minus = b(Add, along[axis], across[axis]), b(Sub, along[axis], across[axis])
        parts += [b(Add, middle, plus), b(Sub, middle, minus), b(Sub, middle, plus), b(Add, middle, minus)]
    return b(Concat, *(b(Unsqueeze, part, vector(b, [-1])) for part in (*parts, b(Mul, w, h))), axis=-1)


class RotatedOverlap:
    """Boxes of four corners and an area [..., 9], compared by what is inside of both."""

    def area(self, b: Builder, boxes: Value) -> Value:
        """The area that a box brings along."""
        return entry(b, boxes, 8)

    def __call__(self, b: Builder, one: Value, own: Value, other: Value, others: Value) -> Value:
        """What boxes share: half of what the parts of edges inside of the other box sweep over, seen from anywhere.

        An edge that lies on one of the other's counts once, as one of `one`.
        """
        zero = b.like(one, 0)
        origin = [cut(b, one, 0, 1, -1), cut(b, one, 4, 5, -1)]
        first, second = (
            [b(Sub, cut(b, box, 4 * axis, 4 * axis + 4, -1), origin[axis]) for axis in (0, 1)] for box in (one, other)
        )
        swept = b(Add, self._swept(b, first, second, others, 1), self._swept(b, second, first, own, -1))
        shared = b(Max, b(Mul, swept, b.like(one, 0.5)), zero)
        found = b(Div, shared, b(Sub, b(Add, own, others), shared))
        has_area = b(And, b(Greater, own, zero), b(Greater, others, zero))
        return b(Where, has_area, found, zero)

    def _swept(self, b: Builder, edges: list[Value], sides: list[Value], area: Value, sign: int) -> Value:
        """The parts of one box's edges that are inside of another, times what the whole edges sweep over."""
        after = vector(b, [1, 2, 3, 0])
        column, row = vector(b, [-1]), vector(b, [-2])
        steps = [b(Sub, b(Gather, each, after, axis=-1), each) for each in edges]
        walls = [b(Sub, b(Gather, each, after, axis=-1), each) for each in sides]
        px, py, dx, dy = (b(Unsqueeze, each, column) for each in (*edges, *steps))
        qx, qy, ex, ey = (b(Unsqueeze, each, row) for each in (*sides, *walls))
        near = b(Mul, b(Unsqueeze, area, vector(b, [-1, -2])), b.like(area, sign * _CLOSE))
        # Inside is to the left of a wall: how far a corner is from it, and how much nearer the next one.
        far = b(Add, b(Sub, b(Mul, ex, b(Sub, py, qy)), b(Mul, ey, b(Sub, px, qx))), near)
        rise = b(Sub, b(Mul, ex, dy), b(Mul, ey, dx))
        zero, one = b.like(area, 0), b.like(area, 1)
        is_level = b(Equal, rise, zero)
        at = b(Div, b(Neg, far), b(Where, is_level, one, rise))
        is_out = b(And, is_level, b(Less, far, zero))
        enters = b(Where, b(Greater, rise, zero), at, b(Where, is_out, one, zero))
        leaves = b(Where, b(Less, rise, zero), at, b(Where, is_out, zero, one))
        starts = b(Max, _folded(b, Max, enters), zero)
        stops = b(Min, _folded(b, Min, leaves), one)
        part = b(Max, b(Sub, stops, starts), zero)
        turned = b(Sub, b(Mul, edges[0], steps[1]), b(Mul, edges[1], steps[0]))
        return b(ReduceSum, b(Mul, part, turned), column, keepdims=0)


def _folded(b: Builder, page: Page, x: Value) -> Value:
    """The largest or least of four entries."""
    parts = [entry(b, x, place) for place in range(4)]
    return b(page, *parts)

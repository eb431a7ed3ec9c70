"""Box overlap and greedy suppression, shared by OpenVINO's detection operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, GreaterOrEqual, LessOrEqual, Where
from graphport.ops.definitions.control.loops import Scan
from graphport.ops.definitions.indexing import Compress, Gather, GatherND, Slice
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum, TopK
from graphport.ops.definitions.reshape import Concat, Expand, Identity, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.extents import counted, cut, extent, gather_index, joined
from graphport.ops.lowering.operands import cast, dtype_of, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value

LOWEST = float(np.finfo(np.float32).min)
"""Mark of discarded boxes, below every score; OpenVINO's ReduceMax of -inf returns this number."""


def rows_of(b: Builder, table: Value, indices: Value) -> Value:
    """Gather rows [N, K, D] of a table [N, M, D] by indices [N, K]."""
    return b(GatherND, table, b(Unsqueeze, indices, [-1]), batch_dims=1)


def best(b: Builder, scores: Value, most: int = -1) -> tuple[Value, Value]:
    """Return the `most` (-1: all) largest entries of the last axis, descending, and their indices; ties by index."""
    count = extent(b, scores, -1)
    if most >= 0:
        count = b(Min, count, [most])
    found, indices = b.results(TopK, 2, scores, count, axis=-1)
    return found, indices


def in_order(b: Builder, keys: Value, *, largest: bool) -> Value:
    """Return the indices that sort the last axis, stably."""
    return b.results(TopK, 2, keys, extent(b, keys, -1), axis=-1, largest=int(largest))[1]


class Sharing(Protocol):
    """Computes the intersection over union (IoU) of boxes [..., n]."""

    def area(self, b: Builder, boxes: Value) -> Value:
        """Return the areas [...] of boxes [..., n]."""
        ...

    def __call__(self, b: Builder, one: Value, own: Value, other: Value, others: Value) -> Value:
        """Return the IoU of boxes `one` with areas `own` and `other` with areas `others`; shapes broadcast."""
        ...


@dataclass(frozen=True, slots=True)
class Overlap:
    """Computes the intersection over union (IoU) of boxes (x1, y1, x2, y2).

    `offset` is 1 where corners are pixels of a box; boxes that do not touch share nothing (`must_touch`), and
    neither do those whose area is not positive (`must_have_area`); an inverted box is empty (`inverted_is_empty`).
    """

    offset: float = 0.0
    must_touch: bool = True
    must_have_area: bool = False
    inverted_is_empty: bool = False
    shares_something: bool = False

    def area(self, b: Builder, boxes: Value) -> Value:
        """Return the areas [...] of boxes [..., 4]."""
        x1, y1, x2, y2 = (gather_index(b, boxes, place) for place in range(4))
        w, h = b(Sub, x2, x1), b(Sub, y2, y1)
        found = b(Mul, self._side_length(b, w), self._side_length(b, h))
        if not self.inverted_is_empty:
            return found
        zero = b.like(boxes, 0)
        return b(Where, b(And, b(GreaterOrEqual, w, zero), b(GreaterOrEqual, h, zero)), found, zero)

    def __call__(self, b: Builder, one: Value, own: Value, other: Value, others: Value) -> Value:
        """Return the IoU of boxes `one` with areas `own` and `other` with areas `others` [..., 4]; shapes broadcast."""
        zero = b.like(one, 0)
        low = [b(Max, gather_index(b, one, place), gather_index(b, other, place)) for place in (0, 1)]
        high = [b(Min, gather_index(b, one, place), gather_index(b, other, place)) for place in (2, 3)]
        sides = [self._side_length(b, b(Sub, end, start)) for start, end in zip(low, high, strict=True)]
        if not self.must_touch:
            sides = [b(Max, side, zero) for side in sides]
        shared = b(Mul, *sides)
        found = b(Div, shared, b(Sub, b(Add, own, others), shared))
        for claim in self._claims(b, low, high, sides, own, others):
            found = b(Where, claim, found, zero)
        return found

    def _side_length(self, b: Builder, side: Value) -> Value:
        return b(Add, side, b.like(side, self.offset)) if self.offset else side

    def _claims(
        self, b: Builder, low: list[Value], high: list[Value], sides: list[Value], own: Value, others: Value
    ) -> list[Value]:
        """Return the conditions under which two boxes overlap; if one fails, the IoU is 0."""
        found: list[Value] = []
        if self.must_touch:
            found += [b(LessOrEqual, start, end) for start, end in zip(low, high, strict=True)]
        if self.shares_something:
            found += [b(Greater, side, 0) for side in sides]
        if self.must_have_area:
            found += [b(Greater, area, 0) for area in (own, others)]
        return found


@dataclass(frozen=True, slots=True)
class Greedy:
    """Greedy suppression: drop each box that overlaps a kept one by more than `threshold`.

    `at_threshold` drops equality, too. After each kept box the threshold is multiplied by `eta` while it is above 0.5.
    """

    overlap: Sharing
    threshold: float | Value
    at_threshold: bool = False
    eta: float = 1.0

    def __call__(self, b: Builder, boxes: Value, usable: Value) -> Value:
        """Return which boxes [G, K, n] are kept as 0 or 1 [G, K]; `usable` [G, K] selects candidates."""
        areas = self.overlap.area(b, boxes)
        steps = counted(b, extent(b, boxes, 1))
        none = b(Mul, usable, 0)
        limit = b.like(usable, self.threshold) if isinstance(self.threshold, int | float) else self.threshold
        limits = b(Add, cut(b, none, 0, 1, 1), limit)
        scanned = [b(Transpose, boxes, perm=(1, 0, 2)), b(Transpose, areas, perm=(1, 0)), b(Transpose, usable), steps]
        groups, count = b.dims(usable, 2)
        shapes = ((groups, count), (groups, 1), (groups, b.dims(boxes, at_least=3)[2]), (groups,), (groups,))
        facts = [TensorFact(dtype_of(boxes), dims) for dims in shapes]
        inner, body, given = step_body(b, (*facts, TensorFact(DType.INT64, ())))
        body.set_outputs(self._step(inner, boxes, areas, steps, given))
        return b.results(Scan, 2, none, limits, *scanned, body=body, num_scan_inputs=4)[0]

    def _step(self, b: Builder, boxes: Value, areas: Value, steps: Value, given: list[Value]) -> list[Value]:
        kept, limits, box, area, usable, step = given
        column = vector(b, [1])
        shared = self.overlap(b, b(Unsqueeze, box, column), b(Unsqueeze, area, column), boxes, areas)
        compare = GreaterOrEqual if self.at_threshold else Greater
        covered = b(Mul, kept, cast(b, b(compare, shared, limits), dtype_of(kept)))
        left = b(Sub, b.like(kept, 1), b(ReduceMax, covered, column))
        new = b(Mul, left, b(Unsqueeze, usable, column))
        here = cast(b, b(Equal, steps, step), dtype_of(kept))
        return [b(Add, kept, b(Mul, new, here)), self._adapted(b, limits, new)]

    def _adapted(self, b: Builder, limits: Value, new: Value) -> Value:
        if self.eta >= 1:
            return b(Identity, limits)
        is_lowered = b(And, b(Greater, new, 0), b(Greater, limits, 0.5))
        return b(Where, is_lowered, b(Mul, limits, b.like(limits, self.eta)), limits)


def grouped(b: Builder, x: Value, tail: int) -> Value:
    """[N, C, *tail] as [N * C, *tail], of `tail` axes."""
    behind = [extent(b, x, axis) for axis in range(2, 2 + tail)]
    return b(Reshape, x, joined(b, -1, *behind), allowzero=1)


def narrowed(b: Builder, usable: Value, *others: Value) -> list[Value]:
    """Cut `usable` [..., K] and `others` after the last usable entry of any row; keep at least one.

    Usable entries come first; the cost of the following steps is quadratic in K.
    """
    counts = b(ReduceSum, cast(b, usable, DType.INT64), [-1], keepdims=0)
    most = b(Max, b(Reshape, b(ReduceMax, counts, keepdims=0), [1]), [1])
    return [b(Slice, each, [0], most, [-1]) for each in (usable, *others)]


def selected_boxes(
    b: Builder, found: Value, indices: Value, dtype: DType, output_type: DType, *, is_sorted: bool
) -> tuple[Value, ...]:
    """Return kept boxes as rows of batch, class and index; the same with scores; and their number.

    Shapes: `found` and `indices` [N, C, K]; discarded boxes have the lowest score.
    """
    numbers = [b(Unsqueeze, counted(b, extent(b, found, axis)), behind) for axis, behind in ((0, [1, 2]), (1, [1]))]
    shape = b(Shape, found)
    flat = b(Reshape, found, [-1])
    owners = [b(Reshape, b(Expand, each, shape), [-1, 1]) for each in numbers]
    rows = b(Concat, *owners, b(Reshape, indices, [-1, 1]), axis=1)
    if is_sorted:
        order = in_order(b, flat, largest=True)
        rows, flat = b(Gather, rows, order), b(Gather, flat, order)
    is_there = b(Greater, flat, LOWEST)
    rows, flat = b(Compress, rows, is_there, axis=0), b(Compress, flat, is_there, axis=0)
    columns = [cast(b, cut(b, rows, 0, 2, 1), DType.FLOAT32), b(Unsqueeze, flat, [1])]
    count = b(Shape, rows, start=0, end=1)
    return cast(b, rows, output_type), cast(b, b(Concat, *columns, axis=1), dtype), cast(b, count, output_type)

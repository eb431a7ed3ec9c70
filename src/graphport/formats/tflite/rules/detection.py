"""Non-maximum suppression in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.binding import Operator, import_rule
from graphport.ir.graph import Graph
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, Less, Where
from graphport.ops.definitions.control.loops import Loop
from graphport.ops.definitions.detection.suppression import NonMaxSuppression
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.indices import ArgMax
from graphport.ops.definitions.reduction.reduce import ReduceMax, ReduceMin, ReduceProd, ReduceSum
from graphport.ops.definitions.reshape import Shape, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Expand
from graphport.ops.lowering.operands import (
    as_int64,
    as_scalar,
    as_vector,
    cast,
    float_element,
    reshaped,
    scalar,
    vector,
    zero_padded,
)

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.binding import Operator
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _suppress(op: Operator) -> tuple[Value, Value, Value]:
    """Return the indices of the selected boxes, the requested count and the actual count."""
    b = op.b
    boxes, scores = b(Unsqueeze, op[0], [0]), b(Unsqueeze, op[1], [0, 1])
    most = as_vector(b, op.raw(2))
    # ONNX keeps boxes with an overlap equal to the threshold, TFLite suppresses them: use the next smaller float.
    overlap = b(Mul, as_scalar(b, op.raw(3)), 1 - 2.0**-24)
    selected = b(NonMaxSuppression, boxes, scores, most, overlap, as_scalar(b, op.raw(4)))
    numbers = reshaped(b, b(Slice, selected, [2], [3], [1]), (-1,))
    return numbers, most, b(Shape, numbers)


@import_rule("NON_MAX_SUPPRESSION_V4")
def non_max_suppression_v4(op: Operator) -> tuple[Value, Value]:
    """NON_MAX_SUPPRESSION_V4: indices of the selected boxes, zero-padded, and their count."""
    b = op.b
    numbers, most, count = _suppress(op)
    return cast(b, zero_padded(b, numbers, most), DType.INT32), as_scalar(b, cast(b, count, DType.INT32))


@import_rule("NON_MAX_SUPPRESSION_V5")
def non_max_suppression_v5(op: Operator) -> tuple[Value, Value, Value]:
    """NON_MAX_SUPPRESSION_V5: as V4, with the scores of the boxes."""
    b = op.b
    if float_element(op.raw(5)) != 0:
        return soft_nms(op)
    numbers, most, count = _suppress(op)
    scores = zero_padded(b, b(Gather, op[1], numbers, axis=0), most)
    kept = cast(b, zero_padded(b, as_int64(b, numbers), most), DType.INT32)
    return kept, scores, as_scalar(b, cast(b, count, DType.INT32))


_NEVER = -np.inf


def soft_nms(op: Operator) -> tuple[Value, Value, Value]:
    """Soft-NMS: indices of the selected boxes and their decayed scores, zero-padded, and the count.

    Operands: boxes [n, 4], scores [n], maximum count, IoU threshold, score threshold, and sigma: a box with IoU u
    multiplies a score by `exp(-u u / (2 sigma))`.
    """
    b = op.b
    most, none = as_vector(b, as_int64(b, op.raw(2))), scalar(b, 0, DType.INT64)
    limits = [as_scalar(b, op.raw(index)) for index in (3, 4)]
    sigma = as_scalar(b, op.raw(5))
    factor = b(Div, -0.5, sigma)
    factor = b(Where, b(Greater, sigma, 0), factor, 0)
    is_candidate = b(Greater, op[1], limits[1])
    scores = b(Where, is_candidate, op[1], _NEVER)
    # The loop runs at most once per box.
    there = b(ReduceSum, cast(b, is_candidate, DType.INT64), [0], keepdims=1)
    rounds = as_scalar(b, b(Min, there, most))
    corners = reshaped(b, op[0], (-1, 2, 2))  # in any order
    first, far = (b(op_def, corners, vector(b, [1]), keepdims=0) for op_def in (ReduceMin, ReduceMax))
    kept, kept_scores = b(Expand, none, most), b(Expand, scalar(b, 0, DType.FLOAT32), most)
    indices = b(Range, none, as_scalar(b, most), 1)
    body = Graph(f"{b.stem}.round")
    if b.graph is not None:
        b.graph.share_names(body)
    number, _, *states = (
        body.add_input(body.fresh(f"{b.stem}.{name}"), fact)
        for name, fact in (
            ("number", TensorFact(DType.INT64, ())),
            ("goes_on", TensorFact(DType.BOOL, ())),
            ("scores", scores.fact),
            ("kept", kept.fact),
            ("told", kept_scores.fact),
            ("count", none.fact),
        )
    )
    inside = Builder(b.inference, body, origin=b.origin, stem=f"{b.stem}.round")
    lowers = (first, far, factor, *limits)
    body.set_outputs(_round(inside, inside(Equal, indices, number), lowers, *states))
    results = b.results(Loop, 4, rounds, b(Greater, rounds, none), scores, kept, kept_scores, none, body=body)
    return cast(b, results[1], DType.INT32), results[2], cast(b, results[3], DType.INT32)


def _round(
    b: Builder, is_here: Value, lowers: tuple[Value, ...], scores: Value, kept: Value, kept_scores: Value, count: Value
) -> list[Value]:
    """Loop body: select the best box and decay the scores of the others; return the condition and the next states."""
    first, far, factor, overlap, least = lowers
    best = b(ArgMax, scores, axis=0, keepdims=1)
    kept, kept_scores = b(Where, is_here, best, kept), b(Where, is_here, b(Gather, scores, best, axis=0), kept_scores)
    shared = _intersection_over_union(b, first, far, best)
    lowered = b(Mul, scores, b(Exp, b(Mul, factor, b(Mul, shared, shared))))
    stays = b(And, b(Less, shared, overlap), b(Greater, lowered, least))
    left = b(Where, stays, lowered, _NEVER)
    goes_on = b(Greater, b(ReduceMax, left, [0], keepdims=0), least)
    return [goes_on, left, kept, kept_scores, b(Add, count, 1)]


def _intersection_over_union(b: Builder, first: Value, far: Value, best: Value) -> Value:
    """Intersection over union of each box and the best one; 0 if either has no area."""
    axis = vector(b, [1])
    zero = b.like(first, 0)
    begin, end = (b(Gather, corner, best, axis=0) for corner in (first, far))
    sides = b(Max, b(Sub, b(Min, far, end), b(Max, first, begin)), zero)
    both = b(ReduceProd, sides, axis, keepdims=0)
    areas = [b(ReduceProd, b(Sub, high, low), axis, keepdims=0) for low, high in ((first, far), (begin, end))]
    has_area = b(And, *(b(Greater, area, zero) for area in areas))
    every = b(Sub, b(Add, *areas), both)
    return b(Where, has_area, b(Div, both, b(Where, has_area, every, 1)), zero)

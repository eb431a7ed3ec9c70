"""Suppression that lowers scores instead of leaving boxes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.detection_boxes import LOWEST, Overlap, grouped, rows_of
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Exp, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Greater, Not, Where
from graphport.ops.definitions.control.loops import Loop
from graphport.ops.definitions.reduction import ArgMax, ReduceMax
from graphport.ops.definitions.reshape import Concat, Expand, Identity, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.extents import counted, cut, extent, joined
from graphport.ops.lowering.operands import as_scalar, cast, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value

_OVERLAP = Overlap(must_touch=False, must_have_area=True)


def matrix_nms_scores(
    b: Builder,
    boxes: Value,
    scores: Value,
    limits: tuple[Value, Value],
    sigma: float,
    *,
    is_center: bool,
) -> tuple[Value, Value]:
    """Matrix NMS: return scores [N, C, K] of boxes in selection order, and their indices.

    After each selection, overlapping boxes' scores are multiplied by exp(-overlap ** 2 / (2 * sigma)); the overlap
    threshold has no effect. `limits` are the maximum number of boxes [1] and the minimum score [].
    """
    most, least = limits
    marks = cast(b, scores, DType.FLOAT32)
    corners = _sort_corners(b, cast(b, boxes, DType.FLOAT32), is_center=is_center)
    table = b(Expand, b(Unsqueeze, corners, [1]), joined(b, b(Shape, scores), 4))
    steps = as_scalar(b, b(Min, most, extent(b, scores, 2)))
    own = grouped(b, marks, 1)
    own = b(Where, b(Greater, own, least), own, b.like(own, LOWEST))
    found, indices = _select_boxes(b, grouped(b, table, 2), own, steps, least, sigma)
    shape = joined(b, b(Shape, scores, start=0, end=2), -1)
    return b(Reshape, b(Transpose, found), shape), b(Reshape, b(Transpose, indices), shape)


def _sort_corners(b: Builder, boxes: Value, *, is_center: bool) -> Value:
    """Return boxes as (lower corner, upper corner), converted from center and size if `is_center`."""
    first, second = cut(b, boxes, 0, 2, -1), cut(b, boxes, 2, 4, -1)
    if is_center:
        half = b(Mul, second, 0.5)
        first, second = b(Sub, first, half), b(Add, first, half)
    return b(Concat, b(Min, first, second), b(Max, first, second), axis=-1)


def _select_boxes(
    b: Builder, boxes: Value, marks: Value, steps: Value, least: Value, sigma: float
) -> tuple[Value, Value]:
    """Select a box of [G, M, 4] with scores [G, M] in each step: return scores and indices [steps, G]."""
    areas = _OVERLAP.area(b, boxes)
    facts = [TensorFact(DType.INT64, ()), TensorFact(DType.BOOL, ()), TensorFact(DType.FLOAT32, b.dims(marks))]
    inner, body, (_, going, own) = step_body(b, facts)
    body.set_outputs([inner(Identity, going), *_step(inner, own, boxes, areas, least, sigma)])
    _, found, indices = b.results(Loop, 3, steps, b.constant(np.array(True)), marks, body=body)
    return found, indices


def _step(b: Builder, own: Value, boxes: Value, areas: Value, least: Value, sigma: float) -> list[Value]:
    column, lowest = vector(b, [1]), b.like(own, LOWEST)
    place = b(ArgMax, own, axis=1)
    found = b(ReduceMax, own, column, keepdims=0)
    box = rows_of(b, boxes, place)
    area = rows_of(b, b(Unsqueeze, areas, [2]), place)
    shared = _OVERLAP(b, box, b(Squeeze, area, [2]), boxes, areas)
    fall = b(Exp, b(Mul, b(Mul, shared, shared), -0.5 / sigma))
    left = b(Mul, own, fall)
    every = counted(b, extent(b, own, 1))
    stays = b(And, b(Greater, own, lowest), b(Not, b(Equal, every, place)))
    stays = b(And, stays, b(Greater, left, least))
    return [b(Where, stays, left, lowest), found, b(Squeeze, place, column)]

"""Export rules of region operators to ATen, without the operators of torchvision."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, aten_results, size_of, with_fact
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Div, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import And, Greater, Not
from graphport.ops.definitions.control.loops import Loop
from graphport.ops.definitions.convolution.window import integer_dims, integer_pads, window
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import Identity, Shape, Unsqueeze
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.operands import cast, dtype_of, sizes
from graphport.ops.views.convolution import DeformConvView
from graphport.ops.views.detection import NonMaxSuppressionView, RoiAlignView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.definitions.convolution.window import Window

_SIDES = 4


@NonMaxSuppressionView.export_rule(DIALECT)
def export_non_max_suppression(b: Builder, op: NonMaxSuppressionView) -> Value:
    """Export NonMaxSuppression as a loop over the boxes of each class, best first, that clears the overlapping ones."""
    scores, order = aten_results(b, "sort.stable", 2, op.scores, stable=True, dim=-1, descending=True)
    scores = with_fact(scores, DType.FLOAT32, b.dims(op.scores))
    order = with_fact(order, DType.INT64, b.dims(op.scores))
    corners = [_gathered_side(b, side, order) for side in _corners(b, op)]
    keep_mask = aten(b, "ones_like", scores, dtype=DType.BOOL)
    if op.score_threshold is not None:
        keep_mask = aten(b, "gt.Tensor", scores, aten(b, "reshape", op.score_threshold, (-1,)))
    keep_mask = with_fact(keep_mask, DType.BOOL, b.dims(scores))
    overlap = b.like(scores, 0.0) if op.iou_threshold is None else aten(b, "reshape", op.iou_threshold, (-1,))
    keep_mask = _suppressed(b, keep_mask, corners, overlap)
    rank = aten(b, "cumsum", aten(b, "to.dtype", keep_mask, DType.INT64), -1)
    max_boxes = op.max_output_boxes_per_class
    counts = aten(b, "zeros_like", rank) if max_boxes is None else aten(b, "reshape", max_boxes, (-1,))
    rows = aten(b, "nonzero", aten(b, "logical_and", keep_mask, aten(b, "le.Tensor", rank, counts)))
    rows = with_fact(rows, DType.INT64, (OPEN, 3))
    columns = [aten(b, "select.int", rows, 1, column) for column in range(3)]
    boxes = aten(b, "index.Tensor", order, columns)
    return aten(b, "stack", [*columns[:2], boxes], 1)


def _corners(b: Builder, op: NonMaxSuppressionView) -> list[Value]:
    """Return two minimum and two maximum coordinates of each box, each [B, N]."""
    sides = [aten(b, "select.int", op.boxes, 2, column) for column in range(_SIDES)]
    if op.center_point_box:
        halves = [aten(b, "mul.Scalar", side, 0.5) for side in sides[2:]]
        pairs = list(zip(sides[:2], halves, strict=True))
        return [aten(b, name, *pair) for name in ("sub.Tensor", "add.Tensor") for pair in pairs]
    pairs = list(zip(sides[:2], sides[2:], strict=True))
    return [aten(b, name, *pair) for name in ("minimum", "maximum") for pair in pairs]


def _gathered_side(b: Builder, side: Value, order: Value) -> Value:
    """Gather one coordinate of the boxes, [B, N], by the box order of each class, [B, C, N]: [B, C, N]."""
    expanded = aten(b, "expand", aten(b, "unsqueeze", side, 1), (-1, size_of(b, order, 1), -1))
    return with_fact(aten(b, "gather", expanded, 2, order), DType.FLOAT32, b.dims(order))


def _suppressed(b: Builder, keep_mask: Value, corners: Sequence[Value], overlap: Value) -> Value:
    """Emit a loop over boxes in score order that clears the mask of later boxes with an IoU above `overlap`."""
    bool_fact, one = TensorFact(DType.BOOL, ()), b.constant(np.array([-1]))
    inner, body, (number, _, state) = step_body(b, [TensorFact(DType.INT64, ()), bool_fact, keep_mask.fact])

    def current_box(x: Value) -> Value:
        return inner(Unsqueeze, inner(Gather, x, number, axis=2), one)

    lower, upper = corners[:2], corners[2:]
    lower_index = [inner(Max, current_box(x), x) for x in lower]
    upper_index = [inner(Min, current_box(x), x) for x in upper]
    sides = [inner(Sub, *pair) for pair in zip(upper_index, lower_index, strict=True)]
    areas = inner(Mul, *(inner(Sub, *pair) for pair in zip(upper, lower, strict=True)))
    zero = inner.like(areas, 0.0)
    intersection, area = inner(Mul, *sides), current_box(areas)
    covered = inner(Sub, inner(Sub, area, intersection), inner(Sub, zero, areas))
    exceeds = inner(Greater, inner(Div, intersection, covered), overlap)
    for size in (*sides, area, areas, covered):
        exceeds = inner(And, exceeds, inner(Greater, size, zero))
    ranks = aten(b, "arange.start_step", 0, size_of(b, keep_mask, 2), 1)
    ranks = with_fact(ranks, DType.INT64, b.dims(keep_mask)[2:])
    is_later = inner(And, inner(Greater, ranks, number), current_box(state))
    condition = inner(Identity, inner.constant(np.bool_(True)))
    body.set_outputs([condition, inner(And, state, inner(Not, inner(And, exceeds, is_later)))])
    count = b(Gather, b(Shape, keep_mask), 2)
    return b.results(Loop, 1, count, None, keep_mask, body=body)[0]


class _Points(NamedTuple):
    """Sampling points along one axis of each region: two neighbouring pixels, and their weights; each [R, points]."""

    lower_index: Value
    upper_index: Value
    below: Value
    above: Value


@RoiAlignView.export_rule(DIALECT)
def export_roi_align(b: Builder, op: RoiAlignView) -> Value:
    """Export RoiAlign as weighted pixels around each sampling point.

    Raises:
        UnsupportedError: the number of sampling points depends on the regions (`sampling_ratio` 0).
    """
    if not op.sampling_ratio:
        message = "with sampling_ratio 0, the number of samples depends on the regions"
        raise UnsupportedError(message)
    dtype, compute_dtype = dtype_of(op.x), _compute_dtype(op.x)
    x, rois = cast(b, op.x, compute_dtype), cast(b, op.rois, compute_dtype)
    is_half_pixel = op.coordinate_transformation_mode == "half_pixel"
    corners = aten(b, "sub.Scalar", aten(b, "mul.Scalar", rois, op.spatial_scale), 0.5 if is_half_pixel else 0.0)
    cells = (op.output_height, op.output_width)
    rows, columns = (
        _points(b, corners, first, count, op.sampling_ratio, size_of(b, x, axis), is_clamped=not is_half_pixel)
        for first, count, axis in ((1, cells[0], 2), (0, cells[1], 3))
    )
    pixels = aten(b, "permute", x, (0, 2, 3, 1))
    owner = aten(b, "reshape", cast(b, op.batch_indices, DType.INT64), (-1, 1, 1))
    terms: list[Value] = []
    for y, p in ((rows.lower_index, rows.below), (rows.upper_index, rows.above)):
        for z, q in ((columns.lower_index, columns.below), (columns.upper_index, columns.above)):
            values = aten(b, "index.Tensor", pixels, [owner, aten(b, "unsqueeze", y, 2), aten(b, "unsqueeze", z, 1)])
            weight = aten(b, "mul.Tensor", aten(b, "unsqueeze", p, 2), aten(b, "unsqueeze", q, 1))
            terms.append(aten(b, "mul.Tensor", values, aten(b, "unsqueeze", weight, 3)))
    samples = aten(b, "stack", terms, 0)
    total = aten(b, "amax", samples, (0,)) if op.mode == "max" else aten(b, "sum.dim_IntList", samples, (0,))
    shape = (-1, cells[0], op.sampling_ratio, cells[1], op.sampling_ratio, size_of(b, x, 1))
    name = "amax" if op.mode == "max" else "mean.dim"
    pooled = aten(b, name, aten(b, "reshape", total, shape), (2, 4))
    return cast(b, with_fact(aten(b, "permute", pooled, (0, 3, 1, 2)), compute_dtype, b.outcome.shape or ()), dtype)


def _compute_dtype(x: Value) -> DType:
    return DType.FLOAT64 if dtype_of(x) is DType.FLOAT64 else DType.FLOAT32


def _points(
    b: Builder, corners: Value, first: int, cells: int, ratio: int, length: int | Value, *, is_clamped: bool
) -> _Points:
    """Return `cells * ratio` points at the centers of equal parts of each region; weight 0 outside of the image."""
    start = aten(b, "slice.Tensor", corners, 1, first, first + 1)
    side = aten(b, "sub.Tensor", aten(b, "slice.Tensor", corners, 1, first + 2, first + 3), start)
    side = aten(b, "clamp", side, 1.0) if is_clamped else side
    steps = b.like(corners, np.arange(cells * ratio) + 0.5)
    points = aten(b, "add.Tensor", start, aten(b, "mul.Tensor", aten(b, "div.Scalar", side, cells * ratio), steps))
    size = aten(b, "full", (), length, dtype=DType.INT64)
    last_index = aten(b, "sub.Scalar", size, 1)
    is_inside = aten(b, "logical_and", aten(b, "ge.Scalar", points, -1.0), aten(b, "le.Tensor", points, size))
    points = aten(b, "clamp", points, 0.0)
    truncated = aten(
        b, "to.dtype", aten(b, "masked_fill.Scalar", points, aten(b, "logical_not", is_inside), 0.0), DType.INT64
    )
    lower_index = aten(b, "minimum", truncated, last_index)
    upper_index = aten(b, "minimum", aten(b, "add.Scalar", lower_index, 1), last_index)
    fraction = aten(
        b,
        "masked_fill.Scalar",
        aten(b, "sub.Tensor", points, lower_index),
        aten(b, "ge.Tensor", lower_index, last_index),
        0.0,
    )
    above = aten(b, "mul.Tensor", fraction, is_inside)
    return _Points(
        lower_index, upper_index, aten(b, "mul.Tensor", aten(b, "rsub.Scalar", fraction, 1.0), is_inside), above
    )


@DeformConvView.export_rule(DIALECT)
def export_deform_conv(b: Builder, op: DeformConvView) -> Value:
    """Export DeformConv as interpolated columns and a matrix product, for sizes that are constant except the batch."""
    dtype, compute_dtype, groups = dtype_of(op.x), _compute_dtype(op.x), op.offset_group
    c, *dims = sizes(b.dims(op.x)[1:], "the shape of the image")
    m, _, *kernel = sizes(b.dims(op.w), "the shape of the weights")
    slid = window(dims, kernel, dilations=op.dilations, pads=op.pads, strides=op.strides)
    out, taps = integer_dims(slid.lengths), prod(kernel)
    x, w, offset = (cast(b, each, compute_dtype) for each in (op.x, op.w, op.offset))
    offsets = aten(b, "reshape", offset, (-1, groups, taps, len(dims), *out))
    coordinates = [
        aten(b, "add.Tensor", aten(b, "select.int", offsets, 3, axis), b.like(offset, straight))
        for axis, straight in enumerate(_straight_coordinates(slid))
    ]
    sampled = _interpolated(b, aten(b, "reshape", x, (-1, groups, c // groups, prod(dims))), coordinates, dims)
    if op.mask is not None:
        mask = aten(b, "reshape", cast(b, op.mask, compute_dtype), (-1, groups, 1, taps * prod(out)))
        sampled = aten(b, "mul.Tensor", sampled, mask)
    columns = aten(b, "reshape", sampled, (-1, op.group, c // op.group * taps, prod(out)))
    y = aten(b, "matmul", aten(b, "reshape", w, (op.group, m // op.group, -1)), columns)
    y = with_fact(aten(b, "reshape", y, (-1, m, *out)), compute_dtype, b.outcome.shape or ())
    if op.b is not None:
        y = aten(b, "add.Tensor", y, aten(b, "reshape", cast(b, op.b, compute_dtype), (-1, *[1] * len(out))))
    return cast(b, y, dtype)


def _straight_coordinates(slid: Window) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Return the coordinates that each kernel element (tap) reads without offsets, per axis: [taps, *out]."""
    kernel, out = integer_dims(slid.kernel), integer_dims(slid.lengths)
    rank = len(out)
    is_inside, grid = np.indices(kernel).reshape(rank, -1), np.indices(out)
    return [
        (grid[i] * slid.strides[i] - begin)[None] + (is_inside[i] * slid.dilations[i]).reshape(-1, *[1] * rank)
        for i, (begin, _) in enumerate(integer_pads(slid.pads))
    ]


def _interpolated(b: Builder, flat: Value, coordinates: Sequence[Value], dims: Sequence[int]) -> Value:
    """Interpolate `flat` [N, groups, C, prod(dims)] at `coordinates` [N, groups, *s]; elements outside are 0.

    Shapes: the result [N, groups, C, prod(s)].
    """
    lower_index = [aten(b, "floor", x) for x in coordinates]
    terms: list[Value] = []
    for corner in product((0, 1), repeat=len(dims)):
        index, weight = aten(b, "zeros_like", coordinates[0], dtype=DType.INT64), aten(b, "ones_like", coordinates[0])
        for x, floor, size, step in zip(coordinates, lower_index, dims, corner, strict=True):
            fraction = aten(b, "sub.Tensor", x, floor)
            factor = fraction if step else aten(b, "rsub.Scalar", fraction, 1.0)
            column = aten(b, "add.Scalar", floor, float(step))
            clamped = aten(b, "clamp", column, 0.0, float(max(size - 1, 0)))
            weight = aten(b, "mul.Tensor", weight, aten(b, "mul.Tensor", factor, aten(b, "eq.Tensor", column, clamped)))
            index = aten(b, "add.Tensor", aten(b, "mul.Scalar", index, size), aten(b, "to.dtype", clamped, DType.INT64))
        index, weight = (aten(b, "unsqueeze", aten(b, "flatten.using_ints", each, 2), 2) for each in (index, weight))
        wide_index = aten(b, "expand", index, (-1, -1, b.dims(flat)[2], -1))
        terms.append(aten(b, "mul.Tensor", aten(b, "gather", flat, 3, wide_index), weight))
    return aten(b, "sum.dim_IntList", aten(b, "stack", terms, 0), (0,))

"""`CombinedNonMaxSuppression` of TensorFlow: suppression for each class, then the best boxes of all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mod, Mul
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.detection import NonMaxSuppression
from graphport.ops.definitions.indexing import GatherND, ScatterND
from graphport.ops.definitions.indexing.gathering import GatherElements
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reduction.indices import TopK
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Transpose, Unsqueeze
from graphport.ops.lowering.extents import cut, extent, joined
from graphport.ops.lowering.operands import as_scalar, as_vector, cast, needed, reshaped, scalar, sizes, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@operator("CombinedNonMaxSuppression")
def combined_nms(
    b: Builder,
    boxes: Value,
    scores: Value,
    per_class: Value,
    total: Value,
    overlap: Value,
    least: Value,
    *,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> list[Value]:
    """The best boxes of each image: corners, scores, classes and their count, padded with zeros.

    Operands: boxes [b, n, q, 4] with q = 1 or the number of classes, scores [b, n, c].
    """
    (classes,) = sizes(b.dims(scores)[2:], "the number of classes")
    (given,) = sizes(b.dims(boxes)[2:3], "the number of classes")
    (limit,), (most,) = needed(per_class, "max_output_size_per_class"), needed(total, "max_total_size")
    count = min(most, limit * classes) if pad_per_class else most
    batch, n = extent(b, scores, 0), extent(b, scores, 1)
    by_class = b(Transpose, scores, perm=(0, 2, 1))
    selected = _selected(b, boxes, by_class, (per_class, overlap, least), given)
    own = b(GatherND, by_class, selected)
    # Scores of removed boxes are below all others; the added columns make room for `count` boxes.
    empty = b(Expand, scalar(b, -np.inf, DType.FLOAT32), joined(b, batch, vector(b, [classes]), n))
    kept = b(Reshape, b(ScatterND, empty, selected, own), [0, -1])
    room = b(Expand, scalar(b, -np.inf, DType.FLOAT32), b(Concat, batch, [count], axis=0))
    best, at = b.results(TopK, 2, b(Concat, kept, room, axis=1), [count], axis=1)
    is_box = b(Less, -np.inf, best)
    zero = scalar(b, 0, DType.FLOAT32)
    place = b(Where, is_box, at, 0)
    kind, row = b(Div, place, as_scalar(b, n)), b(Mod, place, as_scalar(b, n))
    box_row = row if given == 1 else b(Add, b(Mul, row, given), kind)
    corners = _corners_at(b, reshaped(b, boxes, (0, -1, 4)), box_row)
    if clip_boxes:
        corners = b(Min, b(Max, corners, zero), 1)
    return [
        b(Where, b(Unsqueeze, is_box, [2]), corners, zero),
        b(Where, is_box, best, zero),
        b(Where, is_box, cast(b, kind, DType.FLOAT32), zero),
        b(ReduceSum, cast(b, is_box, DType.INT32), [1], keepdims=0),
    ]


def _selected(b: Builder, boxes: Value, scores: Value, options: tuple[Value, ...], given: int) -> Value:
    """The image, class and index of each box that suppression keeps: int64 [selected, 3]."""
    per_class, overlap, least = options
    limits = as_vector(b, per_class), reshaped(b, overlap, (1,)), reshaped(b, least, (1,))
    if given == 1:
        return b(NonMaxSuppression, reshaped(b, boxes, (0, -1, 4)), scores, *limits)
    # Boxes of each class: an image for each class.
    images = b(Transpose, boxes, perm=(0, 2, 1, 3))
    flat = b(Reshape, images, joined(b, -1, extent(b, images, 2), 4))
    lines = b(Reshape, scores, joined(b, -1, 1, extent(b, scores, 2)))
    found = b(NonMaxSuppression, flat, lines, *limits)
    image, box = cut(b, found, 0, 1, 1), cut(b, found, 2, 3, 1)
    number = scalar(b, given, DType.INT64)
    return b(Concat, b(Div, image, number), b(Mod, image, number), box, axis=1)


def _corners_at(b: Builder, boxes: Value, rows: Value) -> Value:
    """The boxes [b, n, 4] at rows [b, m]."""
    at = b(Expand, b(Unsqueeze, rows, [2]), [1, 1, 4])
    return b(GatherElements, boxes, at, axis=1)

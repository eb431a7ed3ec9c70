"""Non-maximum suppression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import same_dim
from graphport.ops.types import FLOAT32, INT64, SCALAR, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.detection import NonMaxSuppressionView

Boxes = Annotated[Tensor, Types("tensor(float)", FLOAT32)]
Count = Annotated[Tensor, Types("tensor(int64)", INT64)]


@viewed
def _suppression_shape(op: NonMaxSuppressionView[TensorFact]) -> TensorFact:
    if op.center_point_box not in (0, 1):
        message = f"center_point_box is {op.center_point_box}"
        raise ShapeError(message, "expected 0 (two corners) or 1 (centre and size)")
    for name, fact in (("boxes", op.boxes), ("scores", op.scores)):
        if fact.shape is not None and fact.rank != 3:
            message = f"{name} has rank {fact.rank}, 3 is needed"
            raise ShapeError(message, "expected boxes [batch, number, 4] and scores [batch, class, number]")
    if op.boxes.shape is not None:
        same_dim(4, op.boxes.dims[2], "numbers that describe a box")
        if op.scores.shape is not None:
            same_dim(op.boxes.dims[0], op.scores.dims[0], "batch of boxes and scores")
            same_dim(op.boxes.dims[1], op.scores.dims[2], "number of boxes and scores")
    threshold = op.iou_threshold.reals[0] if op.iou_threshold is not None and op.iou_threshold.reals else None
    if threshold is not None and not 0 <= threshold <= 1:
        message = f"iou_threshold is {threshold:g}"
        raise ShapeError(message, "expected a value in [0, 1]")
    return TensorFact(DType.INT64, (OPEN, 3))


@op(
    finds="selected_indices",
    shape=_suppression_shape,
    since=10,
    outputs=("selected_indices",),
    exactness="exact",
    role="index",
    index_operands=("max_output_boxes_per_class", "iou_threshold", "score_threshold"),
    ranks={
        "boxes": 3,
        "scores": 3,
        "max_output_boxes_per_class": SCALAR,
        "iou_threshold": SCALAR,
        "score_threshold": SCALAR,
    },
)
def NonMaxSuppression(
    boxes: Boxes,
    scores: Boxes,
    max_output_boxes_per_class: Count | None = None,
    iou_threshold: Boxes | None = None,
    score_threshold: Boxes | None = None,
    *,
    center_point_box: int = 0,
) -> Count:
    """Non-maximum suppression: select boxes that overlap no better box; rows of batch, class and box index.

    Overlap is intersection over union; a box is removed if it exceeds `iou_threshold` (default 0). Boxes with a score
    above `score_threshold` are considered, in order of decreasing score, ties by index. At most
    `max_output_boxes_per_class` boxes are selected per class (default 0).

    Shapes: boxes [B, N, 4] as y1, x1, y2, x2 (or with `center_point_box` x, y, width, height), scores [B, C, N], the
    others [] or [1] → [selected, 3].

    Raises:
        ShapeError: the numbers of boxes and scores differ, or the threshold is not in [0, 1].

    Source: ONNX NonMaxSuppression-11.
    """
    most = _scalar(max_output_boxes_per_class, 0)
    overlap = _scalar(iou_threshold, 0)
    kept = [
        [(batch, kind, box) for box in _select(corners, scored, most, overlap, score_threshold)]
        for batch, corners in enumerate(map(_corners if center_point_box else _order_corners, boxes))
        for kind, scored in enumerate(scores[batch])
    ]
    return np.array([row for rows in kept for row in rows], np.int64).reshape(-1, 3)


def _scalar(x: Tensor | None, default: float) -> float:
    return default if x is None or not x.size else x.reshape(-1)[0]


def _order_corners(boxes: Tensor) -> Tensor:
    """Order the corners of each box: lower coordinates first."""
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), 1)


def _corners(boxes: Tensor) -> Tensor:
    half = boxes[:, 2:] / 2
    return np.concatenate((boxes[:, :2] - half, boxes[:, :2] + half), 1)


def _select(corners: Tensor, scores: Tensor, most: float, overlap: float, least: Tensor | None) -> list[int]:
    candidates = np.argsort(-scores, kind="stable")
    if least is not None and least.size:
        candidates = candidates[scores[candidates] > least.reshape(-1)[0]]
    kept: list[int] = []
    while candidates.size and len(kept) < most:
        best, candidates = int(candidates[0]), candidates[1:]
        kept.append(best)
        candidates = candidates[~_exceeds_iou(corners[best], corners[candidates], overlap)]
    return kept


def _exceeds_iou(box: Tensor, others: Tensor, threshold: float) -> Tensor:
    """Whether the intersection over union of a box with each of `others` exceeds `threshold`."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.where((sides > 0).all(1), sides[:, 0] * sides[:, 1], 0)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], 1)
    covered = area + areas - shared
    counts = (shared > 0) & (area > 0) & (areas > 0) & (covered > 0)
    return counts & (shared / np.where(covered > 0, covered, 1) > threshold)

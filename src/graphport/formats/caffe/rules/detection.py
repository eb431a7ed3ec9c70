"""Detection layers of Caffe's forks: prior boxes, region proposals, detection output."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import product
from graphport.core.dtypes import DType
from graphport.formats.caffe.rules.binding import Layer, layer
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Exp, Max, Min, Mul, Sub
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.comparison import GreaterOrEqual, Where
from graphport.ops.definitions.detection.suppression import NonMaxSuppression
from graphport.ops.definitions.indexing.gathering import Gather, GatherND
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction import ReduceMin, TopK
from graphport.ops.definitions.reshape import Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat, Expand, Split

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value

Reals = tuple[float, ...]

LARGEST_BOX = 1 << 16
"""Exclusive upper bound of the sizes, scales and ratios of prior boxes and anchors."""

MOST_PICTURES = 64
"""Maximum batch size: detections are computed image by image."""


@dataclass(frozen=True, slots=True)
class Priors:
    """Parameters of PriorBox."""

    min_size: Reals = ()
    max_size: Reals = ()
    aspect_ratio: Reals = ()
    flip: bool = True
    clip: bool = False
    variance: Reals = ()
    img_size: int = 0
    img_h: int = 0
    img_w: int = 0
    step: float = 0.0
    step_h: float = 0.0
    step_w: float = 0.0
    offset: float = 0.5

    def sizes(self) -> list[tuple[float, float]]:
        """Return width and height of the boxes at one cell, in order."""
        if not self.min_size or min(self.min_size) <= 0 or len(self.max_size) not in (0, len(self.min_size)):
            message = f"min_size {list(self.min_size)} and max_size {list(self.max_size)}"
            raise ShapeError(message, "use at least one min_size, and equally many max_size or none")
        found: list[tuple[float, float]] = []
        for index, size in enumerate(self.min_size):
            found.append((size, size))
            if self.max_size:
                middle = sqrt(size * self.max_size[index])
                found.append((middle, middle))
            found += [(size * sqrt(ratio), size / sqrt(ratio)) for ratio in self._ratios()]
        return found

    def _ratios(self) -> list[float]:
        """Return the distinct aspect ratios other than 1, and their inverses."""
        found = [1.0]
        for ratio in self.aspect_ratio:
            if not 1e-6 < ratio < 1e6:
                message = f"aspect_ratio is {ratio}"
                raise ShapeError(message, "use a positive value close to 1")
            if any(abs(ratio - each) < 1e-6 for each in found):
                continue
            found += [ratio, 1 / ratio] if self.flip else [ratio]
        return [ratio for ratio in found if abs(ratio - 1) >= 1e-6]

    def variances(self) -> list[float]:
        """Return the variances of the four coordinates."""
        if len(self.variance) not in (0, 1, 4) or any(entry <= 0 for entry in self.variance):
            message = f"variance is {list(self.variance)}"
            raise ShapeError(message, "expected 1 or 4 positive values")
        return list(self.variance) if len(self.variance) == 4 else [*(self.variance or (0.1,))] * 4


@layer("PriorBox", "prior_box_param", bottoms=2, stated=Priors)
def prior_box(at: Layer, **attributes: Any) -> Value:
    """Prior boxes around every cell of a feature map, normalized, and their variances."""
    stated = Priors(**attributes)
    rows, columns = _static_size(at.dims(0)[2:])
    height, width = _picture(at, stated)
    steps = (stated.step_h or stated.step, stated.step_w or stated.step)
    step_h, step_w = steps if all(steps) else (height / rows, width / columns)
    sizes = np.array(stated.sizes(), np.float64)
    at.bounded(8 * rows * columns * len(sizes))
    x = ((np.arange(columns) + stated.offset) * step_w)[None, :, None]
    y = ((np.arange(rows) + stated.offset) * step_h)[:, None, None]
    w, h = sizes[:, 0] / 2, sizes[:, 1] / 2
    corners = [(x - w) / width, (y - h) / height, (x + w) / width, (y + h) / height]
    boxes = np.stack(np.broadcast_arrays(*corners), axis=-1).reshape(-1)
    boxes = np.clip(boxes, 0, 1) if stated.clip else boxes
    variances = np.resize(np.array(stated.variances()), boxes.shape)
    return at.b.constant(np.stack([boxes, variances])[None].astype(np.float32))


def _static_size(dims: tuple[Dim, ...]) -> tuple[int, int]:
    found = [dim for dim in dims if isinstance(dim, int)]
    if len(found) != 2 or len(dims) != 2 or min(found) < 1:
        message = f"the spatial dims of a feature map are {list(dims)}, expected a static height and width"
        raise UnsupportedError(message)
    return found[0], found[1]


def _picture(at: Layer, stated: Priors) -> tuple[int, int]:
    height, width = stated.img_h or stated.img_size, stated.img_w or stated.img_size
    return (height, width) if height and width else _static_size(at.dims(1)[2:])


@layer("DetectionOutput", "detection_output_param", bottoms=3)
def detection_output(
    at: Layer,
    *,
    num_classes: int,
    share_location: bool = True,
    background_label_id: int = 0,
    nms_param: tuple[tuple[str, Any], ...] = (),
    code_type: str = "CORNER",
    variance_encoded_in_target: bool = False,
    keep_top_k: int = -1,
    confidence_threshold: float | None = None,
    normalized_bbox: bool = True,
) -> Value:
    """Detections per class: (image, class, score, corners), [1, 1, n, 7]; a row of -1 if there are none."""
    suppression = {"nms_threshold": 0.3, "top_k": -1, "eta": 1.0} | dict(nms_param)
    if suppression["eta"] != 1 or not normalized_bbox:
        message = "an adaptive threshold (eta below 1), or boxes in pixels"
        raise UnsupportedError(message)
    batch, count = at.dims(1)[0], at.dims(2)[-1]
    if not isinstance(batch, int) or not isinstance(count, int) or batch > MOST_PICTURES:
        message = "an unknown or too large batch size or number of boxes"
        raise UnsupportedError(message)
    if num_classes < 1 or product(at.dims(1)[1:]) != num_classes * (count // 4):
        message = f"shape {list(at.dims(1))} does not match {num_classes} scores for each of {count // 4} boxes"
        raise ShapeError(message)
    at.bounded(num_classes)
    count //= 4
    locations = 1 if share_location else num_classes
    if product(at.dims(0)[1:]) != locations * count * 4:
        message = f"shape {list(at.dims(0))} does not match {locations} times {count} boxes of four coordinates"
        raise ShapeError(message)
    boxes = _decoded(at, (batch, count, locations), code_type, is_encoded=variance_encoded_in_target)
    scores = at.b(Reshape, at.bottoms[1], at.integers(batch, count, num_classes))
    scores = at.b(Transpose, scores, perm=(0, 2, 1))
    lowest = float(np.finfo(np.float32).min) if confidence_threshold is None else confidence_threshold
    kept = _Selection(at, num_classes, background_label_id, suppression["nms_threshold"], lowest)
    limit = int(suppression["top_k"])
    if -1 < limit < count:
        scores = _only_best(at, scores, limit)
    rows = [kept.of_picture(index, batch, boxes, scores, locations, keep_top_k) for index in range(batch)]
    found = rows[0] if batch == 1 else at.b(Concat, *rows, axis=0)
    return at.b(Unsqueeze, _never_empty(at, found, batch), at.integers(0, 1))


def _decoded(at: Layer, extents: tuple[int, int, int], code_type: str, *, is_encoded: bool) -> Value:
    """Decode priors and offsets to box corners [batch, locations, boxes, 4]."""
    batch, count, locations = extents
    offsets = at.b(Reshape, at.bottoms[0], at.integers(batch, count, locations, 4))
    offsets = at.b(Transpose, offsets, perm=(0, 2, 1, 3))
    priors = at.b(Reshape, at.bottoms[2], at.integers(2, count, 4))
    boxes, variances = at.b.results(Split, 2, priors, axis=0, num_outputs=2)
    if not is_encoded:
        offsets = at.b(Mul, offsets, variances)
    if code_type == "CORNER":
        return at.b(Add, boxes, offsets)
    corners = at.b.results(Split, 4, boxes, axis=-1, num_outputs=4)
    moves = at.b.results(Split, 4, offsets, axis=-1, num_outputs=4)
    w, h = at.b(Sub, corners[2], corners[0]), at.b(Sub, corners[3], corners[1])
    if code_type == "CORNER_SIZE":
        moved = [at.b(Add, at.b(Mul, m, size), c) for m, size, c in zip(moves, (w, h, w, h), corners, strict=True)]
        return at.b(Concat, *moved, axis=-1)
    if code_type != "CENTER_SIZE":
        message = f"code_type is {code_type}, expected CORNER, CENTER_SIZE or CORNER_SIZE"
        raise UnsupportedError(message)
    half = at.float_scalar(0.5)
    lower: list[Value] = []
    upper: list[Value] = []
    for axis, size in enumerate((w, h)):
        middle = at.b(Mul, at.b(Add, corners[axis], corners[axis + 2]), half)
        middle = at.b(Add, at.b(Mul, moves[axis], size), middle)
        reach = at.b(Mul, at.b(Mul, at.b(Exp, moves[axis + 2]), size), half)
        lower.append(at.b(Sub, middle, reach))
        upper.append(at.b(Add, middle, reach))
    return at.b(Concat, *lower, *upper, axis=-1)


def _only_best(at: Layer, scores: Value, limit: int) -> Value:
    """Set `scores` that are not among the best of their class below any threshold."""
    best, _ = at.b.results(TopK, 2, scores, at.integers(limit), axis=-1)
    least = at.b(ReduceMin, best, at.integers(-1))
    return at.b(Where, at.b(GreaterOrEqual, scores, least), scores, at.float_scalar(float(np.finfo(np.float32).min)))


@dataclass(frozen=True, slots=True)
class _Selection:
    """Selection of detections: thresholds and limits of non-maximum suppression."""

    at: Layer
    num_classes: int
    background: int
    overlap: float
    lowest: float

    def of_picture(self, index: int, batch: int, boxes: Value, scores: Value, locations: int, keep_top_k: int) -> Value:
        """Return the detections of one image, ordered by class and score: [n, 7]."""
        b, at = self.at.b, self.at
        if batch > 1:
            boxes = b(Gather, boxes, at.integers(index))
            scores = b(Gather, scores, at.integers(index))
        labels = [label for label in range(self.num_classes) if label != self.background]
        own = b(Gather, scores, at.integers(*labels), axis=1)
        if locations == 1:
            picks = b(NonMaxSuppression, b(Squeeze, boxes, at.integers(1)), own, *self._limits())
            chosen = b(Gather, picks, b.constant(np.int64(1)), axis=1)
        else:
            # Each class has separate boxes, so classes become the batch of NonMaxSuppression.
            chosen_boxes = b(Squeeze, b(Gather, boxes, at.integers(*labels), axis=1), at.integers(0))
            rows = b(Transpose, own, perm=(1, 0, 2))
            picks = b(NonMaxSuppression, chosen_boxes, rows, *self._limits())
            chosen = b(Gather, picks, b.constant(np.int64(0)), axis=1)
        place = b(Gather, picks, b.constant(np.int64(2)), axis=1)
        at_scores = b(Concat, *(b(Unsqueeze, v, at.integers(1)) for v in (chosen, place)), axis=1)
        found = b(GatherND, b(Squeeze, own, at.integers(0)), at_scores)
        label = b(Gather, b.constant(np.array(labels, np.float32)), chosen)
        if locations == 1:
            corners = b(Gather, b(Squeeze, boxes, at.integers(0, 1)), place)
        else:
            mine = b(Squeeze, b(Gather, boxes, at.integers(*labels), axis=1), at.integers(0))
            corners = b(GatherND, mine, at_scores)
        columns = [b(Unsqueeze, v, at.integers(1)) for v in (label, found)]
        rows = b(Concat, *columns, corners, axis=1)
        if keep_top_k > -1:
            rows = self._best(rows, found, keep_top_k)
        count = b(Shape, rows, end=1)
        number = b(Expand, b.constant(np.array([[index]], np.float32)), b(Concat, count, at.integers(1), axis=0))
        return b(Concat, number, rows, axis=1)

    def _limits(self) -> tuple[Value, Value, Value]:
        # NonMaxSuppression keeps scores above the threshold, and no box has a rank above the number of boxes.
        at = self.at
        count = at.dims(2)[-1]
        most = count // 4 if isinstance(count, int) else 0
        return at.b.constant(np.array([most], np.int64)), at.float_scalar(self.overlap), at.float_scalar(self.lowest)

    def _best(self, rows: Value, scores: Value, count: int) -> Value:
        """Return the `count` rows with the highest scores in their original order."""
        b, at = self.at.b, self.at
        limit = b(Min, at.integers(count), b(Shape, scores))
        _, best = b.results(TopK, 2, scores, limit, axis=0)
        in_order, _ = b.results(TopK, 2, best, limit, axis=0, largest=0)
        return b(Gather, rows, in_order)


def _never_empty(at: Layer, rows: Value, batch: int) -> Value:
    """Return `rows`; if empty, one row of -1 for each image."""
    b = at.b
    none = b(Sub, at.integers(1), b(Min, at.integers(1), b(Shape, rows, end=1)))
    blank = np.full((batch, 7), -1, np.float32)
    blank[:, 0] = np.arange(batch)
    # One copy of the row per image, or none.
    shape = b(Concat, none, at.integers(batch, 7), axis=0)
    instead = b(Reshape, b(Expand, b.constant(blank[None]), shape), at.integers(-1, 7))
    return b(Concat, rows, instead, axis=0)


@dataclass(frozen=True, slots=True)
class Anchors:
    """Anchors of a Proposal layer at every cell of a feature map."""

    feat_stride: int = 16
    base_size: int = 16
    ratio: Reals = ()
    scale: Reals = ()

    def kinds(self) -> int:
        """Return the number of anchors per cell.

        Raises:
            ShapeError: there are no anchors, or a ratio or scale is not positive.
        """
        stated = np.array([self.feat_stride, self.base_size, *self.ratio, *self.scale])
        if not self.ratio or not self.scale or not ((stated > 0) & (stated < LARGEST_BOX)).all():
            message = f"feat_stride {self.feat_stride}, base_size {self.base_size}, ratio {list(self.ratio)}"
            remedy = f"use at least one value of each, all positive and below {LARGEST_BOX}"
            raise ShapeError(f"{message}, scale {list(self.scale)}", remedy)
        return len(self.ratio) * len(self.scale)

    def boxes(self) -> np.ndarray[Any, Any]:
        """Return the anchor corners at the first cell, ordered by ratio and scale; corner pixels belong to the box."""
        ratio = np.array(self.ratio, np.float64)
        width = np.floor(np.sqrt(self.base_size**2 / ratio) + 0.5)
        height = np.floor(width * ratio + 0.5)
        reach = [(np.outer(side, self.scale).reshape(-1) - 1) / 2 for side in (width, height)]
        middle = (self.base_size - 1) / 2
        return np.stack([middle - reach[0], middle - reach[1], middle + reach[0], middle + reach[1]], axis=-1)

    def on(self, rows: int, columns: int) -> np.ndarray[Any, Any]:
        """Return the anchor corners at all cells in row-major order: [rows * columns * anchors, 4]."""
        y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        shifts = np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4) * self.feat_stride
        return (shifts + self.boxes()).reshape(-1, 4).astype(np.float32)


@layer("Proposal", "proposal_param", bottoms=3, stated=Anchors)
def proposal(
    at: Layer,
    *,
    min_size: int = 16,
    pre_nms_topn: int = 6000,
    post_nms_topn: int = 300,
    nms_thresh: float = 0.7,
    **attributes: Any,
) -> tuple[Value, ...]:
    """Region proposals of one image after suppression: [n, 5], image index 0 and corners; and scores [n, 1]."""
    stated = Anchors(**attributes)
    rows, columns = _static_size(at.dims(0)[2:])
    kinds = stated.kinds()
    count = at.bounded(4 * kinds * rows * columns) // 4
    if at.dims(0)[:2] != (1, 2 * kinds) or at.dims(1) != (1, 4 * kinds, rows, columns):
        message = (
            f"shapes {list(at.dims(0))} and {list(at.dims(1))} do not "
            f"match scores and offsets of {kinds} boxes per position"
        )
        raise ShapeError(message, "use a batch of 1, with two scores and four offsets for each ratio and scale")
    if min(pre_nms_topn, post_nms_topn) < 1:
        message = f"pre_nms_topn is {pre_nms_topn}, post_nms_topn {post_nms_topn}"
        raise ShapeError(message, "expected positive values")
    boxes, sizes = _inside(at, _moved(at, stated.on(rows, columns)), min_size)
    scores = at.b(Slice, at.bottoms[0], at.integers(kinds), at.integers(2 * kinds), at.integers(1))
    scores = at.b(Reshape, at.b(Transpose, scores, perm=(0, 2, 3, 1)), at.integers(count))
    # Regions below the minimum size get the lowest score, but are not removed.
    scores = at.b(Mul, scores, at.b(Cast, sizes, to=DType.FLOAT32))
    scores, order = at.b.results(TopK, 2, scores, at.integers(min(pre_nms_topn, count)), axis=0)
    boxes = at.b(Gather, boxes, order)
    kept = _suppressed(at, boxes, scores, post_nms_topn, nms_thresh)
    number = at.b(Expand, at.float_scalar(0), at.b(Concat, at.b(Shape, kept), at.integers(1), axis=0))
    rois = at.b(Concat, number, at.b(Gather, boxes, kept), axis=1)
    return rois, at.b(Unsqueeze, at.b(Gather, scores, kept), at.integers(1))


def _moved(at: Layer, anchors: np.ndarray[Any, Any]) -> Value:
    """Apply the offsets in the second bottom to `anchors`; return corners [n, 4]. Corner pixels belong to the box."""
    b = at.b
    offsets = b(Reshape, b(Transpose, at.bottoms[1], perm=(0, 2, 3, 1)), at.integers(len(anchors), 4))
    moves, stretches = b.results(Split, 2, offsets, axis=1, num_outputs=2)
    size = anchors[:, 2:] - anchors[:, :2] + 1
    extent = b.constant(size)
    middle = b(Add, b(Mul, moves, extent), b.constant(anchors[:, :2] + size / 2))
    reach = b(Mul, b(Mul, b(Exp, stretches), extent), at.float_scalar(0.5))
    return b(Concat, b(Sub, middle, reach), b(Add, middle, reach), axis=1)


def _inside(at: Layer, boxes: Value, min_size: int) -> tuple[Value, Value]:
    """Clip `boxes` to the image of the third bottom; also return which are large enough, [n]."""
    b = at.b
    info = b(Reshape, at.bottoms[2], at.integers(-1))
    last = b(Sub, b(Gather, info, at.integers(1, 0, 1, 0)), at.float_scalar(1))
    boxes = b(Max, b(Min, boxes, last), at.float_scalar(0))
    lower, upper = b.results(Split, 2, boxes, axis=1, num_outputs=2)
    sizes = b(Add, b(Sub, upper, lower), at.float_scalar(1))
    least = b(Mul, b(Gather, info, at.integers(2)), at.float_scalar(min_size))
    return boxes, b(GreaterOrEqual, b(ReduceMin, sizes, at.integers(1), keepdims=0), least)


def _suppressed(at: Layer, boxes: Value, scores: Value, count: int, overlap: float) -> Value:
    """Return which of `boxes`, sorted by score, survive suppression; corner pixels are inside: [n]."""
    b = at.b
    whole = b(Add, boxes, b.constant(np.array([0, 0, 1, 1], np.float32)))
    picks = b(
        NonMaxSuppression,
        b(Unsqueeze, whole, at.integers(0)),
        b(Unsqueeze, scores, at.integers(0, 1)),
        at.integers(count),
        at.float_scalar(overlap),
    )
    return b(Gather, picks, b.constant(np.int64(2)), axis=1)

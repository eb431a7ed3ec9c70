"""Boxes that single-shot detectors start from in OpenVINO: some around each place of a feature map."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul, Sqrt, Sub
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, gather_index, joined
from graphport.ops.lowering.operands import as_int64, cast
from graphport.ops.view import Attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Reals = tuple[float, ...]

_ALIKE = 1e-6
"""Ratios that differ by less are one."""


@dataclass(frozen=True, slots=True)
class _Prior:
    """A prior box: center relative to a grid cell, and half width and height.

    `scale` multiplies the half sizes by image height ** {0: 0, 1: 1, 2: 0.5}.
    """

    w: float
    h: float
    x: float = 0.0
    y: float = 0.0
    scale: int = 0
    is_clipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors(Attributes):
    """Attributes of PriorBox; `min_max_aspect_ratios_order` puts the maximum size before the aspect ratios."""

    min_size: Reals = ()
    max_size: Reals = ()
    aspect_ratio: Reals = ()
    density: Reals = ()
    fixed_ratio: Reals = ()
    fixed_size: Reals = ()
    flip: bool = False
    scale_all_sizes: bool = True
    min_max_aspect_ratios_order: bool = True

    def ratios(self) -> list[float]:
        """Return the distinct aspect ratios, 1 first; with `flip` each is followed by its inverse."""
        found = [1.0]
        for ratio in map(float, np.array(self.aspect_ratio, np.float32)):
            if ratio <= 0:
                message = f"aspect_ratio is {ratio}"
                raise ShapeError(message, "expected positive values")
            if not any(abs(ratio - each) < _ALIKE for each in found):
                found += [ratio, 1 / ratio] if self.flip else [ratio]
        return found

    def count(self) -> int:
        """Return the declared number of boxes per cell.

        Raises:
            ShapeError: a size, ratio or density is not a positive finite number.
        """
        for name in ("min_size", "max_size", "aspect_ratio", "density", "fixed_ratio", "fixed_size"):
            wrong = [value for value in map(float, getattr(self, name)) if not 0 < value < math.inf]
            if wrong:
                message = f"{name} is {wrong[0]}"
                raise ShapeError(message, "expected positive values")
        ratios = len(self.ratios())
        if self.fixed_size:
            found = ratios * len(self.fixed_size)
        elif self.scale_all_sizes:
            found = ratios * len(self.min_size) + len(self.max_size)
        else:
            found = ratios + len(self.min_size) - 1
        each = len(self.fixed_ratio) or ratios
        return found + each * sum(int(density) ** 2 - 1 for density in self.density)

    def boxes(self) -> list[_Prior]:
        """Return the boxes of a cell, in order.

        Raises:
            UnsupportedError: their number differs from the declared one.
        """
        count = self.count()
        found = [*self._fixed(), *self._sized()]
        if len(found) != count or not found:
            message = f"{len(found)} boxes per position, but the attributes declare {count}"
            raise UnsupportedError(message)
        return found

    def _fixed(self) -> Iterator[_Prior]:
        """Yield boxes of fixed sizes, in a grid if there is a density."""
        if self.fixed_size and len(self.density) < len(self.fixed_size):
            message = f"{len(self.fixed_size)} fixed sizes but only {len(self.density)} densities"
            raise UnsupportedError(message)
        for size, density in zip(self.fixed_size, self.density, strict=False):
            if self.fixed_ratio:
                ratios = list(self.fixed_ratio)
            else:
                yield from self._dense(size, density, int(size) / 2, int(size) / 2)
                ratios = [ratio for ratio in self.ratios() if abs(ratio - 1) >= _ALIKE]
            for ratio in ratios:
                root = ratio**0.5
                yield from self._dense(size, density, size / 2 * root, size / 2 / root)

    @staticmethod
    def _dense(size: float, density: float, w: float, h: float) -> Iterator[_Prior]:
        count = int(density)
        if count < 1:
            message = f"density is {density}"
            raise ShapeError(message, "at least 1")
        shift = int(size / count)
        first = shift / 2 - int(size) // 2
        for row in range(count):
            for column in range(count):
                yield _Prior(w, h, first + column * shift, first + row * shift, is_clipped=True)

    def _sized(self) -> Iterator[_Prior]:
        """Yield a square per minimum size, one between minimum and maximum, and one per aspect ratio."""
        scale = 0 if self.scale_all_sizes else 1
        for index, size in enumerate(self.min_size):
            yield _Prior(size / 2, size / 2, scale=scale)
            middle: list[_Prior] = []
            if index < len(self.max_size):
                half = (size * self.max_size[index]) ** 0.5 / 2
                middle = [_Prior(half, half, scale=2 * scale)]
            by_ratio: list[_Prior] = []
            if self.scale_all_sizes or index == len(self.min_size) - 1:
                own = size if self.scale_all_sizes else self.min_size[0]
                roots = [ratio**0.5 for ratio in self.ratios() if abs(ratio - 1) >= _ALIKE]
                by_ratio = [_Prior(own / 2 * root, own / 2 / root, scale=scale) for root in roots]
            yield from [*middle, *by_ratio] if self.min_max_aspect_ratios_order else [*by_ratio, *middle]


@Priors.lower("openvino", "opset1.PriorBox")
@Priors.lower("openvino", "opset8.PriorBox")
def prior_box(
    b: Builder,
    op: Priors,
    output_size: Value,
    picture: Value,
    *,
    clip: bool = False,
    step: float = 0.0,
    offset: float = 0.0,
    variance: Reals = (),
) -> Value:
    """PriorBox: corners of prior boxes relative to the image size, and their variances: [2, n]."""
    boxes = op.boxes()
    map_, whole = (cast(b, each, DType.FLOAT32) for each in (output_size, picture))
    steps = b(Div, whole, map_)
    middle = 0.5
    if not op.scale_all_sizes and step != -1:
        height = gather_index(b, whole, 0)
        steps = steps if step == 0 else b(Expand, b(Mul, height, step), [2])
        middle = 0.5 if step == 0 else offset
    elif not op.scale_all_sizes:
        steps, middle = b(Expand, cut(b, steps, 0, 1, 0), [2]), offset
    elif step != 0:
        steps, middle = b.constant(np.full(2, step, np.float32)), offset
    return _prior_boxes(b, output_size, whole, steps, middle, boxes, clip=clip, variance=variance)


@lower("openvino", "opset1.PriorBoxClustered")
def prior_box_clustered(
    b: Builder,
    output_size: Value,
    picture: Value,
    *,
    step: float = 0.0,
    step_w: float = 0.0,
    step_h: float = 0.0,
    width: Reals = (),
    height: Reals = (),
    clip: bool = True,
    offset: float = 0.0,
    variance: Reals = (),
) -> Value:
    """PriorBoxClustered: prior boxes of explicit widths and heights."""
    if len(width) != len(height) or not width:
        message = f"{len(width)} widths and {len(height)} heights"
        raise ShapeError(message, "give equally many widths and heights, at least one")
    boxes = [_Prior(w / 2, h / 2) for w, h in zip(width, height, strict=True)]
    map_, whole = (cast(b, each, DType.FLOAT32) for each in (output_size, picture))
    sides = (step_h or step, step_w or step)
    steps = b.constant(np.array(sides, np.float32)) if any(sides) else b(Div, whole, map_)
    return _prior_boxes(b, output_size, whole, steps, offset, boxes, clip=clip, variance=variance)


def _prior_boxes(
    b: Builder,
    output_size: Value,
    whole: Value,
    steps: Value,
    offset: float,
    boxes: list[_Prior],
    *,
    clip: bool,
    variance: Reals,
) -> Value:
    """Compute prior boxes of a feature map [2] with steps [2] over an image [2]; sizes are (height, width)."""
    if len(variance) not in (0, 1, 4):
        message = f"variance is {list(variance)}"
        raise ShapeError(message, "expected 1 or 4 values")
    map_ = as_int64(b, output_size)
    low: list[Value] = []
    high: list[Value] = []
    shape = joined(b, map_, len(boxes))
    # Boxes begin with the width, shapes with the height.
    for axis, behind in ((1, [0, 2]), (0, [1, 2])):
        side = gather_index(b, whole, axis, 0)
        every = cast(b, counted(b, cut(b, map_, axis, axis + 1, 0)), DType.FLOAT32)
        middle = b(Mul, b(Add, every, offset), gather_index(b, steps, axis, 0))
        shifts = np.array([box.x if axis else box.y for box in boxes], np.float32)
        middle = b(Add, b(Unsqueeze, middle, behind), b.constant(shifts))
        reach = _half_sizes(b, [box.w if axis else box.h for box in boxes], boxes, whole)
        for ends, end in ((low, b(Sub, middle, reach)), (high, b(Add, middle, reach))):
            ends.append(b(Unsqueeze, b(Expand, b(Div, end, side), shape), [3]))
    starts, stops = b(Concat, *low, axis=3), b(Concat, *high, axis=3)
    clipped = np.array([[box.is_clipped] for box in boxes])
    if clipped.any():
        starts = b(Max, starts, b.constant(np.where(clipped, 0, -np.inf).astype(np.float32)))
        stops = b(Min, stops, b.constant(np.where(clipped, 1, np.inf).astype(np.float32)))
    corners = b(Concat, starts, stops, axis=3)
    if clip:
        corners = b(Clip, corners, 0, 1)
    factors = b.constant(np.resize(np.array(variance or (0.1,), np.float32), 4))
    both = [b(Reshape, each, [1, -1]) for each in (corners, b(Expand, factors, b(Shape, corners)))]
    return b(Concat, *both, axis=0)


def _half_sizes(b: Builder, halves: list[float], boxes: list[_Prior], whole: Value) -> Value:
    """Return half the sizes of prior boxes; `scale` 1 is relative to the image height, 2 to its square root."""
    if not any(box.scale for box in boxes):
        return b.constant(np.array(halves, np.float32))
    height = cut(b, whole, 0, 1, 0)
    powers = [None, height, b(Sqrt, height)]
    total: Value | None = None
    for scale, power in enumerate(powers):
        own = [half if box.scale == scale else 0.0 for half, box in zip(halves, boxes, strict=True)]
        if any(own):
            part = b.constant(np.array(own, np.float32))
            part = part if power is None else b(Mul, part, power)
            total = part if total is None else b(Add, total, part)
    return b.constant(np.array(halves, np.float32)) if total is None else total

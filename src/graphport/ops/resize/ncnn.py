"""Resizing and sampling of ncnn."""

from __future__ import annotations

from itertools import product
from math import floor
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.blobs import Layer, folded, layer, lengths_of, said
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.pattern import constant_numbers
from graphport.ops.pytorch import length, vector
from graphport.ops.reshape import Transpose
from graphport.ops.resize import GridSample, Resize

_MODES = {1: "nearest", 2: "linear", 3: "cubic"}
_BLOCKS = frozenset(
    product(("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"), ("round_prefer_floor", "round_prefer_ceil"))
)
"""Ways to place points, and to round them, with which lengths that are multiplied by an integer repeat each pixel."""


@layer("Interp")
def interp(at: Layer) -> Value:
    """To given lengths, or by factors; whichever is given places the points."""
    if len(at.inputs) != 1 or at.integer(5) or isinstance(at.parameters.get("9"), str):
        message = "the size depends on another blob"
        raise UnsupportedError(message)
    kind = at.integer(0)
    if kind not in _MODES or at.rank != 3:
        message = f"there is no rule for the interpolation {kind} of {at.rank} axes"
        raise UnsupportedError(message)
    dims = at.b.dims(at.x)
    attributes: dict[str, Any] = {"mode": _MODES[kind]}
    if kind == 1:
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif at.integer(6):
        attributes["coordinate_transformation_mode"] = "align_corners"
    if at.integer(3) and at.integer(4):
        target = vector(at.b, [1, length(dims, 1), at.integer(3), at.integer(4)])
        return at.b(Resize, at.x, None, None, target, **attributes)
    factors = at.b.constant(np.array([1.0, 1.0, at.real(1, 1.0), at.real(2, 1.0)]), DType.FLOAT32)
    return at.b(Resize, at.x, None, factors, None, **attributes)


@layer("GridSample")
def grid_sample(at: Layer) -> Value:
    if at.rank != 3 or len(at.inputs) != 2:
        message = "sampling of a volume"
        raise UnsupportedError(message)
    grid = at.inputs[1]
    if at.integer(3):
        grid = at.b(Transpose, grid, perm=(0, 2, 3, 1))
    mode = {1: "linear", 2: "nearest", 3: "cubic"}[at.integer(0, 1)]
    border = {1: "zeros", 2: "border", 3: "reflection"}[at.integer(1, 1)]
    return at.b(GridSample, at.x, grid, mode=mode, padding_mode=border, align_corners=at.integer(2) or None)


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Resize.lift("ncnn")
def lift_resize(
    b: Builder, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None, **how: Any
) -> Value | None:
    """A picture; the factors are those of the lengths."""
    del roi
    lengths = lengths_of(b, x)
    way, mode = how.pop("coordinate_transformation_mode", "half_pixel"), how.pop("mode", "nearest")
    rounding, axes = how.pop("nearest_mode", "round_prefer_floor"), how.pop("axes", None)
    how.pop("cubic_coeff_a", None)
    if len(lengths) != 3 or any(how.values()):
        return None
    target = _target(lengths, scales, sizes, axes)
    if target is None or target[0] != lengths[0]:
        return None
    height, width = target[1:]
    if mode == "nearest":
        whole = height % lengths[1] == 0 and width % lengths[2] == 0
        # Where each pixel becomes a block, points between two pixels' middles never stand half-way.
        is_block = whole and (way, rounding) in _BLOCKS
        if (way, rounding) != ("asymmetric", "floor") and not is_block:
            return None
        return said(b, "Interp", x, p0=1, p3=height, p4=width)
    if way not in ("half_pixel", "pytorch_half_pixel", "align_corners") or min(height, width) < 2:
        return None
    return said(b, "Interp", x, p0=3 if mode == "cubic" else 2, p3=height, p4=width, p6=int(way == "align_corners"))


def _target(
    lengths: list[int], scales: Value | None, sizes: Value | None, axes: tuple[int, ...] | None
) -> list[int] | None:
    """The lengths of the result, if factors are those of the lengths."""
    places = tuple(range(4)) if axes is None else tuple(axis % 4 for axis in axes)
    found = [1, *lengths]
    if sizes is not None:
        numbers = constant_numbers(sizes)
        if numbers is None or len(numbers) != len(places):
            return None
        for place, number in zip(places, numbers, strict=True):
            found[place] = int(number)
        return found[1:] if found[0] == 1 else None
    storage = None if scales is None else folded(scales)
    if storage is None or storage.count != len(places):
        return None
    for place, factor in zip(places, storage.numpy().tolist(), strict=True):
        extent = found[place]
        found[place] = floor(extent * factor + 1e-6)
        if abs(found[place] - extent * factor) > 1e-4:
            return None
    return found[1:] if found[0] == 1 else None


@GridSample.lift("ncnn")
def lift_grid_sample(
    b: Builder, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value | None:
    """Of a picture."""
    kinds, borders = {"linear": 1, "nearest": 2, "cubic": 3}, {"zeros": 1, "border": 2, "reflection": 3}
    lengths, places = lengths_of(b, x), lengths_of(b, grid)
    if len(lengths) != 3 or len(places) != 3 or mode not in kinds or padding_mode not in borders:
        return None
    fact = TensorFact(DType.FLOAT32, (1, lengths[0], *places[:2]))
    return said(
        b, "GridSample", x, grid, fact=fact, p0=kinds[mode], p1=borders[padding_mode], p2=int(bool(align_corners))
    )

"""Resizing in Caffe's forks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer, small_numbers
from graphport.formats.caffe.rules.pooling import unpooled
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.resize import Resize
from graphport.ops.views.resize import ResizeView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@layer("Interp", "interp_param", bottoms=None)
def interp(
    at: Layer,
    *,
    height: int = 0,
    width: int = 0,
    zoom_factor: int = 1,
    shrink_factor: int = 1,
    pad_beg: int = 0,
    pad_end: int = 0,
) -> Value:
    """Bilinear interpolation with aligned corners to a size given directly, by factors, or by the second bottom."""
    if pad_beg > 0 or pad_end > 0:
        message = f"pad_beg {pad_beg} and pad_end {pad_end}"
        raise ShapeError(message, "use 0, or negative values to crop")
    if len(at.bottoms) not in (1, 2) or len(at.dims()) != 4:
        message = f"{len(at.bottoms)} bottoms, the first of rank {len(at.dims())}"
        raise ShapeError(message, "use 1 or 2 bottoms of rank 4")
    x = at.x
    if pad_beg or pad_end:
        x = at.b(Pad, x, at.integers(0, 0, pad_beg, pad_beg, 0, 0, pad_end, pad_end))
    sizes: list[Dim] = [height, width]
    if len(at.bottoms) == 2:
        sizes = list(at.dims(1)[2:])
    elif not (height and width):
        if zoom_factor < 1 or shrink_factor < 1:
            message = f"zoom_factor is {zoom_factor}, shrink_factor is {shrink_factor}"
            raise ShapeError(message, "use factors of at least 1")
        shrunk = [(n - 1) // shrink_factor + 1 for n in at.b.dims(x)[2:]]
        sizes = [n + (n - 1) * (zoom_factor - 1) for n in shrunk]
    whole = [n for n in sizes if isinstance(n, int)]
    if len(whole) != 2:
        message = "the output dims depend on unknown dims"
        raise UnsupportedError(message)
    stated = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "axes": (2, 3)}
    return at.b(Resize, x, None, None, at.integers(*whole), **stated)


@layer("Upsample", "upsample_param", bottoms=None)
def upsample(
    at: Layer,
    *,
    scale: int = 2,
    scale_h: int | None = None,
    scale_w: int | None = None,
    pad_out_h: bool = False,
    pad_out_w: bool = False,
    upsample_h: int | None = None,
    upsample_w: int | None = None,
) -> Value:
    """Repeat each entry; with a second bottom, scatter entries to the indices of pooling."""
    factors = (scale_h or scale, scale_w or scale)
    if len(at.dims()) != 4 or len(at.bottoms) not in (1, 2):
        message = f"{len(at.bottoms)} bottoms, the first of rank {len(at.dims())}"
        raise ShapeError(message, "use 1 or 2 bottoms of rank 4")
    if len(at.bottoms) == 1:
        if upsample_h or upsample_w or pad_out_h or pad_out_w:
            message = "an output size or padding without a second bottom of indices"
            raise UnsupportedError(message)
        scales = at.b.constant(np.array(factors, np.float32))
        stated = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return at.b(Resize, at.x, None, scales, axes=(2, 3), **stated)
    dims = [n for n in at.dims()[2:] if isinstance(n, int)]
    if len(dims) != 2:
        message = "indices into a feature map of dynamic size"
        raise UnsupportedError(message)
    height = upsample_h or dims[0] * factors[0] - int(pad_out_h)
    width = upsample_w or dims[1] * factors[1] - int(pad_out_w)
    return unpooled(at, height, width)


@ResizeView.export_rule("caffe")
def export_resize(b: Builder, op: ResizeView) -> tuple[Value, ...] | None:
    """Export Resize: nearest as a transposed convolution, linear with aligned corners as Interp."""
    dims = b.dims(op.x)
    if len(dims) != 4 or op.antialias or op.exclude_outside or op.keep_aspect_ratio_policy != "stretch":
        return None
    factors = _factors(dims, op.scales, op.sizes, op.axes)
    if factors is None or factors[:2] != (1.0, 1.0):
        return None
    way = op.coordinate_transformation_mode
    if way == "align_corners" and op.mode == "linear":
        extents = [n for n in b.outcome.dims[2:] if isinstance(n, int)]
        return in_caffe(b, "Interp", op.x, height=extents[0], width=extents[1]) if len(extents) == 2 else None
    repeats = tuple(round(factor) for factor in factors[2:])
    exact = repeats == factors[2:] and min(repeats) > 0
    floors = way == "asymmetric" and op.nearest_mode == "floor"
    rounds = way == "half_pixel" and op.nearest_mode.startswith("round")
    if op.mode != "nearest" or not exact or not (floors or rounds) or not isinstance(dims[1], int):
        return None
    reserve(dims[1], *repeats)
    ones = b.constant(np.ones((dims[1], 1, *repeats), np.float32))
    stated: dict[str, Any] = {"num_output": dims[1], "group": dims[1] if dims[1] != 1 else None, "bias_term": False}
    steps: dict[str, Any] = {
        "kernel_h": repeats[0],
        "kernel_w": repeats[1],
        "stride_h": repeats[0],
        "stride_w": repeats[1],
    }
    return in_caffe(b, "Deconvolution", op.x, blobs=[ones], **stated, **steps)


def _factors(
    dims: tuple[Dim, ...], scales: Value | None, sizes: Value | None, axes: tuple[int, ...] | None
) -> tuple[float, ...] | None:
    """Return the scale of every axis if static."""
    indices = range(len(dims)) if axes is None else [axis % len(dims) for axis in axes]
    found = [1.0] * len(dims)
    numbers = small_numbers(scales if sizes is None else sizes)
    if numbers is None or numbers.size != len(indices):
        return None
    for place, number in zip(indices, numbers.reshape(-1).tolist(), strict=True):
        extent = dims[place]
        if sizes is None:
            found[place] = float(number)
        elif isinstance(extent, int) and extent:
            found[place] = number / extent
        else:
            return None
    return tuple(found)

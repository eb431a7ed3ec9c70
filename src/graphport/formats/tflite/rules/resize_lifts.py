"""Export rule of Resize to TFLite: its two operators, or gathers and matrices along one axis after the other."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.convolution_lifts import to_channels_first, to_channels_last
from graphport.formats.tflite.rules.emitting import ints
from graphport.formats.tflite.rules.resize_later import Region, resized_later
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.resize_by_axes import Sampling, is_present, resized_by_axes
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, float_elements, integers
from graphport.ops.views.resize import ResizeView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_IMAGE = 4

_COORDINATES = {"align_corners": (True, False), "half_pixel": (False, True), "asymmetric": (False, False)}
_NEAREST = {"asymmetric": "floor", "half_pixel": "round_prefer_ceil", "align_corners": "round_prefer_ceil"}


@ResizeView.lift("tflite")
def lift_resize(b: Builder, op: ResizeView) -> Lifted:
    """Export Resize: by an operator where LiteRT's coordinates match, else by a weight matrix per axis."""
    scales, wanted, axes = op.scales, op.sizes, op.axes
    stated = Sampling(
        op.coordinate_transformation_mode,
        op.mode,
        op.nearest_mode,
        op.cubic_coeff_a,
        bool(op.exclude_outside),
        bool(op.antialias),
    )
    # Other modes ignore a region, which older exporters write nevertheless.
    roi = op.roi if op.coordinate_transformation_mode == "tf_crop_and_resize" else None
    if op.keep_aspect_ratio_policy == "stretch" and not is_present(roi):
        if scales is not None and is_present(scales):
            axes, scales = _scaled(b, op.x, axes, scales)
        elif wanted is not None:
            axes, wanted = _changed(b, op.x, axes, wanted)
    given, policy = scales if is_present(scales) else wanted, op.keep_aspect_ratio_policy
    region = Region(roi if is_present(roi) else None, op.extrapolation_value)
    is_later = given is not None and float_elements(given) is None
    if is_later and policy != "stretch":
        message = "the relation of input and output sizes must be known"
        raise UnsupportedError(message)
    plain = None if is_later else _resize_by_operator(b, op.x, (scales, wanted), stated, axes, policy)
    if plain is not None:
        return plain
    if given is not None and (
        is_later or (region.roi is not None and float_elements(roi) is None and policy == "stretch")
    ):
        return (resized_later(b, op.x, given, axes, stated, region, is_scale=given is scales),)
    is_cropped = op.coordinate_transformation_mode == "tf_crop_and_resize"
    if is_cropped and (region.roi is None or float_elements(roi) is None):
        return None
    return (resized_by_axes(b, op.x, (roi, scales, wanted), stated, axes, policy, op.extrapolation_value),)


def _changed(b: Builder, x: Value, axes: tuple[int, ...] | None, wanted: Value) -> tuple[tuple[int, ...] | None, Value]:
    """Return the axes that change size and their sizes, if all other axes keep their dynamic size."""
    dims = b.dims(x)
    lengths = wanted.fact.elements if isinstance(wanted.fact, TensorFact) else None
    chosen = range(len(dims)) if axes is None else [axis % len(dims) for axis in axes]
    pairs = [*zip(chosen, lengths, strict=True)] if lengths else []
    changed = [(axis, n) for axis, n in pairs if n != dims[axis] or isinstance(n, int)]
    numbers = [n for _, n in changed if isinstance(n, int)]
    if not pairs or len(changed) == len(pairs) or len(numbers) < len(changed):
        return axes, wanted
    return tuple([axis for axis, _ in changed]), b.constant(np.array(numbers, np.int64))


def _scaled(b: Builder, x: Value, axes: tuple[int, ...] | None, scales: Value) -> tuple[tuple[int, ...] | None, Value]:
    """Return the axes that may change size and their scales, if axes with dynamic size have scale 1."""
    dims, factors = b.dims(x), float_elements(scales)
    if factors is None:
        return axes, scales
    chosen = range(len(dims)) if axes is None else [axis % len(dims) for axis in axes]
    kept = {
        axis: scale for axis, scale in zip(chosen, factors, strict=True) if scale != 1 or isinstance(dims[axis], int)
    }
    if len(kept) in (0, len(factors)):
        return axes, scales
    return tuple(kept), b.constant(np.array([*kept.values()], np.float32))


def _resize_by_operator(
    b: Builder,
    x: Value,
    given: tuple[Value | None, Value | None],
    stated: Sampling,
    axes: tuple[int, ...] | None,
    keep_aspect_ratio_policy: str,
) -> Lifted:
    (scales, wanted), mode, nearest_mode = given, stated.mode, stated.nearest
    coordinates = stated.coordinates
    if (
        dtype_of(x) is not DType.FLOAT32
        or len(b.dims(x)) != _IMAGE
        or stated.antialias
        or coordinates not in _COORDINATES
        or mode == "cubic"
    ):
        return None
    chosen = range(_IMAGE) if axes is None else [axis % _IMAGE for axis in axes]
    lengths = _lengths(
        b.dims(x), chosen, integers(wanted), float_elements(scales), is_exact=coordinates != "align_corners"
    )
    extents = [n for n in b.dims(x)[2:] if isinstance(n, int)]
    if lengths is None or len(extents) < 2 or keep_aspect_ratio_policy != "stretch":
        return None
    if mode == "nearest" and nearest_mode != _NEAREST[coordinates] and not _has_no_ties(extents, lengths, coordinates):
        return None
    corners, centers = _COORDINATES[coordinates]
    if corners and any(out == 1 for out in lengths):
        return None
    word = "RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"
    y = emit(b, word, to_channels_last(b, x), ints(b, lengths), align_corners=corners, half_pixel_centers=centers)
    return (to_channels_first(b, y),)


def _lengths(
    dims: Sequence[Dim],
    axes: Sequence[int],
    wanted: Sequence[int] | None,
    factors: Sequence[float] | None,
    *,
    is_exact: bool,
) -> list[int] | None:
    """Return height and width of a resized image, if only these axes change; the batch may be dynamic."""
    found = list(dims)
    for place, axis in enumerate(axes):
        n = dims[axis]
        if wanted is not None:
            found[axis] = wanted[place]
        elif not factors:
            return None
        elif factors[place] != 1:
            if not isinstance(n, int) or (is_exact and abs(n * factors[place] - floor(n * factors[place])) >= 1e-6):
                return None
            found[axis] = floor(n * factors[place])
    lengths = [n for n in found[2:] if isinstance(n, int)]
    return lengths if found[:2] == list(dims[:2]) and len(lengths) == len(found) - 2 else None


def _has_no_ties(extents: Sequence[int], sizes: Sequence[int], coordinates: str) -> bool:
    """Whether ties never occur, so that the rounding mode does not matter."""
    return coordinates == "half_pixel" and all(out % n == 0 for n, out in zip(extents, sizes, strict=True))

"""Export rule of Resize to TFLite: its two operators, or gathers and matrices along one axis after the other."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dims import bounds
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.computed_sizes import size_vector
from graphport.formats.tflite.rules.convolution_export import to_channels_first, to_channels_last
from graphport.formats.tflite.rules.resize_runtime_export import Region, resized_later
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

Exported: TypeAlias = "tuple[Value, ...] | None"
_IMAGE = 4
_MAX_DENOMINATOR = 64
_MAX_FACTOR_ERROR = 1e-7
"""Maximum relative difference of a float32 factor from the fraction that it stands for."""

_COORDINATES = {"align_corners": (True, False), "half_pixel": (False, True), "asymmetric": (False, False)}
_NEAREST = {"asymmetric": "floor", "half_pixel": "round_prefer_ceil", "align_corners": "round_prefer_ceil"}


@ResizeView.export_rule("tflite")
def export_resize(b: Builder, op: ResizeView) -> Exported:
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
    chosen = range(len(b.dims(op.x))) if axes is None else [axis % len(b.dims(op.x)) for axis in axes]
    is_later = given is not None and (
        float_elements(given) is None or not all(isinstance(b.dims(op.x)[axis], int) for axis in chosen)
    )
    if is_later and policy != "stretch":
        message = "the relation of input and output sizes must be known"
        raise UnsupportedError(message)
    plain = _resize_by_operator(b, op.x, (scales, wanted), stated, chosen, policy)
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
    """Return axes and target sizes of a Resize without the axes that keep a dynamic size."""
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
    """Return axes and scales of a Resize without the axes of dynamic size and scale 1."""
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
    axes: Sequence[int],
    keep_aspect_ratio_policy: str,
) -> Exported:
    """Emit an operator for height and width, whose output sizes may be computed."""
    dims, (scales, wanted) = b.dims(x), given
    if (
        dtype_of(x) is not DType.FLOAT32
        or len(dims) != _IMAGE
        or stated.antialias
        or stated.mode == "cubic"
        or keep_aspect_ratio_policy != "stretch"
    ):
        return None
    lengths = _lengths(dims, b.outcome.shape, axes, integers(wanted))
    is_exact = not is_present(scales) or _is_exact(dims, b.outcome.dims, axes, float_elements(scales))
    coordinates = _coordinates(stated.coordinates, lengths, is_exact=is_exact)
    if lengths is None or coordinates is None:
        return None
    has_same_ties = stated.nearest == _NEAREST[coordinates] or _has_no_ties(dims[2:], lengths, coordinates)
    if stated.mode == "nearest" and not has_same_ties:
        return None
    corners, centers = _COORDINATES[coordinates]
    op_type = "RESIZE_NEAREST_NEIGHBOR" if stated.mode == "nearest" else "RESIZE_BILINEAR"
    image = to_channels_last(b, x)
    y = emit(b, op_type, image, size_vector(b, lengths, x), align_corners=corners, half_pixel_centers=centers)
    return (to_channels_first(b, y),)


def _lengths(
    dims: Sequence[Dim], result: Sequence[Dim] | None, axes: Sequence[int], wanted: Sequence[int] | None
) -> tuple[Dim, ...] | None:
    """Return height and width of a resized image, if no other axis changes; both may be dynamic."""
    found = list(dims if wanted is not None else result or ())
    for axis, n in zip(axes, wanted or (), strict=False):
        found[axis] = n
    return tuple(found[2:]) if found and found[:2] == list(dims[:2]) else None


def _is_exact(dims: Sequence[Dim], result: Sequence[Dim], axes: Sequence[int], factors: Sequence[float] | None) -> bool:
    """Whether the size times the factor is an integer for each axis, so that the ratio of sizes equals the factor."""
    if factors is None:
        return False
    for axis, factor in zip(axes, factors, strict=True):
        n, share = dims[axis], Fraction(factor).limit_denominator(_MAX_DENOMINATOR)
        is_fraction = abs(float(share) - factor) <= _MAX_FACTOR_ERROR * factor
        if not is_fraction or result[axis] * share.denominator != n * share.numerator:
            return False
    return True


def _coordinates(stated: str, lengths: Sequence[Dim] | None, *, is_exact: bool) -> str | None:
    """Return the TFLite operator's coordinate mode that gives equal coordinates for these output sizes, or `None`."""
    if lengths is None:
        return None
    is_longer = all((bounds(out)[0] or 0) > 1 for out in lengths)
    if stated == "align_corners":
        return stated if is_longer else None
    if not is_exact:
        return None
    if stated == "half_pixel_symmetric" or (stated == "pytorch_half_pixel" and is_longer):
        return "half_pixel"
    return stated if stated in _COORDINATES else None


def _has_no_ties(extents: Sequence[Dim], sizes: Sequence[Dim], coordinates: str) -> bool:
    """Whether no coordinate is exactly between two pixels, so that the rounding mode has no effect."""
    return coordinates == "half_pixel" and all(out % n == 0 for n, out in zip(extents, sizes, strict=True))

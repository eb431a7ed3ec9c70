"""Resizing in OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.openvino.emitting import emitted_transpose
from graphport.ops.dialects.operands import as_vector, cast, dtype_of, index, needed, reals, sizes, transposed, vector
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.matmul import MatMul
from graphport.ops.pages.padding import Pad
from graphport.ops.pages.reshape import Identity
from graphport.ops.pages.resize import Resize
from graphport.ops.pages.resize.sampling import Axis, cubic, nearest_entries, resampled, source_coordinates, taps
from graphport.ops.shapes import axis_indices
from graphport.ops.view import Attributes
from graphport.ops.views.resize import ResizeView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.emitting import Lifted

_MODES = {
    "nearest": "nearest",
    "linear": "linear",
    "linear_onnx": "linear",
    "cubic": "cubic",
    "bilinear_pillow": "linear",
    "bicubic_pillow": "cubic",
}


@lower("openvino", "opset1.Interpolate")
def interpolate_1(
    b: Builder,
    x: Value,
    output_shape: Value,
    *,
    axes: tuple[int, ...],
    mode: str,
    align_corners: bool = True,
    antialias: bool = False,
    pads_begin: tuple[int, ...] = (),
    pads_end: tuple[int, ...] = (),
) -> Value:
    """To a given shape; places count from the corners, or their quotients do."""
    coordinates = "align_corners" if align_corners else "asymmetric"
    x = _padded(b, x, pads_begin, pads_end)
    stated = {"mode": mode, "coordinates": coordinates, "nearest": "simple", "antialias": antialias, "a": -0.75}
    return _resized(b, x, axes, output_shape, None, stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolation(Attributes):
    """What the newer words say of places and of weights."""

    mode: str
    shape_calculation_mode: str
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    antialias: bool = False
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    cube_coeff: float = -0.75


@Interpolation.lower("openvino", "opset4.Interpolate")
def interpolate_4(
    b: Builder, op: Interpolation, x: Value, output_shape: Value, scales: Value, axes: Value | None = None
) -> Value:
    """To a given shape, or by given scales; both are operands, and one of them counts."""
    return interpolate_11(b, op, x, scales if op.shape_calculation_mode == "scales" else output_shape, axes)


@Interpolation.lower("openvino", "opset11.Interpolate")
def interpolate_11(b: Builder, op: Interpolation, x: Value, scales_or_sizes: Value, axes: Value | None = None) -> Value:
    """To a given shape, or by given scales."""
    stated = {
        "mode": op.mode,
        "coordinates": op.coordinate_transformation_mode,
        "nearest": op.nearest_mode,
        "antialias": op.antialias,
        "a": op.cube_coeff,
    }
    x = _padded(b, x, op.pads_begin, op.pads_end)
    by_scales = op.shape_calculation_mode == "scales"
    operands = (None, scales_or_sizes) if by_scales else (scales_or_sizes, None)
    return _resized(b, x, _axes(b, x, axes), *operands, stated)


def _axes(b: Builder, x: Value, axes: Value | None) -> tuple[int, ...]:
    rank = len(b.dims(x))
    return tuple(range(rank)) if axes is None else axis_indices(needed(axes, "the axes of a resizing"), rank)


def _padded(b: Builder, x: Value, begins: Sequence[int], ends: Sequence[int]) -> Value:
    rank = len(b.dims(x))
    edges = [(*side, *[0] * rank)[:rank] for side in (begins, ends)]
    return b(Pad, x, vector(b, [*edges[0], *edges[1]])) if any(map(any, edges)) else x


def _resized(
    b: Builder,
    x: Value,
    axes: Sequence[int],
    wanted: Value | None,
    scales: Value | None,
    stated: dict[str, Any],
) -> Value:
    mode = _MODES.get(stated["mode"])
    if mode is None:
        message = f"interpolation of mode {stated['mode']!r}"
        raise UnsupportedError(message)
    pillow = stated["mode"].endswith("_pillow")
    coordinates = "half_pixel" if pillow else stated["coordinates"]
    antialiases = pillow or (stated["antialias"] and stated["mode"] == "linear")
    if mode == "nearest":
        found = _nearest_name(coordinates, stated["nearest"])
        if found is None:
            return _gathered(b, x, axes, wanted, scales, coordinates, stated["nearest"])
        coordinates, nearest = found
        return _emitted_resize(
            b, x, axes, wanted, scales, coordinate_transformation_mode=coordinates, mode=mode, nearest_mode=nearest
        )
    if coordinates == "tf_half_pixel_for_nn" or antialiases:
        plans = _plans(b, x, axes, wanted, scales)
        if pillow:
            # Pillow knows sizes alone, whatever scale has led to them.
            plans = [replace(plan, ratio=plan.out / plan.length) for plan in plans]
        return _mixed(b, x, plans, coordinates, stated, antialiases=antialiases)
    return _emitted_resize(
        b,
        x,
        axes,
        wanted,
        scales,
        coordinate_transformation_mode=coordinates,
        mode=mode,
        cubic_coeff_a=stated["a"] if mode == "cubic" else None,
    )


def _nearest_name(coordinates: str, nearest: str) -> tuple[str, str] | None:
    """Both modes in ONNX's words, or `None` where it has none."""
    if coordinates == "tf_half_pixel_for_nn":
        # The floor of a place that is half an entry further is the rounding of the place itself.
        return ("half_pixel", "round_prefer_ceil") if nearest == "floor" else None
    return None if nearest == "simple" else (coordinates, nearest)


def _emitted_resize(
    b: Builder, x: Value, axes: Sequence[int], wanted: Value | None, scales: Value | None, **words: Any
) -> Value:
    every = tuple(axes) if list(axes) != list(range(len(b.dims(x)))) else None
    if scales is not None:
        dims, factors = [b.dims(x)[axis] for axis in axes], reals(scales)
        if factors is not None and all(isinstance(n, int) for n in dims):
            lengths = [int(np.floor(n * s + 1e-5)) for n, s in zip(sizes(dims), factors, strict=True)]
            own = [int(np.floor(np.float32(n) * np.float32(s))) for n, s in zip(sizes(dims), factors, strict=True)]
            if lengths != own:
                return b(Resize, x, None, None, vector(b, lengths), axes=every, **words)
        return b(Resize, x, None, cast(b, scales, DType.FLOAT32), axes=every, **words)
    if wanted is None:
        message = "neither a shape nor scales"
        raise ShapeError(message)
    return b(Resize, x, None, None, as_vector(b, wanted), axes=every, **words)


def _plans(b: Builder, x: Value, axes: Sequence[int], wanted: Value | None, scales: Value | None) -> list[Axis]:
    """What happens to each axis, as numbers.

    Raises:
        UnsupportedError: an extent is not known.
    """
    dims = sizes([b.dims(x)[axis] for axis in axes], "an extent that is resampled")
    if scales is None:
        lengths = needed(wanted, "the shape of a resizing")
        ratios = [out / n for n, out in zip(dims, lengths, strict=True)]
    else:
        factors = reals(scales)
        if factors is None:
            message = "the scales of a resizing must be constant"
            raise UnsupportedError(message)
        ratios = list(factors)
        lengths = [int(np.floor(n * s + 1e-5)) for n, s in zip(dims, factors, strict=True)]
    return [Axis(axis, n, out, ratio) for axis, n, out, ratio in zip(axes, dims, lengths, ratios, strict=True)]


def _coordinates(plan: Axis, coordinates: str) -> np.ndarray[Any, Any]:
    if coordinates == "tf_half_pixel_for_nn":
        y = np.arange(reserve(plan.out), dtype=np.float32)
        return (y + np.float32(0.5)) / np.float32(plan.ratio)
    return source_coordinates(plan, coordinates, np.dtype(np.float32))


def _gathered(
    b: Builder,
    x: Value,
    axes: Sequence[int],
    wanted: Value | None,
    scales: Value | None,
    coordinates: str,
    nearest: str,
) -> Value:
    """The nearest entries by tables of places, one for each axis."""
    for plan in _plans(b, x, axes, wanted, scales):
        if plan.out == plan.length and plan.ratio == 1:
            continue
        at = _coordinates(plan, coordinates)
        rounding = ("ceil" if plan.ratio < 1 else "floor") if nearest == "simple" else nearest
        entries = np.clip(nearest_entries(at, rounding), 0, plan.length - 1).astype(np.int64)
        x = b(Gather, x, b.constant(entries), axis=plan.axis)
    return x


def _mixed(
    b: Builder, x: Value, plans: Sequence[Axis], coordinates: str, stated: dict[str, Any], *, antialiases: bool
) -> Value:
    """Each axis by the product with a matrix of shares; what lies outside of it has none."""
    dtype, rank = dtype_of(x), len(b.dims(x))
    wide = dtype if dtype.is_floating else DType.FLOAT32
    x = cast(b, x, wide)
    for plan in plans:
        if plan.out == plan.length and plan.ratio == 1:
            continue
        shares = _shares(plan, _coordinates(plan, coordinates), stated, antialiases=antialiases)
        order = [*(other for other in range(rank) if other != plan.axis), plan.axis]
        product = b(MatMul, transposed(b, x, order), b.constant(shares.astype(wide.numpy), wide))
        x = transposed(b, product, [int(place) for place in np.argsort(order)])
    return cast(b, x, dtype)


def _shares(plan: Axis, at: np.ndarray[Any, Any], stated: dict[str, Any], *, antialiases: bool) -> np.ndarray[Any, Any]:
    """How much of each entry is in each new one: [length, out]."""
    if _MODES[stated["mode"]] == "cubic" and not antialiases:
        return _clipped_shares(plan, at, stated["a"])
    scale = min(plan.ratio, 1.0) if antialiases else 1.0
    reserve(plan.length, plan.out)
    distance = np.abs(np.arange(plan.length)[:, None] - at.astype(np.float64)) * scale
    if _MODES[stated["mode"]] == "linear":
        weights = np.clip(1 - distance, 0, None)
    else:
        weights = cubic(distance, -0.5 if stated["mode"] == "bicubic_pillow" else stated["a"])
    return weights / weights.sum(axis=0)


def _clipped_shares(plan: Axis, at: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Shares of cubic interpolation, whose four entries are the ones at the edge where they lie beyond it."""
    indices, weights = taps(at.astype(np.float64), plan, "cubic", a, antialiases=False)
    reserve(plan.length, plan.out)
    shares = np.zeros((plan.length, plan.out))
    np.add.at(shares, (np.clip(indices, 0, plan.length - 1), np.arange(plan.out)[:, None]), weights)
    return shares


_COORDINATES = frozenset({"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})


@ResizeView.lift("openvino")
def lift_resize(b: Builder, op: ResizeView) -> Lifted:
    scales, wanted = op.scales, op.sizes
    scales = None if scales is None or b.dims(scales) == (0,) else scales
    chosen = tuple(range(len(b.dims(op.x)))) if op.axes is None else axis_indices(op.axes, len(b.dims(op.x)))
    is_plain = not op.antialias and not op.exclude_outside and op.keep_aspect_ratio_policy == "stretch"
    fact = b.inference.page(
        Resize, [op.x.fact, None, scales and scales.fact, wanted and wanted.fact], {"axes": op.axes}, 1
    )[0]
    shape = fact.shape if isinstance(fact, TensorFact) else None
    if (
        shape is not None
        and op.keep_aspect_ratio_policy == "stretch"
        and op.coordinate_transformation_mode not in _CROPPING
    ):
        if _keeps(b, op, shape, scales):
            return (b(Identity, op.x),)
        chosen, scales, wanted = _changing(b, op.x, chosen, scales, wanted, shape)
    lengths = shape if op.coordinate_transformation_mode == "align_corners" else None
    if (
        is_plain
        and op.coordinate_transformation_mode in _COORDINATES
        and _is_interpolate(b, op.x, chosen, scales, lengths, op.mode)
    ):
        return _interpolated(
            b,
            op.x,
            wanted if scales is None else scales,
            chosen,
            by_scales=scales is not None,
            mode="linear_onnx" if op.mode == "linear" else op.mode,
            coordinate_transformation_mode=op.coordinate_transformation_mode,
            nearest_mode=op.nearest_mode,
            cube_coeff=op.cubic_coeff_a,
        )
    if op.mode != "nearest" and not dtype_of(op.x).is_floating:
        return None
    if wanted is not None and scales is None and (pillow := _pillow(b, op, chosen)):
        return _interpolated(b, op.x, wanted, chosen, by_scales=False, mode=pillow)
    corners = reals(op.roi) if op.coordinate_transformation_mode == "tf_crop_and_resize" else None
    plans = _planned(b, op.x, chosen, scales, wanted, corners, op.keep_aspect_ratio_policy)
    how: dict[str, Any] = {
        "mode": op.mode,
        "coordinates": op.coordinate_transformation_mode,
        "nearest": op.nearest_mode,
        "a": op.cubic_coeff_a,
        "excludes_outside": bool(op.exclude_outside),
        "antialiases": bool(op.antialias),
    }
    return (_axis_by_axis(b, op.x, plans, how, op.extrapolation_value),)


_PILLOW: dict[tuple[str, float | None], str] = {("linear", None): "bilinear_pillow", ("cubic", -0.5): "bicubic_pillow"}
"""What is interpolated as Pillow does it: by as many entries as one new one stands for, none of them outside."""


def _pillow(b: Builder, op: ResizeView, axes: tuple[int, ...]) -> str | None:
    """The mode that does what is asked over the last two axes, where their extents are open."""
    dims = b.dims(op.x)
    is_open = any(not isinstance(dims[axis], int) for axis in axes)
    is_asked = op.antialias and op.exclude_outside and op.coordinate_transformation_mode == "half_pixel"
    if not (is_open and is_asked) or axes != (len(dims) - 2, len(dims) - 1):
        return None
    return _PILLOW.get((op.mode, op.cubic_coeff_a if op.mode == "cubic" else None))


_CROPPING = ("tf_crop_and_resize",)


def _keeps(b: Builder, op: ResizeView, shape: Sequence[Dim], scales: Value | None) -> bool:
    """Whether every axis keeps its extent, and with it its entries."""
    factors = None if scales is None else reals(scales)
    if scales is not None and factors is None:
        return False
    same = all(decide_equal(new, old) is True for new, old in zip(shape, b.dims(op.x), strict=True))
    return same and all(factor == 1 for factor in factors or ())


def _changing(
    b: Builder, x: Value, axes: tuple[int, ...], scales: Value | None, wanted: Value | None, shape: Sequence[Dim]
) -> tuple[tuple[int, ...], Value | None, Value | None]:
    """The axes that a resizing changes, with their scales or lengths: an open batch need not be known for the rest."""
    dims, factors = b.dims(x), reals(scales)
    if scales is not None and factors is not None:
        kept = [place for place, factor in enumerate(factors) if factor != 1]
    elif scales is None:
        kept = [place for place, axis in enumerate(axes) if decide_equal(shape[axis], dims[axis]) is not True]
    else:
        return axes, scales, wanted
    lengths = [length for place in kept if isinstance(length := shape[axes[place]], int)]
    if not 0 < len(kept) < len(axes):
        return axes, scales, wanted
    if factors is not None:
        scales = b.constant(np.array([factors[place] for place in kept], np.float32))
    elif len(lengths) == len(kept):
        wanted = vector(b, lengths)
    elif wanted is not None:
        wanted = emit(b, "opset8.Gather", wanted, vector(b, kept), index(b, 0))
    return tuple(axes[place] for place in kept), scales, wanted


def _is_interpolate(
    b: Builder, x: Value, axes: Sequence[int], scales: Value | None, lengths: Sequence[Dim] | None, mode: str
) -> bool:
    """Whether `Interpolate` computes the same; its lengths by scales round a little differently."""
    dims = [b.dims(x)[axis] for axis in axes]
    if mode in ("linear", "cubic") and not dtype_of(x).is_floating:
        return False
    if lengths is not None and any(lengths[axis] == 1 for axis in axes):
        # With the corners aligned, one entry is the first, or the last.
        return False
    changed = [axis for axis, n in zip(axes, dims, strict=True) if not isinstance(n, int)]
    factors = reals(scales)
    if factors is not None:
        known = [(n, s) for n, s in zip(dims, factors, strict=True) if isinstance(n, int)]
        if any(int(np.floor(n * s + 1e-5)) != int(np.floor(np.float32(n) * np.float32(s))) for n, s in known):
            return False
        changed = [axis for axis, s in zip(axes, factors, strict=True) if s != 1]
    # Only the last axes are interpolated between.
    return mode == "nearest" or all(axis >= 2 for axis in changed) or len(axes) <= 3


def _interpolated(
    b: Builder, x: Value, operand: Value | None, axes: Sequence[int], *, by_scales: bool, **words: Any
) -> Lifted:
    if operand is None:
        return None
    none = (0,) * len(b.dims(x))
    return b.word(
        "opset11.Interpolate",
        x,
        operand,
        vector(b, axes),
        shape_calculation_mode="scales" if by_scales else "sizes",
        antialias=False,
        pads_begin=none,
        pads_end=none,
        **words,
    )


def _planned(
    b: Builder,
    x: Value,
    axes: Sequence[int],
    scales: Value | None,
    wanted: Value | None,
    corners: tuple[float, ...] | None,
    policy: str,
) -> list[Axis]:
    """What happens to each axis, as numbers.

    Raises:
        UnsupportedError: one of them is not known.
    """
    dims = sizes([b.dims(x)[axis] for axis in axes], "an extent that is resampled")
    half = len(dims)
    ends = [(0.0, 1.0)] * half if corners is None else list(zip(corners[:half], corners[half:], strict=True))
    if scales is not None:
        factors = reals(scales)
        if factors is None:
            message = "the scales of a resizing must be constant"
            raise UnsupportedError(message)
        lengths = [int(np.floor(np.float32(n) * np.float32(s))) for n, s in zip(dims, factors, strict=True)]
        ratios = list(factors)
    else:
        asked = needed(wanted, "the shape of a resizing")
        ratios = [size / n if n else 1.0 for n, size in zip(dims, asked, strict=True)]
        lengths = list(asked)
        if policy != "stretch":
            ratio = (min if policy == "not_larger" else max)(ratios)
            ratios, lengths = [ratio] * half, [int(np.floor(ratio * n + 0.5)) for n in dims]
    return [
        Axis(axis, n, out, ratio, start, end)
        for axis, n, out, ratio, (start, end) in zip(axes, dims, lengths, ratios, ends, strict=True)
    ]


def _axis_by_axis(b: Builder, x: Value, plans: Sequence[Axis], how: dict[str, Any], extrapolation: float) -> Value:
    """Nearest entries gathered, others mixed by the product with a matrix, which the page itself makes of ones."""
    rank, dtype = len(b.dims(x)), dtype_of(x)
    crops = how["coordinates"] == "tf_crop_and_resize"
    for plan in plans:
        if plan.out == plan.length and plan.ratio == 1 and not crops:
            continue
        alone = replace(plan, axis=0)
        if how["mode"] == "nearest":
            entries = resampled(np.arange(reserve(plan.length)), [alone], **how, extrapolation=0)
            x = emit(b, "opset8.Gather", x, b.constant(entries), index(b, plan.axis))
        else:
            reserve(plan.length, max(plan.length, plan.out))
            shares = resampled(np.eye(plan.length, dtype=np.float64), [alone], **how, extrapolation=0)
            order = [*(other for other in range(rank) if other != plan.axis), plan.axis]
            matrix = b.constant(shares.T.astype(dtype.numpy), dtype)
            product = emit(b, "opset1.MatMul", emitted_transpose(b, x, order), matrix)
            x = emitted_transpose(b, product, [int(place) for place in np.argsort(order)])
        if crops:
            is_outside = resampled(np.zeros(plan.length), [alone], **how, extrapolation=1) == 1
            mask = b.constant(is_outside.reshape(-1, *[1] * (rank - plan.axis - 1)))
            x = emit(b, "opset1.Select", mask, b.like(x, extrapolation), x)
    return x

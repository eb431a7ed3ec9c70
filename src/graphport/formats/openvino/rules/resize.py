"""Resizing in OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.emitting import emitted_gather, emitted_transpose
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Identity
from graphport.ops.definitions.resize import Resize
from graphport.ops.definitions.resize.sampling import Axis, cubic, nearest_entries, resampled, source_coordinates, taps
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import mixed
from graphport.ops.lowering.operands import (
    as_vector,
    cast,
    check_counts,
    dtype_of,
    float_elements,
    needed,
    sizes,
    vector,
)
from graphport.ops.shapes import axis_indices
from graphport.ops.view import Attributes
from graphport.ops.views.resize import ResizeView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported

_MODES = {
    "nearest": "nearest",
    "linear": "linear",
    "linear_onnx": "linear",
    "cubic": "cubic",
    "bilinear_pillow": "linear",
    "bicubic_pillow": "cubic",
}


class _Extents(NamedTuple):
    """Axes to resize, and their new lengths or scales; scales take precedence."""

    axes: tuple[int, ...]
    wanted: Value | None
    scales: Value | None


def _length(n: int, scale: float) -> int:
    """Return the resized length floor(n * scale), computed in float32 as in ONNX."""
    return int(np.floor(np.float32(n) * np.float32(scale)))


def _own_length(n: int, scale: float) -> int:
    """Return the resized length floor(n * scale + 1e-5), as OpenVINO rounds it."""
    return int(np.floor(n * scale + 1e-5))


def _planned(
    b: Builder,
    x: Value,
    extents: _Extents,
    length: Callable[[int, float], int],
    corners: tuple[float, ...] | None = None,
    policy: str = "stretch",
) -> list[Axis]:
    """Return the static parameters of each axis.

    Raises:
        UnsupportedError: a parameter is not static.
    """
    dims = sizes([b.dims(x)[axis] for axis in extents.axes], "a resampled dim")
    half = len(dims)
    check_counts(2 * half, roi=corners)
    ends = [(0.0, 1.0)] * half if corners is None else list(zip(corners[:half], corners[half:], strict=True))
    if extents.scales is not None:
        factors = float_elements(extents.scales)
        if factors is None:
            message = "the scales of a resizing must be constant"
            raise UnsupportedError(message)
        check_counts(half, scales=factors)
        ratios, lengths = list(factors), [length(n, s) for n, s in zip(dims, factors, strict=True)]
    else:
        lengths = list(needed(extents.wanted, "the shape of a resizing"))
        check_counts(half, sizes=lengths)
        ratios = [size / n if n else 1.0 for n, size in zip(dims, lengths, strict=True)]
        if policy != "stretch":
            ratio = (min if policy == "not_larger" else max)(ratios)
            ratios, lengths = [ratio] * half, [int(np.floor(ratio * n + 0.5)) for n in dims]
    axes = zip(extents.axes, dims, lengths, ratios, ends, strict=True)
    return [Axis(axis, n, out, ratio, start, end) for axis, n, out, ratio, (start, end) in axes]


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
    """Interpolate-1: resize to a shape; aligned corners or asymmetric coordinates."""
    op = Interpolation(
        mode=mode,
        shape_calculation_mode="sizes",
        coordinate_transformation_mode="align_corners" if align_corners else "asymmetric",
        nearest_mode="simple",
        antialias=antialias,
    )
    x = _padded(b, x, pads_begin, pads_end)
    return _resized(b, x, _Extents(axis_indices(axes, len(b.dims(x))), output_shape, None), op)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolation(Attributes):
    """Attributes of Interpolate-4 and newer."""

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
    """Interpolate-4: resize to a shape or by scales, selected by an attribute."""
    return interpolate_11(b, op, x, scales if op.shape_calculation_mode == "scales" else output_shape, axes)


@Interpolation.lower("openvino", "opset11.Interpolate")
def interpolate_11(b: Builder, op: Interpolation, x: Value, scales_or_sizes: Value, axes: Value | None = None) -> Value:
    """Interpolate-11: resize to a shape or by scales."""
    x = _padded(b, x, op.pads_begin, op.pads_end)
    rank = len(b.dims(x))
    chosen = tuple(range(rank)) if axes is None else axis_indices(needed(axes, "the axes of a resizing"), rank)
    operands = (None, scales_or_sizes) if op.shape_calculation_mode == "scales" else (scales_or_sizes, None)
    return _resized(b, x, _Extents(chosen, *operands), op)


def _resized(b: Builder, x: Value, extents: _Extents, op: Interpolation) -> Value:
    mode = _MODES.get(op.mode)
    if mode is None:
        message = f"interpolation of mode {op.mode!r}"
        raise UnsupportedError(message)
    pillow = op.mode.endswith("_pillow")
    coordinates = "half_pixel" if pillow else op.coordinate_transformation_mode
    antialiases = pillow or (op.antialias and op.mode == "linear")
    if mode == "nearest":
        found = _nearest_name(coordinates, op.nearest_mode)
        if found is None:
            return _gathered(b, x, extents, coordinates, op.nearest_mode)
        coordinates, nearest = found
        return _by_op_def(b, x, extents, coordinate_transformation_mode=coordinates, mode=mode, nearest_mode=nearest)
    if coordinates == "tf_half_pixel_for_nn" or antialiases:
        plans = _planned(b, x, extents, _own_length)
        if pillow:
            # Pillow derives the scale from the sizes.
            plans = [replace(plan, ratio=plan.out / plan.length) for plan in plans]
        return _mixed(b, x, plans, coordinates, op, antialiases=antialiases)
    coefficient = op.cube_coeff if mode == "cubic" else None
    return _by_op_def(b, x, extents, coordinate_transformation_mode=coordinates, mode=mode, cubic_coeff_a=coefficient)


def _by_op_def(b: Builder, x: Value, extents: _Extents, **words: Any) -> Value:
    axes, wanted, scales = extents
    words["axes"] = axes if axes != tuple(range(len(b.dims(x)))) else None
    if scales is not None:
        dims, factors = [b.dims(x)[axis] for axis in axes], float_elements(scales)
        check_counts(len(dims), scales=factors)
        if factors is not None and all(isinstance(n, int) for n in dims):
            known = list(zip(sizes(dims), factors, strict=True))
            lengths = [_own_length(n, s) for n, s in known]
            if lengths != [_length(n, s) for n, s in known]:
                return b(Resize, x, None, None, lengths, **words)
        return b(Resize, x, None, cast(b, scales, DType.FLOAT32), **words)
    if wanted is None:
        message = "the node has neither a target shape nor scales"
        raise ShapeError(message)
    return b(Resize, x, None, None, as_vector(b, wanted), **words)


def _coordinates(plan: Axis, coordinates: str) -> np.ndarray[Any, Any]:
    if coordinates == "tf_half_pixel_for_nn":
        y = np.arange(reserve(plan.out), dtype=np.float32)
        return (y + np.float32(0.5)) / np.float32(plan.ratio)
    return source_coordinates(plan, coordinates, np.dtype(np.float32))


def _gathered(b: Builder, x: Value, extents: _Extents, coordinates: str, nearest: str) -> Value:
    """Nearest interpolation by Gather, one index table per axis."""
    for plan in _planned(b, x, extents, _own_length):
        if plan.out == plan.length and plan.ratio == 1:
            continue
        at = _coordinates(plan, coordinates)
        rounding = ("ceil" if plan.ratio < 1 else "floor") if nearest == "simple" else nearest
        entries = np.clip(nearest_entries(at, rounding), 0, plan.length - 1).astype(np.int64)
        x = b(Gather, x, b.constant(entries), axis=plan.axis)
    return x


def _mixed(
    b: Builder, x: Value, plans: Sequence[Axis], coordinates: str, op: Interpolation, *, antialiases: bool
) -> Value:
    """Interpolate each axis by multiplying with a weight matrix; coordinates outside get no weight."""
    dtype = dtype_of(x)
    wide = dtype if dtype.is_floating else DType.FLOAT32
    x = cast(b, x, wide)
    for plan in plans:
        if plan.out != plan.length or plan.ratio != 1:
            shares = _weight_matrix(plan, _coordinates(plan, coordinates), op, antialiases=antialiases)
            x = mixed(b, x, plan.axis, b.constant(shares.astype(wide.numpy), wide))
    return cast(b, x, dtype)


def _padded(b: Builder, x: Value, begins: Sequence[int], ends: Sequence[int]) -> Value:
    rank = len(b.dims(x))
    edges = [(*side, *[0] * rank)[:rank] for side in (begins, ends)]
    return b(Pad, x, [*edges[0], *edges[1]]) if any(map(any, edges)) else x


def _nearest_name(coordinates: str, nearest: str) -> tuple[str, str] | None:
    """Return coordinate and rounding mode of ONNX, or `None` if there is no equivalent."""
    if coordinates == "tf_half_pixel_for_nn":
        # The floor of a place that is half an entry further is the rounding of the place itself.
        return ("half_pixel", "round_prefer_ceil") if nearest == "floor" else None
    return None if nearest == "simple" else (coordinates, nearest)


def _weight_matrix(
    plan: Axis, at: np.ndarray[Any, Any], op: Interpolation, *, antialiases: bool
) -> np.ndarray[Any, Any]:
    """Return the interpolation weight of each input element in each output element: [length, out]."""
    if _MODES[op.mode] == "cubic" and not antialiases:
        return _clipped_shares(plan, at, op.cube_coeff)
    scale = min(plan.ratio, 1.0) if antialiases else 1.0
    reserve(plan.length, plan.out)
    distance = np.abs(np.arange(plan.length)[:, None] - at.astype(np.float64)) * scale
    if _MODES[op.mode] == "linear":
        weights = np.clip(1 - distance, 0, None)
    else:
        weights = cubic(distance, -0.5 if op.mode == "bicubic_pillow" else op.cube_coeff)
    return weights / weights.sum(axis=0)


def _clipped_shares(plan: Axis, at: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    """Return weights of cubic interpolation with indices clamped to the edge."""
    indices, weights = taps(at.astype(np.float64), plan, "cubic", a, antialiases=False)
    reserve(plan.length, plan.out)
    shares = np.zeros((plan.length, plan.out))
    np.add.at(shares, (np.clip(indices, 0, plan.length - 1), np.arange(plan.out)[:, None]), weights)
    return shares


_COORDINATES = frozenset({"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})


@ResizeView.export_rule("openvino")
def export_resize(b: Builder, op: ResizeView) -> Exported:
    coordinates, rank = op.coordinate_transformation_mode, len(b.dims(op.x))
    stretches, crops = op.keep_aspect_ratio_policy == "stretch", coordinates == "tf_crop_and_resize"
    scales = None if op.scales is None or b.dims(op.scales) == (0,) else op.scales
    extents = _Extents(tuple(range(rank)) if op.axes is None else axis_indices(op.axes, rank), op.sizes, scales)
    facts = [op.x.fact, None, scales and scales.fact, op.sizes and op.sizes.fact]
    fact = b.inference.infer_operator(Resize, facts, {"axes": op.axes}, 1)[0]
    shape = fact.shape if isinstance(fact, TensorFact) else None
    if shape is not None and stretches and not crops:
        if _keeps(b, op, shape, scales):
            return (b(Identity, op.x),)
        extents = _changing(b, op.x, extents, shape)
    is_plain = stretches and not op.antialias and not op.exclude_outside and coordinates in _COORDINATES
    lengths = shape if coordinates == "align_corners" else None
    if is_plain and _is_interpolate(b, op.x, extents, lengths, op.mode):
        return _interpolated(
            b,
            op.x,
            extents,
            mode="linear_onnx" if op.mode == "linear" else op.mode,
            coordinate_transformation_mode=coordinates,
            nearest_mode=op.nearest_mode,
            cube_coeff=op.cubic_coeff_a,
        )
    if op.mode != "nearest" and not dtype_of(op.x).is_floating:
        return None
    if extents.wanted is not None and extents.scales is None and (pillow := _pillow(b, op, extents.axes)):
        return _interpolated(b, op.x, extents, mode=pillow)
    plans = _planned(b, op.x, extents, _length, float_elements(op.roi) if crops else None, op.keep_aspect_ratio_policy)
    how: dict[str, Any] = {
        "mode": op.mode,
        "coordinates": coordinates,
        "nearest": op.nearest_mode,
        "a": op.cubic_coeff_a,
        "excludes_outside": bool(op.exclude_outside),
        "antialiases": bool(op.antialias),
    }
    return (_axis_by_axis(b, op.x, plans, how, op.extrapolation_value),)


_PILLOW: dict[tuple[str, float | None], str] = {("linear", None): "bilinear_pillow", ("cubic", -0.5): "bicubic_pillow"}
"""Modes that resample like Pillow: antialiased, with weights only inside the image."""


def _pillow(b: Builder, op: ResizeView, axes: tuple[int, ...]) -> str | None:
    """Return the Pillow mode equivalent to the operator over the last two dynamic axes, or `None`."""
    dims = b.dims(op.x)
    is_open = any(not isinstance(dims[axis], int) for axis in axes)
    is_asked = op.antialias and op.exclude_outside and op.coordinate_transformation_mode == "half_pixel"
    if not (is_open and is_asked) or axes != (len(dims) - 2, len(dims) - 1):
        return None
    return _PILLOW.get((op.mode, op.cubic_coeff_a if op.mode == "cubic" else None))


def _keeps(b: Builder, op: ResizeView, shape: Sequence[Dim], scales: Value | None) -> bool:
    """Whether the sizes are equal and all scales are 1, so that Resize is the identity."""
    factors = None if scales is None else float_elements(scales)
    if scales is not None and factors is None:
        return False
    same = all(decide_equal(new, old) is True for new, old in zip(shape, b.dims(op.x), strict=True))
    return same and all(factor == 1 for factor in factors or ())


def _changing(b: Builder, x: Value, extents: _Extents, shape: Sequence[Dim]) -> _Extents:
    """Return only the axes whose sizes change, so that a dynamic batch axis is not resized."""
    (axes, wanted, scales), factors = extents, float_elements(extents.scales)
    if scales is not None and factors is not None:
        kept = [place for place, factor in enumerate(factors) if factor != 1]
    elif scales is None:
        kept = [place for place, axis in enumerate(axes) if decide_equal(shape[axis], b.dims(x)[axis]) is not True]
    else:
        return extents
    lengths = [length for place in kept if isinstance(length := shape[axes[place]], int)]
    if not 0 < len(kept) < len(axes):
        return extents
    if factors is not None:
        scales = b.constant(np.array([factors[place] for place in kept], np.float32))
    elif len(lengths) == len(kept):
        wanted = vector(b, lengths)
    elif wanted is not None:
        wanted = emitted_gather(b, wanted, kept)
    return _Extents(tuple(axes[place] for place in kept), wanted, scales)


def _is_interpolate(b: Builder, x: Value, extents: _Extents, lengths: Sequence[Dim] | None, mode: str) -> bool:
    """Whether `Interpolate` gives the same result; sizes computed from scales round differently."""
    axes = extents.axes
    dims = [b.dims(x)[axis] for axis in axes]
    if mode in ("linear", "cubic") and not dtype_of(x).is_floating:
        return False
    if lengths is not None and any(lengths[axis] == 1 for axis in axes):
        # With aligned corners and output length 1, ONNX takes the first element, OpenVINO another.
        return False
    changed = [axis for axis, n in zip(axes, dims, strict=True) if not isinstance(n, int)]
    factors = float_elements(extents.scales)
    if factors is not None:
        known = [(n, s) for n, s in zip(dims, factors, strict=True) if isinstance(n, int)]
        if any(_own_length(n, s) != _length(n, s) for n, s in known):
            return False
        changed = [axis for axis, s in zip(axes, factors, strict=True) if s != 1]
    # Only the last axes are interpolated between.
    return mode == "nearest" or all(axis >= 2 for axis in changed) or len(axes) <= 3


def _interpolated(b: Builder, x: Value, extents: _Extents, **words: Any) -> Exported:
    operand = extents.wanted if extents.scales is None else extents.scales
    if operand is None:
        return None
    none = (0,) * len(b.dims(x))
    words |= {"shape_calculation_mode": "sizes" if extents.scales is None else "scales", "antialias": False}
    words |= {"pads_begin": none, "pads_end": none}
    return b.emit("opset11.Interpolate", x, operand, vector(b, extents.axes), **words)


def _axis_by_axis(b: Builder, x: Value, plans: Sequence[Axis], how: dict[str, Any], extrapolation: float) -> Value:
    """Resize axis by axis: Gather for nearest, else a weight matrix computed with the reference interpreter."""
    rank, dtype = len(b.dims(x)), dtype_of(x)
    crops = how["coordinates"] == "tf_crop_and_resize"
    for plan in plans:
        if plan.out == plan.length and plan.ratio == 1 and not crops:
            continue
        alone = replace(plan, axis=0)
        if how["mode"] == "nearest":
            entries = resampled(np.arange(reserve(plan.length)), [alone], **how, extrapolation=0)
            x = emitted_gather(b, x, b.constant(entries), plan.axis)
        else:
            reserve(plan.length, max(plan.length, plan.out))
            shares = resampled(np.eye(plan.length, dtype=np.float64), [alone], **how, extrapolation=0)
            order = [*(other for other in range(rank) if other != plan.axis), plan.axis]
            matrix = b.constant(shares.T.astype(dtype.numpy), dtype)
            product = emit(b, "opset1.MatMul", emitted_transpose(b, x, order), matrix)
            x = emitted_transpose(b, product, np.argsort(order).tolist())
        if crops:
            is_outside = resampled(np.zeros(plan.length), [alone], **how, extrapolation=1) == 1
            mask = b.constant(is_outside.reshape(-1, *[1] * (rank - plan.axis - 1)))
            x = emit(b, "opset1.Select", mask, b.like(x, extrapolation), x)
    return x

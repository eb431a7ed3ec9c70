"""Export rules of resizing to ATen."""

from __future__ import annotations

from typing import Any

from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, elements_of, size_argument
from graphport.formats.pytorch.rules.resize_computed import resized_at_run_time
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.resize_by_axes import Sampling, is_present, resized_by_axes
from graphport.ops.definitions.reshape import Identity
from graphport.ops.definitions.resize import AffineGrid
from graphport.ops.lowering.operands import cast, dtype_of, float_elements, integers
from graphport.ops.views.resize import GridSampleView, ResizeView

_NEAREST = {
    ("asymmetric", "floor"): "upsample_nearest{}d",
    ("half_pixel", "round_prefer_ceil"): "_upsample_nearest_exact{}d",
}
_LINEAR = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
_CUBIC = -0.75
_MODES = {"linear": 0, "nearest": 1, "cubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@ResizeView.export_rule(DIALECT)
def export_resize(b: Builder, op: ResizeView) -> Value:
    """Export Resize: one operator if torch samples the same points, else an index or a matrix per axis."""
    own = dtype_of(op.x)
    found = _interpolated(b, op) if own.is_floating else None
    return _by_axes(b, op) if found is None else found


def _interpolated(b: Builder, op: ResizeView) -> Value | None:
    dims, way = b.dims(op.x), op.coordinate_transformation_mode
    count = len(dims) - 2
    stretches = op.keep_aspect_ratio_policy == "stretch"
    if not 1 <= count <= 3 or not stretches or op.antialias or op.exclude_outside or way == "tf_crop_and_resize":
        return None
    if op.mode == "cubic" and (op.cubic_coeff_a != _CUBIC or count != 2):
        return None
    name = _target(op.mode, way, op.nearest_mode, count)
    if name is None:
        return None
    corners = () if op.mode == "nearest" else (way == "align_corners",)
    chosen = list(range(count + 2)) if op.axes is None else [axis % (count + 2) for axis in op.axes]
    if op.scales is not None and is_present(op.scales):
        factors = float_elements(op.scales)
        if factors is None:
            return None
        scales = dict(zip(chosen, factors, strict=True))
        if any(scales.get(axis, 1) != 1 for axis in (0, 1)):
            return None
        rest = [scales.get(axis, 1.0) for axis in range(2, count + 2)]
        if corners == (True,) and not all(map(_is_exact, dims[2:], rest)):
            return None
        return aten(b, f"{name}.vec", op.x, None, *corners, scale_factors=tuple(rest), output_size=None)
    sizes = _sizes(b, op, chosen, dims)
    if sizes is None:
        return None
    return aten(b, f"{name}.vec", op.x, sizes, *corners, scale_factors=None)


def _sizes(b: Builder, op: ResizeView, chosen: list[int], dims: tuple[Dim, ...]) -> tuple[Any, ...] | None:
    """Return the spatial sizes if batch and channels are unchanged, else `None`."""
    if op.sizes is None:
        return None
    known = integers(op.sizes)
    fact = op.sizes.fact
    elements = fact.elements if known is None and isinstance(fact, TensorFact) else known
    if elements is not None:
        wanted = dict(zip(chosen, elements, strict=True))
        if any(wanted.get(axis, dims[axis]) != dims[axis] for axis in (0, 1)):
            return None
    if elements is None and any(axis in chosen for axis in (0, 1)):
        return None
    numbers = dict(zip(chosen, elements_of(b, op.sizes, op.x), strict=True))
    found = [numbers.get(axis) or size_argument(b, dims[axis], op.x) for axis in range(2, len(dims))]
    return None if any(each is None for each in found) else tuple(found)


def _is_exact(dim: Dim, factor: float) -> bool:
    """Whether a scale yields an integer size: ONNX aligns corners to the fractional size, torch to the integer."""
    return float(factor * dim).is_integer() if isinstance(dim, int) else float(factor).is_integer()


def _target(mode: str, way: str, rounding: str, count: int) -> str | None:
    if mode == "nearest":
        found = _NEAREST.get((way, rounding))
        return None if found is None else found.format(count)
    if way not in ("half_pixel", "align_corners"):
        return None
    return _LINEAR[count - 1] if mode == "linear" else "upsample_bicubic2d"


def _by_axes(b: Builder, op: ResizeView) -> Value:
    """Resample by indices and matrices: constants if all operands are constant."""
    way, is_scale = op.coordinate_transformation_mode, is_present(op.scales)
    given = op.scales if is_scale else op.sizes
    roi = op.roi if way == "tf_crop_and_resize" else None
    if given is None or (way == "tf_crop_and_resize" and not is_present(roi)):
        message = "scales, sizes or roi are missing"
        raise UnsupportedError(message)
    own = dtype_of(op.x)
    wide = own if op.mode == "nearest" or own in (DType.FLOAT32, DType.FLOAT64) else DType.FLOAT32
    x = cast(b, op.x, wide)
    stated = Sampling(way, op.mode, op.nearest_mode, op.cubic_coeff_a, bool(op.exclude_outside), bool(op.antialias))
    policy, outside = op.keep_aspect_ratio_policy, op.extrapolation_value
    is_known = all(each is None or float_elements(each) is not None for each in (given, roi))
    if is_known and all(isinstance(dim, int) for dim in b.dims(x)):
        y = resized_by_axes(b, x, (roi, op.scales, op.sizes), stated, op.axes, policy, outside)
    else:
        y = resized_at_run_time(b, x, given, op.axes, stated, roi, outside, policy=policy, is_scale=is_scale)
    if y is op.x:
        return b(Identity, y)
    return y if wide is own else aten(b, "to.dtype", y if own.is_floating else aten(b, "round", y), own)


@GridSampleView.export_rule(DIALECT)
def export_grid_sample(b: Builder, op: GridSampleView) -> Value:
    """Export GridSample."""
    if len(b.dims(op.x)) == 5 and op.mode == "cubic":
        message = "PyTorch has no cubic interpolation of volumes"
        raise UnsupportedError(message)
    own = dtype_of(op.x)
    wide = own if own in (DType.FLOAT32, DType.FLOAT64) else DType.FLOAT32
    numbers = _MODES[op.mode], _PADDINGS[op.padding_mode], bool(op.align_corners)
    return cast(b, aten(b, "grid_sampler", cast(b, op.x, wide), cast(b, op.grid, wide), *numbers), own)


@AffineGrid.export_rule(DIALECT)
def export_affine_grid(b: Builder, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    return aten(b, "affine_grid_generator", theta, elements_of(b, size), bool(align_corners))

"""Older forms of resizing and sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.onnx.rules.older import integers, unsupported
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.resize import GridSample, Resize
from graphport.ops.views.resize import GridSampleView, ResizeView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_SAMPLE_MODES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def _is_empty(value: Value | None) -> bool:
    return value is None or (isinstance(value.fact, TensorFact) and value.fact.shape == (0,))


@Resize.lower("onnx", until=12)
def resize_12(
    b: Builder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    """Resize-11: an empty tensor is an absent operand; TensorFlow's coordinate mode is supported."""
    if coordinate_transformation_mode == "tf_half_pixel_for_nn":
        message = f"tf_half_pixel_for_nn with mode {mode} and nearest_mode {nearest_mode}"
        raise UnsupportedError(message)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    return b(
        Resize,
        x,
        None if _is_empty(roi) or not crops else roi,
        None if _is_empty(scales) or not _is_empty(sizes) else scales,
        None if _is_empty(sizes) else sizes,
        coordinate_transformation_mode=coordinate_transformation_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value,
        mode=mode,
        nearest_mode=nearest_mode,
    )


@Resize.lower("onnx", until=10)
def resize_10(b: Builder, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Resize-10: asymmetric coordinates; nearest rounds down, or up when downsampling."""
    if mode != "nearest":
        return b(Resize, x, None, scales, coordinate_transformation_mode="asymmetric", mode=mode)
    reals = scales.fact.reals if isinstance(scales.fact, TensorFact) else None
    shorter = reals is not None and any(scale < 1 for scale in reals)
    longer = reals is None or any(scale > 1 for scale in reals)
    if not (shorter and longer):
        return _nearest(b, x, scales, "ceil" if shorter else "floor")
    parts = np.array(reals, np.float32)
    x = _nearest(b, x, b.constant(np.minimum(parts, 1)), "ceil")
    return _nearest(b, x, b.constant(np.maximum(parts, 1)), "floor")


def _nearest(b: Builder, x: Value, scales: Value, nearest_mode: str) -> Value:
    return b(
        Resize,
        x,
        None,
        scales,
        coordinate_transformation_mode="asymmetric",
        mode="nearest",
        nearest_mode=nearest_mode,
    )


@lower("onnx", "Upsample", until=9)
def upsample_9(b: Builder, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    """Upsample-9, the predecessor of Resize without downsampling."""
    if mode not in ("nearest", "linear", "bilinear"):
        message = f"mode is {mode!r}"
        raise ShapeError(message, "nearest or linear")
    return resize_10(b, x, scales, mode="nearest" if mode == "nearest" else "linear")


@lower("onnx", "Upsample", until=8)
def upsample_8(b: Builder, x: Value, *, mode: str = "nearest", scales: tuple[float, ...]) -> Value:
    """Upsample-7: the scales are an attribute."""
    return upsample_9(b, x, b.constant(np.array(scales, np.float32)), mode=mode)


@lower("onnx", "Upsample", until=6)
def upsample_6(b: Builder, x: Value, *, height_scale: float, mode: str = "nearest", width_scale: float) -> Value:
    """Upsample-1: attributes scale the height and width of images [N, C, H, W]."""
    if len(b.dims(x)) != 4:
        message = f"x has rank {len(b.dims(x))}"
        raise ShapeError(message, "[N, C, H, W]")
    return upsample_8(b, x, mode=mode, scales=(1.0, 1.0, height_scale, width_scale))


@GridSample.lower("onnx", until=19)
def grid_sample_19(
    b: Builder,
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Value:
    """GridSample-16: modes `bilinear` and `bicubic` instead of `linear` and `cubic`."""
    if mode not in _SAMPLE_MODES:
        message = f"mode is {mode!r}"
        raise ShapeError(message, ", ".join(_SAMPLE_MODES))
    return b(GridSample, x, grid, align_corners=align_corners, mode=_SAMPLE_MODES[mode], padding_mode=padding_mode)


@ResizeView.export_rule("onnx", until=18)
def resize_of_all_axes(b: Builder, op: ResizeView) -> Value | None:
    """Export Resize to opsets 10 to 18: no `axes`; up to 12, absent operands are empty; 10 has one coordinate mode."""
    x, version = op.x, b.version or 0
    is_plain = not op.antialias and op.axes is None and op.keep_aspect_ratio_policy == "stretch"
    unsupported(
        (op.coordinate_transformation_mode == "half_pixel_symmetric", "half_pixel_symmetric is not supported"),
        (version < 18 and not is_plain, "axes and antialias are not supported"),
    )
    if version >= 13:
        return None
    mode = op.mode
    if version >= 11:
        empty = b.constant(np.zeros(0, np.float32))
        return b.emit("Resize", x, op.roi or empty, op.scales or empty, op.sizes, facts=[UNKNOWN], **op.non_defaults())[
            0
        ]
    unsupported(
        (
            mode == "cubic" or op.coordinate_transformation_mode != "asymmetric",
            "coordinate_transformation_mode must be asymmetric",
        ),
        (mode == "nearest" and op.nearest_mode != "floor", "nearest_mode must be floor"),
    )
    factors = _factors(b, x, op.scales, op.sizes)
    unsupported((any(factor < 1 for factor in factors), "downsampling is not supported"))
    if version == 10:
        return b.emit("Resize", x, b.constant(np.array(factors, np.float32)), mode=mode)[0]
    if version == 9:
        return b.emit("Upsample", x, b.constant(np.array(factors, np.float32)), mode=mode)[0]
    return b.emit("Upsample", x, mode=mode, scales=tuple(factors))[0]


def _factors(b: Builder, x: Value, scales: Value | None, sizes: Value | None) -> tuple[float, ...]:
    if scales is not None:
        reals = scales.fact.reals if isinstance(scales.fact, TensorFact) else None
        if reals is None:
            message = "scales known only at run time"
            raise UnsupportedError(message)
        return reals
    lengths = [n for n in b.dims(x) if isinstance(n, int)]
    wanted = () if sizes is None else integers(sizes, "sizes")
    unsupported((len(lengths) != len(wanted) or 0 in lengths, "sizes must be given as scales"))
    return tuple(float(np.float32(m / n)) for n, m in zip(lengths, wanted, strict=True))


@GridSampleView.export_rule("onnx", until=19)
def grid_sample_of_images(b: Builder, op: GridSampleView) -> Value:
    """Export GridSample to opsets 16 to 19: images only, modes `bilinear` and `bicubic`."""
    unsupported((len(b.dims(op.x)) != 4, "only rank-4 images can be sampled"))
    called = {new: old for old, new in _SAMPLE_MODES.items()}[op.mode]
    stated = {"align_corners": op.align_corners, "mode": called, "padding_mode": op.padding_mode}
    return b.emit("GridSample", op.x, op.grid, facts=[UNKNOWN], **stated)[0]

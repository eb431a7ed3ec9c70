"""Resizing in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.nnef.rules.tract.binding import DIALECT, elements, import_rule
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.views.resize import GridSampleView, ResizeView

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_core_resize", "tract_onnx_resize")
def resize(
    b: Builder,
    input: Value,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    coord_transformer: str = "half_pixel",
    interpolator: str = "nearest",
    nearest_mode: str = "floor",
    cubic_coeff_a: float = -0.75,
    roi: bool = False,
) -> Value:
    """Resize all axes, with ONNX's modes."""
    if roi:
        message = "resizing of a region"
        raise UnsupportedError(message)
    emit = OpBuilder(b)
    by = (
        None
        if scales is None
        else emit("Cast", scales, to=DType.FLOAT32)
        if scales.dtype is not DType.FLOAT32
        else scales
    )
    to = None if sizes is None or by is not None else emit("Cast", sizes, to=DType.INT64)
    return emit(
        "Resize",
        input,
        None,
        by,
        to,
        mode=interpolator,
        coordinate_transformation_mode=coord_transformer,
        nearest_mode=nearest_mode,
        cubic_coeff_a=cubic_coeff_a,
    )


@import_rule("tract_core_grid_sample", "tract_onnx_grid_sample")
def grid_sample(
    b: Builder,
    input: Value,
    grid: Value,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Value:
    """Sample at the coordinates of a grid."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    return OpBuilder(b)(
        "GridSample",
        input,
        grid,
        mode=names.get(mode, mode),
        padding_mode=padding_mode,
        align_corners=int(align_corners),
    )


_NEAREST = ("floor", "round_prefer_ceil")
_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")


def _constant_size(b: Builder, op: ResizeView) -> tuple[Value | None, Value | None]:
    """Return constant scales or sizes: tract accepts no computed ones.

    Raises:
        UnsupportedError: the ratio of an open dim and its new size is not constant.
    """
    wanted, dims = elements(op.sizes) if op.sizes is not None else None, b.dims(op.x)
    if wanted is None or len(wanted) != len(dims):
        return op.scales, op.sizes
    sizes = [size for size in wanted if isinstance(size, int)]
    if len(sizes) == len(wanted):
        return None, b.constant(np.array(sizes, np.int64))
    scales = [_scale(dim, size) for dim, size in zip(dims, wanted, strict=True)]
    known = [scale for scale in scales if scale is not None]
    if len(known) < len(scales):
        axis = scales.index(None)
        message = f"tract resizes only by constant factors, not from {dims[axis]} to {wanted[axis]}"
        raise UnsupportedError(message, help="set the dim with --input")
    return b.constant(np.array(known), DType.FLOAT32), None


def _scale(dim: Dim, size: Dim) -> float | None:
    """The least float32 of at least `size / dim` whose product with `dim` tract rounds down to `size`."""
    if not isinstance(dim, int) or not isinstance(size, int):
        factor = size // dim
        return factor if isinstance(factor, int) and factor * dim == size else None
    scale = np.float32(size / dim)
    while dim * scale < size:
        scale = np.nextafter(scale, np.float32(np.inf))
    return float(scale)


def _is_exact(b: Builder, op: ResizeView) -> bool:
    """Whether all sizes are multiples of the dims."""
    sizes = None if op.sizes is None else elements(op.sizes)
    pairs = list(zip(sizes or (), b.dims(op.x), strict=False))
    return all(isinstance(size // dim, int) and size // dim * dim == size for size, dim in pairs)


@ResizeView.export_rule(DIALECT)
def export_resize(b: Builder, op: ResizeView) -> Any:
    """Export Resize in the modes that tract supports; others are exported by the standard's rules."""
    is_plain = (
        not op.antialias and op.axes is None and not op.exclude_outside and op.keep_aspect_ratio_policy == "stretch"
    )
    if not is_plain or op.coordinate_transformation_mode not in _COORDINATES:
        return None
    if op.mode == "nearest" and op.nearest_mode not in _NEAREST:
        return None
    if op.mode == "cubic" and abs(op.cubic_coeff_a + 0.75) > 1e-9:
        return None
    if any(each is not None and folded(each) is None and elements(each) is None for each in (op.scales, op.sizes)):
        return None  # what only a run knows
    is_scaled = op.scales is not None and b.dims(op.scales) != (0,)
    by, to = (op.scales, None) if is_scaled else _constant_size(b, op)
    if by is not None and not is_scaled and op.mode == "nearest" and not _is_exact(b, op):
        return None  # a rounded scale moves coordinates that are halfway between two elements
    given: dict[str, Any] = {
        "coord_transformer": op.coordinate_transformation_mode,
        "interpolator": op.mode,
        "nearest_mode": op.nearest_mode if op.mode == "nearest" else "floor",
    }
    return b.emit("tract_core_resize", op.x, by, to, **given)


@GridSampleView.export_rule(DIALECT)
def export_grid_sample(b: Builder, op: GridSampleView) -> Any:
    names = {"linear": "bilinear", "nearest": "nearest"}
    if op.mode not in names:
        return None
    given: dict[str, Any] = {
        "mode": names[op.mode],
        "padding_mode": op.padding_mode,
        "align_corners": bool(op.align_corners),
    }
    return b.emit("tract_core_grid_sample", op.x, op.grid, **given)

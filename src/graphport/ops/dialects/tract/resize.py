"""Resizing in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import DIALECT, dtype_of, elements, word
from graphport.ops.folded import folded

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("tract_core_resize", "tract_onnx_resize")
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
    """As ONNX's, of all axes."""
    if roi:
        message = "it resizes a region"
        raise UnsupportedError(message)
    emit = OpBuilder(b)
    by = (
        None
        if scales is None
        else emit("Cast", scales, to=DType.FLOAT32)
        if dtype_of(scales) is not DType.FLOAT32
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


@word("tract_core_grid_sample", "tract_onnx_grid_sample")
def grid_sample(
    b: Builder,
    input: Value,
    grid: Value,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Value:
    """Values at the places that a grid names."""
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


@lift(DIALECT, "Resize")
def lift_resize(
    b: Builder,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:
    """By scales or sizes of all axes, in the ways that tract knows; what else there is goes by the standard's words."""
    is_plain = not antialias and axes is None and not exclude_outside and keep_aspect_ratio_policy == "stretch"
    if not is_plain or coordinate_transformation_mode not in _COORDINATES:
        return None
    if mode == "nearest" and nearest_mode not in _NEAREST:
        return None
    if mode == "cubic" and abs(cubic_coeff_a + 0.75) > 1e-9:
        return None
    if any(each is not None and folded(each) is None and elements(each) is None for each in (scales, sizes)):
        return None  # what only a run knows
    by = scales if scales is not None and b.dims(scales) != (0,) else None
    given: dict[str, Any] = {
        "coord_transformer": coordinate_transformation_mode,
        "interpolator": mode,
        "nearest_mode": nearest_mode if mode == "nearest" else "floor",
    }
    return b.word("tract_core_resize", x, by, None if by is not None else sizes, **given)


@lift(DIALECT, "GridSample")
def lift_grid_sample(
    b: Builder, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Any:
    names = {"linear": "bilinear", "nearest": "nearest"}
    if mode not in names:
        return None
    given: dict[str, Any] = {"mode": names[mode], "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return b.word("tract_core_grid_sample", x, grid, **given)

"""Resizing in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.spoken import Speaker
from graphport.ops.tract import dtype_of, word

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
    say = Speaker(b)
    by = (
        None
        if scales is None
        else say("Cast", scales, to=DType.FLOAT32)
        if dtype_of(scales) is not DType.FLOAT32
        else scales
    )
    to = None if sizes is None or by is not None else say("Cast", sizes, to=DType.INT64)
    return say(
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
    return Speaker(b)(
        "GridSample",
        input,
        grid,
        mode=names.get(mode, mode),
        padding_mode=padding_mode,
        align_corners=int(align_corners),
    )

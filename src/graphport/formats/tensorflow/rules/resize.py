"""Resizing of images in TensorFlow, channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator, to_first, to_given
from graphport.ops.lowering.extents import extent, joined
from graphport.ops.lowering.operands import as_vector, cast, dtype_of
from graphport.ops.pages.resize import Resize

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_LAST = "NHWC"


def coordinates(*, align_corners: bool, half_pixel_centers: bool) -> str:
    """ONNX's name for the places of the result's pixels."""
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


def _resized(b: Builder, x: Value, size: Value, **attributes: object) -> Value:
    first = to_first(b, x, _LAST)
    shape = joined(b, extent(b, first, 0), extent(b, first, 1), as_vector(b, size))
    return to_given(b, b(Resize, first, None, None, shape, **attributes), _LAST)


@operator("ResizeBilinear")
def resize_bilinear(
    b: Builder, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Linear between the nearest pixels, in float32."""
    places = coordinates(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    wide = x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)
    return _resized(b, wide, size, mode="linear", coordinate_transformation_mode=places)


@operator("ResizeNearestNeighbor")
def resize_nearest(
    b: Builder, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """The pixel below the place, or with aligned corners the nearest one, halves up."""
    places = coordinates(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    # floor((i + 0.5) * s) is the pixel nearest to (i + 0.5) * s - 0.5, halves up.
    nearest = "floor" if places == "asymmetric" else "round_prefer_ceil"
    return _resized(b, x, size, mode="nearest", coordinate_transformation_mode=places, nearest_mode=nearest)


@operator("ResizeBicubic")
def resize_bicubic(
    b: Builder, x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Cubic between the nearest pixels; with centers at halves, pixels outside have no weight."""
    places = coordinates(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    wide = x if dtype_of(x) is DType.FLOAT32 else cast(b, x, DType.FLOAT32)
    is_half = places == "half_pixel"
    return _resized(
        b,
        wide,
        size,
        mode="cubic",
        coordinate_transformation_mode=places,
        cubic_coeff_a=-0.5 if is_half else -0.75,
        exclude_outside=1 if is_half else None,
    )

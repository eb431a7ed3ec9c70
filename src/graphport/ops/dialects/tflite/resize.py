"""Resizing in TFLite: channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.ops.dialects.operands import as_int64, integers, vector
from graphport.ops.dialects.tflite.binding import Operator, first, last, word
from graphport.ops.dialects.tflite.resize_short import coordinates_of, short_bilinear
from graphport.ops.pages.reshape import Concat, Shape
from graphport.ops.pages.resize import Resize

if TYPE_CHECKING:
    from graphport.ir.graph import Value


def _sizes(op: Operator, x: Value) -> Value:
    """The extents of the result, channels first."""
    b, told, dims = op.b, integers(op.raw(1)), op.b.dims(x)
    if told is not None and all(isinstance(n, int) for n in dims[:2]):
        return vector(b, [*(n for n in dims[:2] if isinstance(n, int)), *told])
    return b(Concat, b(Shape, x, end=2), as_int64(b, op.raw(1)), axis=0)


def _resized(op: Operator, stated: dict[str, Any]) -> Value:
    x = first(op.b, op[0])
    return last(op.b, op.b(Resize, x, None, None, _sizes(op, x), **stated))


@word("RESIZE_BILINEAR", is_even=True)
def resize_bilinear(op: Operator) -> Value:
    """Linear between the two nearest along each axis."""
    found = short_bilinear(op, coordinates_of(op))
    if found is not None:
        return found
    return _resized(op, {"mode": "linear", "coordinate_transformation_mode": coordinates_of(op)})


@word("RESIZE_NEAREST_NEIGHBOR", is_even=True)
def resize_nearest_neighbor(op: Operator) -> Value:
    """The element at the place, rounded down; to the nearest where corners or centers are aligned, halves up."""
    coordinates = coordinates_of(op)
    nearest = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    stated = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    return _resized(op, stated)

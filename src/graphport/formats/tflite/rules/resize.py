"""Resizing in TFLite, channels last; of integers as LiteRT's kernels do it: places and weights in steps of 1/1024."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, first, last, word
from graphport.formats.tflite.rules.fixed_point import quotient
from graphport.formats.tflite.rules.integer_kernels import SIGNED, Given, integer_kernel
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, integers, scalar, vector
from graphport.ops.pages.arithmetic import Add, Div, Mul, Sub
from graphport.ops.pages.comparison import And, Equal, Less
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.reshape import Concat, Shape
from graphport.ops.pages.resize import Resize

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.binding import Operator
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _sizes(op: Operator, x: Value) -> Value:
    """The extents of the result, channels first."""
    b, numbers, dims = op.b, integers(op.raw(1)), op.b.dims(x)
    if numbers is not None and all(isinstance(n, int) for n in dims[:2]):
        return vector(b, [*(n for n in dims[:2] if isinstance(n, int)), *numbers])
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


UNIT = 1024
_FAR = 1 / 512
"""From which distance on of a place one of 256 steps is moved by half a step."""
_LIFT = 1 << 26
"""A multiple of the unit above all that is divided, so that it is rounded down."""


def short_bilinear(op: Operator, coordinates: str) -> Value | None:
    """Linear between the two nearest along height and width, of int16, and of int8 where steps move places.

    `None` of anything else.
    """
    sizes, own = integers(op.raw(1)), dtype_of(op.raw(0))
    if own not in (DType.INT16, DType.INT8) or op.quantization(0) is None or sizes is None:
        return None
    dims = [n for n in op.dims(0)[1:3] if isinstance(n, int)]
    if len(dims) != len(sizes):
        return None
    b = op.b
    reserve(*sizes)
    if own is DType.INT8 and not any(_moves(n, m, coordinates) for n, m in zip(dims, sizes, strict=True)):
        return None
    op.is_raw = True
    x = cast(b, op.raw(0), DType.INT32)
    tall = _bilinear(b, x, 1, dims[0], sizes[0], coordinates)
    high = _floored(b, tall)
    low = b(Sub, tall, b(Mul, high, _int(b, UNIT)))
    wide = [_bilinear(b, part, 2, dims[1], sizes[1], coordinates) for part in (high, low)]
    carried = _floored(b, wide[1])
    whole = b(Add, wide[0], carried)
    rest = b(Sub, wide[1], b(Mul, carried, _int(b, UNIT)))
    # Halves go away from zero.
    is_below = b(And, b(Less, whole, _int(b, 0)), b(Equal, rest, _int(b, 0)))
    nudged = b(Sub, b(Add, whole, _int(b, UNIT // 2)), cast(b, is_below, DType.INT32))
    return cast(b, _floored(b, nudged), own)


def _moves(n: int, count: int, coordinates: str) -> bool:
    """Whether a place in steps of units is so far from where it should be that bytes may come out otherwise."""
    lower, _, shares = neighbours(n, count, coordinates)
    at = np.arange(count)
    is_aligned = coordinates == "align_corners" and count > 1
    exact = at * ((n - 1) / (count - 1)) if is_aligned else at * (n / count)
    if coordinates == "half_pixel":
        exact = exact + n / count / 2 - 0.5
    return bool(np.abs(lower + shares / UNIT - exact).max(initial=0) > _FAR)


def _int(b: Builder, number: int) -> Value:
    return scalar(b, number, DType.INT32)


def _floored(b: Builder, x: Value) -> Value:
    """x over the unit, rounded down."""
    return b(Sub, b(Div, b(Add, x, _int(b, _LIFT)), _int(b, UNIT)), _int(b, _LIFT // UNIT))


def coordinates_of(op: Operator | Given) -> str:
    """Where cells of the result lie, in ONNX's words."""
    if op.option("align_corners", default=False):
        return "align_corners"
    return "half_pixel" if op.option("half_pixel_centers", default=False) else "asymmetric"


def neighbours(n: int, count: int, coordinates: str) -> tuple[Numbers, Numbers, Numbers]:
    """For each of `count` cells made of `n`: the two nearest, and the share of the second in units."""
    is_aligned = coordinates == "align_corners" and count > 1
    step = (UNIT * (n - 1) + (count - 1) // 2) // (count - 1) if is_aligned else (UNIT * n + count // 2) // count
    positions = np.arange(reserve(count, what="places of an axis"), dtype=np.int64) * step
    if coordinates == "half_pixel":
        positions += step // 2 - UNIT // 2
    # Divisions of the kernel cut towards zero.
    lower = np.clip(np.trunc(positions / UNIT).astype(np.int64), 0, n - 1)
    upper = np.clip(np.trunc((positions + UNIT - 1) / UNIT).astype(np.int64), 0, n - 1)
    return lower, upper, positions - UNIT * lower


def _bilinear(b: Builder, x: Value, axis: int, n: int, count: int, coordinates: str) -> Value:
    """Sums of the two nearest along an axis, their weights in units."""
    lower, upper, shares = neighbours(n, count, coordinates)
    share = shares.astype(np.int32).reshape(-1, *[1] * (3 - axis))
    parts = [b(Gather, x, vector(b, indices.tolist()), axis=axis) for indices in (lower, upper)]
    return b(Add, b(Mul, parts[0], b.constant(UNIT - share)), b(Mul, parts[1], b.constant(share)))


@integer_kernel("RESIZE_BILINEAR", SIGNED)
def resize_bilinear_of_integers(given: Given) -> Numbers:
    """Linear between the two nearest along height and width, halves away from zero, of the stored numbers."""
    x = given.stored(0)
    for axis, count in zip((1, 2), given.stored(1).reshape(-1).tolist(), strict=True):
        lower, upper, shares = neighbours(x.shape[axis], count, coordinates_of(given))
        share = shares.reshape(-1, *[1] * (3 - axis))
        x = np.take(x, lower, axis) * (UNIT - share) + np.take(x, upper, axis) * share
    return given.clamped(quotient(x, UNIT * UNIT) - given.zero)

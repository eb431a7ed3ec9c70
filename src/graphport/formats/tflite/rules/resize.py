"""Resizing of TFLite, channels-last; integers with the 1/1024 fixed-point coordinates of LiteRT's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, import_rule, to_channels_first, to_channels_last
from graphport.formats.tflite.rules.fixed_point import quotient
from graphport.formats.tflite.rules.integer_kernels import SIGNED, KernelOperands, integer_kernel
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Less
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import Concat, Shape
from graphport.ops.definitions.resize import Resize
from graphport.ops.lowering.operands import as_int64, cast, dtype_of, integers, vector

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.binding import Operator
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _sizes(op: Operator, x: Value) -> Value:
    """Return the output sizes, channels-first."""
    b, numbers, dims = op.b, integers(op.raw(1)), op.b.dims(x)
    if numbers is not None and all(isinstance(n, int) for n in dims[:2]):
        return vector(b, [*(n for n in dims[:2] if isinstance(n, int)), *numbers])
    return b(Concat, b(Shape, x, end=2), as_int64(b, op.raw(1)), axis=0)


def _resized(op: Operator, stated: dict[str, Any]) -> Value:
    x = to_channels_first(op.b, op[0])
    return to_channels_last(op.b, op.b(Resize, x, None, None, _sizes(op, x), **stated))


@import_rule("RESIZE_BILINEAR", is_even=True)
def resize_bilinear(op: Operator) -> Value:
    """RESIZE_BILINEAR."""
    found = short_bilinear(op, coordinates_of(op))
    if found is not None:
        return found
    return _resized(op, {"mode": "linear", "coordinate_transformation_mode": coordinates_of(op)})


@import_rule("RESIZE_NEAREST_NEIGHBOR", is_even=True)
def resize_nearest_neighbor(op: Operator) -> Value:
    """RESIZE_NEAREST_NEIGHBOR: floor of the coordinate; rounded half up with aligned corners or half-pixel centers."""
    coordinates = coordinates_of(op)
    nearest = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    stated = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    return _resized(op, stated)


UNIT = 1024
_MIN_SHIFTED_DISTANCE = 1 / 512
"""Distance of a coordinate beyond which one of 256 steps moves by half a step."""
_LIFT = 1 << 26
"""A multiple of the unit above all dividends, so that truncation is floor."""


def short_bilinear(op: Operator, coordinates: str) -> Value | None:
    """Bilinear resize of int16, and of int8 if the fixed-point coordinates change the result.

    `None` otherwise.
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
    low = b(Sub, tall, b(Mul, high, UNIT))
    wide = [_bilinear(b, part, 2, dims[1], sizes[1], coordinates) for part in (high, low)]
    carried = _floored(b, wide[1])
    whole = b(Add, wide[0], carried)
    rest = b(Sub, wide[1], b(Mul, carried, UNIT))
    # Rounded half away from zero.
    is_below = b(And, b(Less, whole, 0), b(Equal, rest, 0))
    nudged = b(Sub, b(Add, whole, UNIT // 2), cast(b, is_below, DType.INT32))
    return cast(b, _floored(b, nudged), own)


def _moves(n: int, count: int, coordinates: str) -> bool:
    """Whether fixed-point coordinates deviate enough to change 8-bit results."""
    lower, _, shares = neighbours(n, count, coordinates)
    at = np.arange(count)
    is_aligned = coordinates == "align_corners" and count > 1
    exact = at * ((n - 1) / (count - 1)) if is_aligned else at * (n / count)
    if coordinates == "half_pixel":
        exact = exact + n / count / 2 - 0.5
    return bool(np.abs(lower + shares / UNIT - exact).max(initial=0) > _MIN_SHIFTED_DISTANCE)


def _floored(b: Builder, x: Value) -> Value:
    """Return floor(x / UNIT), also for negative `x`."""
    return b(Sub, b(Div, b(Add, x, _LIFT), UNIT), _LIFT // UNIT)


def coordinates_of(op: Operator | KernelOperands) -> str:
    """Return the ONNX coordinate transformation mode."""
    if op.option("align_corners", default=False):
        return "align_corners"
    return "half_pixel" if op.option("half_pixel_centers", default=False) else "asymmetric"


def neighbours(n: int, count: int, coordinates: str) -> tuple[Numbers, Numbers, Numbers]:
    """Return the lower and upper source index of each of `count` outputs, and the upper weight in 1 / UNIT.

    `n` is the size of the source axis.
    """
    is_aligned = coordinates == "align_corners" and count > 1
    step = (UNIT * (n - 1) + (count - 1) // 2) // (count - 1) if is_aligned else (UNIT * n + count // 2) // count
    positions = np.arange(reserve(count, what="indices of an axis"), dtype=np.int64) * step
    if coordinates == "half_pixel":
        positions += step // 2 - UNIT // 2
    # Integer divisions of the kernel truncate towards zero.
    lower = np.clip(np.trunc(positions / UNIT).astype(np.int64), 0, n - 1)
    upper = np.clip(np.trunc((positions + UNIT - 1) / UNIT).astype(np.int64), 0, n - 1)
    return lower, upper, positions - UNIT * lower


def _bilinear(b: Builder, x: Value, axis: int, n: int, count: int, coordinates: str) -> Value:
    """Interpolate an axis of size `n` to `count` elements with weights in 1 / UNIT; the result is scaled by UNIT."""
    lower, upper, shares = neighbours(n, count, coordinates)
    share = shares.astype(np.int32).reshape(-1, *[1] * (3 - axis))
    parts = [b(Gather, x, indices.tolist(), axis=axis) for indices in (lower, upper)]
    return b(Add, b(Mul, parts[0], b.constant(UNIT - share)), b(Mul, parts[1], b.constant(share)))


@integer_kernel("RESIZE_BILINEAR", SIGNED)
def resize_bilinear_of_integers(given: KernelOperands) -> Numbers:
    """Bilinear resize of the stored integers, rounded half away from zero."""
    x = given.stored(0)
    for axis, count in zip((1, 2), given.stored(1).reshape(-1).tolist(), strict=True):
        lower, upper, shares = neighbours(x.shape[axis], count, coordinates_of(given))
        share = shares.reshape(-1, *[1] * (3 - axis))
        x = np.take(x, lower, axis) * (UNIT - share) + np.take(x, upper, axis) * share
    return given.clamped(quotient(x, UNIT * UNIT) - given.zero)

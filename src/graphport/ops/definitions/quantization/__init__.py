"""Quantization and dequantization of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import ceil_div, decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.arithmetic.cast import cast
from graphport.ops.shapes import axis_index, same_dim
from graphport.ops.types import FLOAT8, FLOAT32, HALF, INT32, NIBBLES, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from types import EllipsisType

    from graphport.ops.views.quantization import DequantizeLinearView, QuantizeLinearView

__all__ = ["DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"]

_PART = 1 << 22
"""Elements that are dequantized at once: intermediate values have up to 8 bytes each."""

REALS = HALF | FLOAT32
NARROW = (
    FLOAT8
    | NIBBLES
    | {
        DType.FLOAT4E2M1,
        DType.INT2,
        DType.UINT2,
        DType.INT8,
        DType.UINT8,
        DType.INT16,
        DType.UINT16,
    }
)

X = Annotated[Tensor, Types("T1", REALS | INT32)]
Scale = Annotated[Tensor, Types("T2", REALS | INT32 | {DType.FLOAT8E8M0})]
T3 = Annotated[Tensor, Types("T3", NARROW)]
Q = Annotated[Tensor, Types("T1", NARROW | INT32)]
RealScale = Annotated[Tensor, Types("T2", REALS | {DType.FLOAT8E8M0})]
Real = Annotated[Tensor, Types("T3", REALS)]
Float = Annotated[Tensor, Types("T1", FLOAT32)]
Float32 = Annotated[Tensor, Types("tensor(float)", FLOAT32)]
UInt8 = Annotated[Tensor, Types("T2", frozenset({DType.UINT8}))]


def check_granularity(
    x: TensorFact, scale: TensorFact, zero_point: TensorFact | None, axis: int, block_size: int
) -> None:
    """Check the shape of scales: per-tensor, per-axis, or one per block of an axis.

    Raises:
        ShapeError: the shape is none of these, or the zero point has another shape than the scale.
    """
    if block_size < 0:
        message = f"block_size is {block_size}"
        raise ShapeError(message, "positive, or 0 without blocks")
    if zero_point is not None and zero_point.shape is not None and scale.shape is not None:
        _check_alike(scale, zero_point)
    if scale.shape is None or x.shape is None or scale.shape in ((), (1,)):
        return
    if len(scale.shape) == 1 and not block_size and x.shape:
        # A vector has one axis, whatever `axis` is: its default is 1.
        place = axis_index(axis, x.rank) if len(x.shape) > 1 or axis_fits(axis, x.rank) else 0
        same_dim(x.shape[place], scale.shape[0], f"entries of axis {place} and scales")
        return
    if not block_size or len(scale.shape) != len(x.shape):
        message = f"scales have the shape {list(scale.shape)}, the tensor is {x}"
        raise ShapeError(message, "expected a scalar, one per index of the axis, or with block_size one per block")
    place = axis_index(axis, x.rank)
    for i, (n, m) in enumerate(zip(x.shape, scale.shape, strict=True)):
        same_dim(ceil_div(n, block_size) if i == place else n, m, f"axis {i} of x, in blocks, and scales")


def axis_fits(axis: int, rank: int) -> bool:
    """Whether a tensor of that rank has the axis."""
    return -rank <= axis < rank


def _check_alike(scale: TensorFact, zero_point: TensorFact) -> None:
    alike = scale.rank == zero_point.rank and all(
        decide_equal(a, b) is not False for a, b in zip(scale.dims, zero_point.dims, strict=True)
    )
    single = {scale.shape, zero_point.shape} <= {(), (1,)}
    if not alike and not single:
        message = f"scales have the shape {list(scale.dims)}, zero points {list(zero_point.dims)}"
        raise ShapeError(message, "the shapes must be equal")


def broadcast_parameter(parameter: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Reshape scales or zero points, or repeat them per block, so that they broadcast over `x`."""
    if parameter.size == 1:
        return parameter.reshape(())
    scaled_axis = _scaled_axis(x, axis)
    if parameter.ndim == 1 and not block_size:
        return parameter.reshape(-1, *[1] * (x.ndim - scaled_axis - 1))
    wide = np.repeat(parameter, block_size, axis=scaled_axis)
    return wide[tuple(slice(0, n) if i == scaled_axis else slice(None) for i, n in enumerate(x.shape))]


def _scaled_axis(x: Tensor, axis: int) -> int:
    return axis % x.ndim if axis_fits(axis, x.ndim) else 0


@viewed
def _quantize_shape(op: QuantizeLinearView[TensorFact]) -> TensorFact:
    check_granularity(op.x, op.y_scale, op.y_zero_point, op.axis, op.block_size)
    dtype = op.output_dtype
    if op.y_zero_point is not None and op.y_zero_point.dtype is not None:
        if op.output_dtype not in (None, op.y_zero_point.dtype):
            message = f"output_dtype is {op.output_dtype}, the zero point is {op.y_zero_point.dtype}"
            raise ShapeError(message, "remove output_dtype or y_zero_point")
        dtype = op.y_zero_point.dtype
    dtype = DType.UINT8 if dtype is None and op.y_zero_point is None else dtype
    if dtype is not None and dtype not in NARROW:
        message = f"output_dtype is {dtype}"
        raise ShapeError(message, f"expected {', '.join(sorted(map(str, NARROW)))}")
    if op.precision is not None and op.precision not in REALS:
        message = f"precision is {op.precision}"
        raise ShapeError(message, f"expected {', '.join(sorted(map(str, REALS)))}")
    return TensorFact(dtype, op.x.shape)


@op(turns="axis", shape=_quantize_shape, since=10, exactness="rounding", role="passive")
def QuantizeLinear(
    x: X,
    y_scale: Scale,
    y_zero_point: T3 | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | None = None,
    precision: DType | None = None,
    saturate: int = 1,
) -> T3:
    """Quantize `x`: round(x / y_scale) + y_zero_point, ties to even, saturated; or convert to a narrow float.

    The result has the type of `y_zero_point`, else `output_dtype`, else uint8. The quotient is rounded to `precision`
    (default: type of the scale). 8-bit floats saturate to the largest one if `saturate`, else overflow to infinity or
    NaN.

    Shapes: x [*s]; y_scale and y_zero_point [], or [s[axis]], or with `block_size` s with ceil(s[axis] / block_size)
    → [*s].  Units: `y_scale` is real units per integer step.

    Raises:
        ShapeError: the shape of scales or zero points is neither per-tensor, per-axis nor block-wise.

    Source: ONNX QuantizeLinear-25.
    """
    dtype = y_zero_point.dtype if y_zero_point is not None else (output_dtype or DType.UINT8).numpy
    quotient = _divided(x, broadcast_parameter(y_scale, x, axis, block_size), precision)
    shift = None if y_zero_point is None else broadcast_parameter(y_zero_point, x, axis, block_size)
    if dtype.kind not in "iu" and DType.of(dtype).is_floating:
        shifted = quotient if shift is None else quotient + shift.astype(quotient.dtype)
        return cast(shifted, DType.of(dtype), saturate=bool(saturate))
    steps = np.rint(quotient.astype(np.float64))
    if shift is not None:
        steps = steps + shift.astype(np.float64)
    low, high = integer_range(DType.of(dtype))
    # NaN is no integer; like the minimum of a comparison that fails it ends up at the low end.
    return np.clip(np.where(np.isnan(steps), low, steps), low, high).astype(np.int32).astype(dtype)


def _divided(x: Tensor, scale: Tensor, precision: DType | None) -> Tensor:
    """Return `x / scale` rounded to `precision`, stored in float32 or float64."""
    kept = DType.of(scale.dtype) if precision is None else precision
    if kept not in REALS:
        # Integer and power-of-two types cannot represent quotients.
        wide = np.float64 if x.dtype.kind in "iu" else np.float32
        return x.astype(wide) / scale.astype(wide)
    a, b = (value.astype(kept.numpy).astype(np.float32) for value in (x, scale))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return (a / b).astype(kept.numpy).astype(np.float32)


def integer_range(dtype: DType) -> tuple[int, int]:
    """Return the minimum and the maximum of an integer type."""
    if dtype.kind == "u":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


@viewed
def _dequantize_shape(op: DequantizeLinearView[TensorFact]) -> TensorFact:
    check_granularity(op.x, op.x_scale, op.x_zero_point, op.axis, op.block_size)
    dtype = op.x_scale.dtype if op.output_dtype is None else op.output_dtype
    if dtype is not None and dtype not in REALS:
        message = f"the result would be {dtype}"
        raise ShapeError(message, f"output_dtype may be {', '.join(sorted(map(str, REALS)))}")
    return TensorFact(dtype, op.x.shape)


@op(turns="axis", shape=_dequantize_shape, since=10, exactness="rounding", role="passive")
def DequantizeLinear(
    x: Q,
    x_scale: RealScale,
    x_zero_point: Q | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | None = None,
) -> Real:
    """Dequantize: `(x - x_zero_point) * x_scale` in `output_dtype` (default: type of the scale).

    Shapes: x [*s]; x_scale and x_zero_point [], or [s[axis]], or with `block_size` s with ceil(s[axis] / block_size)
    → [*s].  Units: `x_scale` is real units per integer step.

    Raises:
        ShapeError: the shape of scales or zero points is neither per-tensor, per-axis nor block-wise.

    Source: ONNX DequantizeLinear-25.
    """
    dtype = x_scale.dtype if output_dtype is None else output_dtype.numpy
    # A difference of two int32 needs 33 bits, and float32 would round before the subtraction.
    kind = DType.of(x.dtype)
    wide = np.float32 if kind.is_floating else np.int64 if kind is DType.INT32 else np.int32
    found = np.empty(x.shape, dtype)
    for rows in _row_parts(x, axis, block_size):
        part = x[rows]
        steps = part.astype(wide)
        if x_zero_point is not None:
            zero = _parameter_rows(x_zero_point, x, rows, axis, block_size)
            steps = steps - broadcast_parameter(zero, part, axis, block_size).astype(wide)
        scale = broadcast_parameter(_parameter_rows(x_scale, x, rows, axis, block_size), part, axis, block_size)
        found[rows] = steps.astype(np.float32) * scale.astype(np.float32)
    return found


def _row_parts(x: Tensor, axis: int, block_size: int) -> list[slice | EllipsisType]:
    """Return slices of axis 0 with at most `_PART` elements each, or one row or block; intermediate values are wide."""
    if x.ndim == 0 or x.size <= _PART:
        return [...]
    step = max(_PART * len(x) // x.size, 1)
    if block_size and _scaled_axis(x, axis) == 0:
        step = max(step // block_size, 1) * block_size
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _parameter_rows(parameter: Tensor, x: Tensor, rows: slice | EllipsisType, axis: int, block_size: int) -> Tensor:
    """Return the scales or zero points of some rows of `x`."""
    if rows is ... or parameter.size == 1:
        return parameter
    if _scaled_axis(x, axis) == 0:
        size = block_size or 1
        return parameter[rows.start // size : -(-rows.stop // size)]
    return parameter if parameter.ndim == 1 else parameter[rows]


def _dynamic_shape(x: TensorFact) -> list[TensorFact]:
    return [TensorFact(DType.UINT8, x.shape), TensorFact(DType.FLOAT32, ()), TensorFact(DType.UINT8, ())]


@op(
    shape=_dynamic_shape,
    since=11,
    outputs=("y", "y_scale", "y_zero_point"),
    exactness="rounding",
    role="passive",
)
def DynamicQuantizeLinear(x: Float) -> tuple[UInt8, Float32, UInt8]:
    """Quantize `x` to uint8 with a scale of 1/255 of its range extended to 0; also return scale and zero point.

    Shapes: x [*s] → [*s], [], [].

    Source: ONNX DynamicQuantizeLinear-11.
    """
    low = np.minimum(np.min(x, initial=0), np.float32(0))
    high = np.maximum(np.max(x, initial=0), np.float32(0))
    scale = np.float32((high - low) / np.float32(255))
    # All zeros have no range: any scale will do.
    scale = scale if scale > 0 else np.float32(1)
    zero_point = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
    steps = np.rint(x / scale) + np.float32(zero_point)
    return np.clip(steps, 0, 255).astype(np.uint8), np.asarray(scale), np.asarray(zero_point)

"""Integer matrix products and convolutions in NNEF's real arithmetic: exact up to 2^24, then requantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Round, Sub
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.matmul import MatMul, MatMulInteger
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.lowering.operands import dtype_of, sizes
from graphport.ops.views.convolution import ConvIntegerView, QLinearConvView
from graphport.ops.views.matmul import QLinearMatMulView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MOST_EXACT = 1 << 8
"""Products of differences of bytes, of 17 bits and a sign, that float32 adds up exactly."""


def _as_float(b: Builder, x: Value) -> Value:
    return b(Cast, x, to=DType.FLOAT32)


def _centred(b: Builder, x: Value, zero: Value | None) -> Value:
    return _as_float(b, x) if zero is None else b(Sub, _as_float(b, x), _as_float(b, zero))


def _led(b: Builder, numbers: Value | None, behind: int) -> Value | None:
    """Append axes of length 1 to per-entry parameters; a scalar is unchanged."""
    if numbers is None or behind < 1 or b.dims(numbers) in ((), (1,)):
        return numbers
    return b(Unsqueeze, numbers, list(range(1, behind + 1)))


def _check_exact(count: int) -> None:
    if count > _MOST_EXACT:
        message = f"sums of {count} products, which float32 does not represent exactly"
        raise UnsupportedError(message)


def _codes(b: Builder, scaled: Value, zero: Value) -> tuple[Value, ...] | None:
    dtype = dtype_of(zero)
    if not dtype.is_integer:
        return None
    limits = np.iinfo(dtype.numpy)
    moved = b(Add, b(Round, scaled), _as_float(b, zero))
    low, high = (b.constant(np.float32(limit)) for limit in (limits.min, limits.max))
    return (b(Cast, b(Clip, moved, low, high), to=dtype),)


@MatMulInteger.export_rule("nnef")
def export_matmul_integer(
    b: Builder, a: Value, other: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> tuple[Value, ...] | None:
    _check_exact(sizes(b.dims(a)[-1:])[0])
    left = _centred(b, a, _led(b, a_zero_point, min(len(b.dims(a)) - 1, 1)))
    return (b(Cast, b(MatMul, left, _centred(b, other, b_zero_point)), to=DType.INT32),)


@QLinearMatMulView.export_rule("nnef")
def export_qlinear_matmul(b: Builder, op: QLinearMatMulView) -> tuple[Value, ...] | None:
    rows = min(len(b.dims(op.a)) - 1, 1)
    left = _centred(b, op.a, _led(b, op.a_zero_point, rows))
    total = b(MatMul, left, _centred(b, op.b, op.b_zero_point))
    factor = b(Mul, _led(b, op.a_scale, rows) or op.a_scale, op.b_scale)
    scaled = b(Mul, total, b(Div, factor, _led(b, op.y_scale, rows) or op.y_scale))
    return _codes(b, scaled, _led(b, op.y_zero_point, rows) or op.y_zero_point)


@ConvIntegerView.export_rule("nnef")
def export_conv_integer(b: Builder, op: ConvIntegerView) -> tuple[Value, ...] | None:
    _check_exact(int(np.prod(sizes(b.dims(op.w)[1:], "the filters"))))
    left, right = _centred(b, op.x, op.x_zero_point), _centred(b, op.w, _led(b, op.w_zero_point, len(b.dims(op.w)) - 1))
    return (b(Cast, b(Conv, left, right, **op.non_defaults()), to=DType.INT32),)


@QLinearConvView.export_rule("nnef")
def export_qlinear_conv(b: Builder, op: QLinearConvView) -> tuple[Value, ...] | None:
    space = len(b.dims(op.w)) - 2
    filters = _centred(b, op.w, _led(b, op.w_zero_point, space + 1))
    bias = None if op.b is None else _as_float(b, op.b)
    total = b(Conv, _centred(b, op.x, op.x_zero_point), filters, bias, **op.non_defaults())
    factor = b(Div, b(Mul, op.x_scale, _led(b, op.w_scale, space) or op.w_scale), op.y_scale)
    return _codes(b, b(Mul, total, factor), op.y_zero_point)

"""Products of matrices of integers and eight-bit floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.matmul.shapes import multiplied, product_macs
from graphport.ops.types import BYTES, FLOAT8, HALF, INT32, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.matmul import QLinearMatMulView

T1 = Annotated[Tensor, Types("T1", BYTES)]
T2 = Annotated[Tensor, Types("T2", BYTES)]
Int32 = Annotated[Tensor, Types("T3", INT32)]
Q1 = Annotated[Tensor, Types("T1", BYTES | FLOAT8)]
Q2 = Annotated[Tensor, Types("T2", BYTES | FLOAT8)]
Q3 = Annotated[Tensor, Types("T3", BYTES | FLOAT8)]
TS = Annotated[Tensor, Types("TS", HALF | {DType.FLOAT32})]


def _check_rows(name: str, fact: TensorFact | None, a: TensorFact, axis: int) -> None:
    """Check that a scale or zero point is a scalar, has one element per row (column) of `a`, or has the rank of `a`."""
    if fact is None or fact.shape is None or a.shape is None or not fact.shape or fact.shape == (1,):
        return
    if len(fact.shape) == 1 and len(a.shape) > 1 and decide_equal(fact.shape[0], a.shape[axis]) is False:
        message = f"{name} has {fact.shape[0]} entries for {a.shape[axis]} {'rows' if axis == -2 else 'columns'}"
        raise ShapeError(message, "expected a scalar, or one element for each")
    if len(fact.shape) > 1 and len(fact.shape) != len(a.shape):
        message = f"{name} has rank {len(fact.shape)}, its operand {len(a.shape)}"
        raise ShapeError(message, "expected rank 0, rank 1, or the rank of its operand")


def _matmul_integer_shape(
    a: TensorFact, b: TensorFact, a_zero_point: TensorFact | None = None, b_zero_point: TensorFact | None = None
) -> TensorFact:
    _check_rows("a_zero_point", a_zero_point, a, -2)
    _check_rows("b_zero_point", b_zero_point, b, -1)
    if a.shape is None or b.shape is None:
        return TensorFact(DType.INT32, None)
    return TensorFact(DType.INT32, multiplied(a.shape, b.shape))


@op(
    shape=_matmul_integer_shape,
    since=10,
    exactness="exact",
    role="passive",
    macs=product_macs,
    ranks={"a": (1, None), "b": (1, None)},
)
def MatMulInteger(a: T1, b: T2, a_zero_point: T1 | None = None, b_zero_point: T2 | None = None) -> Int32:
    """Matrix product of `a - a_zero_point` and `b - b_zero_point` in 32-bit integers.

    Shapes: a [*s, M, K], b [*t, K, N], a_zero_point [], [M] or [*s, M, 1], b_zero_point [], [N] or [*t, 1, N]
    → [*broadcast(s, t), M, N].

    Raises:
        ShapeError: the inner dims differ, or a zero point does not belong to rows or columns.

    Source: ONNX MatMulInteger-10.
    """
    left = _shifted(a, None if a_zero_point is None else per_row(a_zero_point, a))
    return np.matmul(left, _shifted(b, b_zero_point)).astype(np.int64).astype(np.int32)


def per_row(parameter: Tensor, a: Tensor) -> Tensor:
    """Reshape a vector with one element per row of `a` to a column."""
    return parameter[:, None] if parameter.ndim == 1 and parameter.size > 1 and a.ndim > 1 else parameter


def _shifted(x: Tensor, zero_point: Tensor | None) -> Tensor:
    # Products of matrices of bytes are exact in float64, which has the fast product.
    return x.astype(np.float64) if zero_point is None else x.astype(np.float64) - zero_point.astype(np.float64)


@viewed
def _qlinear_matmul_shape(op: QLinearMatMulView[TensorFact]) -> TensorFact:
    for name, fact in (("a_scale", op.a_scale), ("a_zero_point", op.a_zero_point)):
        _check_rows(name, fact, op.a, -2)
    for name, fact in (("b_scale", op.b_scale), ("b_zero_point", op.b_zero_point)):
        _check_rows(name, fact, op.b, -1)
    if op.a.shape is None or op.b.shape is None:
        return TensorFact(op.y_zero_point.dtype, None)
    return TensorFact(op.y_zero_point.dtype, multiplied(op.a.shape, op.b.shape))


@op(
    shape=_qlinear_matmul_shape,
    since=10,
    exactness="rounding",
    role="passive",
    macs=product_macs,
    ranks={"a": (1, None), "b": (1, None)},
)
def QLinearMatMul(
    a: Q1, a_scale: TS, a_zero_point: Q1, b: Q2, b_scale: TS, b_zero_point: Q2, y_scale: TS, y_zero_point: Q3
) -> Q3:
    """Matrix product of quantized tensors with a quantized result, rounded half to even and saturated.

    Shapes: a [*s, M, K], b [*t, K, N] → [*broadcast(s, t), M, N]; scales and zero points: scalars, one per row of `a`
    and of the result, one per column of `b`, or of the rank of their tensor.

    Raises:
        ShapeError: the inner dims differ, or a scale or zero point matches neither rows nor columns.

    Source: ONNX QLinearMatMul-21.
    """
    left = _shifted(a, per_row(a_zero_point, a))
    right = _shifted(b, b_zero_point)
    wide = np.float32
    factor = per_row(a_scale.astype(wide), a) * b_scale.astype(wide) / per_row(y_scale.astype(wide), a)
    scaled = np.matmul(left, right).astype(wide) * factor
    shift = per_row(y_zero_point, a).astype(wide)
    if y_zero_point.dtype.kind not in "iu":
        return (scaled + shift).astype(y_zero_point.dtype)
    limits = np.iinfo(y_zero_point.dtype)
    return np.clip(np.rint(scaled) + shift, limits.min, limits.max).astype(y_zero_point.dtype)

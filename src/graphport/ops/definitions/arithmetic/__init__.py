"""Arithmetic, element by element."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.arithmetic.bits import BitCast
from graphport.ops.definitions.arithmetic.cast import Cast, CastLike
from graphport.ops.definitions.arithmetic.compound import Expression
from graphport.ops.shapes import broadcast, broadcasting, elementwise
from graphport.ops.special_functions import erf, widened
from graphport.ops.symbolic import maximum, minimum, quotient, remainder
from graphport.ops.types import FLOATS, INDICES, INTEGERS, NUMBERS_4, SIGNED, UNSIGNED, Tensor, Types

__all__ = ["BitCast", "Cast", "CastLike", "Expression"]

T = Annotated[Tensor, Types("T", NUMBERS_4)]
F = Annotated[Tensor, Types("T", FLOATS)]
Signed = Annotated[Tensor, Types("T", FLOATS | SIGNED)]
Integer = Annotated[Tensor, Types("T", INTEGERS)]
Unsigned = Annotated[Tensor, Types("T", UNSIGNED)]
Base = Annotated[Tensor, Types("T", FLOATS | INDICES)]
Exponent = Annotated[Tensor, Types("T1", NUMBERS_4)]


@op(
    neutral=0,
    inverse="Sub",
    shape=broadcasting(),
    since=7,
    outputs=("c",),
    openvino="opset1.Add(a, b)",
    expression="add(a, b)",
    symbolic=True,
    role="pointwise",
)
def Add(a: T, b: T) -> T:
    """`a + b`; integers wrap.  Shapes: a, b broadcast from the last dim.  Source: ONNX Add-14."""
    return a + b


@op(
    neutral=0,
    inverse="Add",
    shape=broadcasting(),
    since=7,
    outputs=("c",),
    openvino="opset1.Subtract(a, b)",
    expression="sub(a, b)",
    symbolic=True,
    role="pointwise",
)
def Sub(a: T, b: T) -> T:
    """`a - b`; integers wrap.  Shapes: a, b broadcast from the last dim.  Source: ONNX Sub-14."""
    return a - b


@op(
    neutral=1,
    inverse="Div",
    shape=broadcasting(),
    since=7,
    outputs=("c",),
    openvino="opset1.Multiply(a, b)",
    expression="mul(a, b)",
    symbolic=True,
    role="pointwise",
)
def Mul(a: T, b: T) -> T:
    """`a * b`; integers wrap.  Shapes: a, b broadcast from the last dim.  Source: ONNX Mul-14."""
    return a * b


@op(
    neutral=1,
    inverse="Mul",
    shape=broadcasting(),
    since=7,
    outputs=("c",),
    expression="div(a, b)",
    symbolic=True,
    role="pointwise",
)
def Div(a: T, b: T) -> T:
    """`a / b`; of integers the quotient truncated toward zero.  Shapes: a, b broadcast from the last dim.

    Source: ONNX Div-14.
    """
    return quotient(a, b) if a.dtype.kind in "iuO" else a / b


@op(
    shape=elementwise("x"),
    since=6,
    nnef="abs(x)",
    exactness="exact",
    expression="abs(x)",
    symbolic=True,
    role="pointwise",
)
def Abs(x: T) -> T:
    """`|x|`; the minimum of a signed type overflows to itself.  Shapes: x [*s] → [*s].  Source: ONNX Abs-13."""
    return np.abs(x)


@op(
    shape=elementwise("x"),
    since=6,
    nnef="neg(x)",
    openvino="opset1.Negative(x)",
    exactness="exact",
    expression="neg(x)",
    symbolic=True,
    role="pointwise",
)
def Neg(x: Signed) -> Signed:
    """`-x`; the minimum of a signed type overflows to itself.  Shapes: x [*s] → [*s].  Source: ONNX Neg-13."""
    return -x


@op(shape=elementwise("x"), since=6, nnef="rcp(x)", expression="reciprocal(x)", role="pointwise")
def Reciprocal(x: F) -> F:
    """`1 / x`.  Shapes: x [*s] → [*s].  Source: ONNX Reciprocal-13."""
    return (1 / widened(x)).astype(x.dtype)


@op(shape=elementwise("x"), since=6, nnef="sqrt(x)", openvino="opset1.Sqrt(x)", expression="sqrt(x)", role="pointwise")
def Sqrt(x: F) -> F:
    """Square root; NaN for negative elements.  Shapes: x [*s] → [*s].  Source: ONNX Sqrt-13."""
    return np.sqrt(widened(x)).astype(x.dtype)


@op(
    shape=elementwise("input"),
    since=6,
    outputs=("output",),
    nnef="exp(input)",
    openvino="opset1.Exp(input)",
    expression="exp(input)",
    role="pointwise",
)
def Exp(input: F) -> F:
    """Exponential.  Shapes: input [*s] → [*s].  Source: ONNX Exp-13."""
    return np.exp(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=6,
    outputs=("output",),
    nnef="log(input)",
    openvino="opset1.Log(input)",
    expression="log(input)",
    role="pointwise",
)
def Log(input: F) -> F:
    """Natural logarithm; NaN for negative elements.  Shapes: input [*s] → [*s].  Source: ONNX Log-13."""
    return np.log(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    openvino="opset1.Erf(input)",
    expression="erf(input)",
    role="pointwise",
)
def Erf(input: F) -> F:
    """Error function.  Shapes: input [*s] → [*s].  Source: ONNX Erf-13."""
    return erf(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=7,
    outputs=("output",),
    nnef="sin(input)",
    openvino="opset1.Sin(input)",
    expression="sin(input)",
    role="pointwise",
)
def Sin(input: F) -> F:
    """Sine of radians.  Shapes: input [*s] → [*s].  Source: ONNX Sin-22."""
    return np.sin(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=7,
    outputs=("output",),
    nnef="cos(input)",
    openvino="opset1.Cos(input)",
    expression="cos(input)",
    role="pointwise",
)
def Cos(input: F) -> F:
    """Cosine of radians.  Shapes: input [*s] → [*s].  Source: ONNX Cos-22."""
    return np.cos(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=7,
    outputs=("output",),
    nnef="tan(input)",
    openvino="opset1.Tan(input)",
    expression="tan(input)",
    role="pointwise",
)
def Tan(input: F) -> F:
    """Tangent of radians.  Shapes: input [*s] → [*s].  Source: ONNX Tan-22."""
    return np.tan(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=7,
    outputs=("output",),
    nnef="asin(input)",
    openvino="opset1.Asin(input)",
    expression="asin(input)",
    role="pointwise",
)
def Asin(input: F) -> F:
    """Inverse sine, in radians.  Shapes: input [*s] → [*s].  Source: ONNX Asin-22."""
    return np.arcsin(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=7,
    outputs=("output",),
    nnef="acos(input)",
    openvino="opset1.Acos(input)",
    expression="acos(input)",
    role="pointwise",
)
def Acos(input: F) -> F:
    """Inverse cosine, in radians.  Shapes: input [*s] → [*s].  Source: ONNX Acos-22."""
    return np.arccos(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=7,
    outputs=("output",),
    nnef="atan(input)",
    openvino="opset1.Atan(input)",
    expression="atan(input)",
    role="pointwise",
)
def Atan(input: F) -> F:
    """Inverse tangent, in radians.  Shapes: input [*s] → [*s].  Source: ONNX Atan-22."""
    return np.arctan(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    nnef="sinh(input)",
    openvino="opset1.Sinh(input)",
    expression="sinh(input)",
    role="pointwise",
)
def Sinh(input: F) -> F:
    """Hyperbolic sine.  Shapes: input [*s] → [*s].  Source: ONNX Sinh-22."""
    return np.sinh(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    nnef="cosh(input)",
    openvino="opset1.Cosh(input)",
    expression="cosh(input)",
    role="pointwise",
)
def Cosh(input: F) -> F:
    """Hyperbolic cosine.  Shapes: input [*s] → [*s].  Source: ONNX Cosh-22."""
    return np.cosh(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    nnef="asinh(input)",
    openvino="opset4.Asinh(input)",
    expression="asinh(input)",
    role="pointwise",
)
def Asinh(input: F) -> F:
    """Inverse of the hyperbolic sine.  Shapes: input [*s] → [*s].  Source: ONNX Asinh-22."""
    return np.arcsinh(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    nnef="acosh(input)",
    openvino="opset4.Acosh(input)",
    expression="acosh(input)",
    role="pointwise",
)
def Acosh(input: F) -> F:
    """Inverse of the hyperbolic cosine.  Shapes: input [*s] → [*s].  Source: ONNX Acosh-22."""
    return np.arccosh(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    nnef="atanh(input)",
    openvino="opset4.Atanh(input)",
    expression="atanh(input)",
    role="pointwise",
)
def Atanh(input: F) -> F:
    """Inverse of the hyperbolic tangent.  Shapes: input [*s] → [*s].  Source: ONNX Atanh-22."""
    return np.arctanh(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=9,
    outputs=("output",),
    nnef="sign(input)",
    openvino="opset1.Sign(input)",
    exactness="exact",
    role="pointwise",
)
def Sign(input: T) -> T:
    """Sign: -1, 0 or 1; NaN propagates.  Shapes: input [*s] → [*s].  Source: ONNX Sign-13."""
    return np.sign(input)


@op(shape=elementwise("x"), since=6, nnef="floor(x)", expression="floor(x)", exactness="exact", role="pointwise")
def Floor(x: F) -> F:
    """Largest integer not above `x`.  Shapes: x [*s] → [*s].  Source: ONNX Floor-13."""
    return np.floor(x)


@op(shape=elementwise("x"), since=6, nnef="ceil(x)", expression="ceil(x)", exactness="exact", role="pointwise")
def Ceil(x: F) -> F:
    """Smallest integer not below `x`.  Shapes: x [*s] → [*s].  Source: ONNX Ceil-13."""
    return np.ceil(x)


@op(shape=elementwise("x"), since=11, expression="round(x)", exactness="exact", role="pointwise")
def Round(x: F) -> F:
    """Round to the nearest integer, ties to even.  Shapes: x [*s] → [*s].  Source: ONNX Round-22."""
    return np.rint(x)


@op(neutral=1, shape=broadcasting(), since=7, outputs=("z",), expression="pow(x, y)", role="pointwise")
def Pow(x: Base, y: Exponent) -> Base:
    """`x` to the power `y`, in the type of `x`.  Shapes: x, y broadcast from the last dim.  Source: ONNX Pow-15."""
    if x.dtype.kind in "iu" and y.dtype.kind in "iu":
        return _integer_power(x, y)
    return np.power(x.astype(np.float64) if x.dtype.kind in "iu" else widened(x), widened(y)).astype(x.dtype)


def _integer_power(x: Tensor, y: Tensor) -> Tensor:
    """Integer power, modulo 2**64; a negative exponent gives 0 unless the base is 1 or -1."""
    wide: Any = np.uint64 if x.dtype == np.uint64 else np.int64
    powers = np.power(x.astype(wide), np.maximum(y, 0).astype(wide))
    inverted = np.where(np.abs(x) == 1, np.where(y % 2 == 0, 1, x), 0)
    return np.where(y < 0, inverted.astype(wide), powers).astype(x.dtype)


def _mod_shape(a: TensorFact, b: TensorFact, *, fmod: int = 0) -> TensorFact:
    if not fmod and a.dtype is not None and a.dtype.is_floating:
        message = f"fmod is 0 for operands of {a.dtype}"
        raise ShapeError(message, "set fmod = 1: floating remainders have the sign of the dividend")
    return a.with_shape(broadcast(a.dims, b.dims))


@op(shape=_mod_shape, since=10, outputs=("c",), symbolic=True, exactness="exact", role="pointwise")
def Mod(a: T, b: T, *, fmod: int = 0) -> T:
    """Remainder of `a / b` with the sign of `b`; with `fmod`, the sign of `a`.

    Shapes: a, b broadcast from the last dim.

    Raises:
        ShapeError: float operands without `fmod`.

    Source: ONNX Mod-13.
    """
    return remainder(a, b, truncated=bool(fmod))


def _shift_shape(x: TensorFact, y: TensorFact, *, direction: str) -> TensorFact:
    if direction not in ("LEFT", "RIGHT"):
        message = f"unknown direction {direction!r}"
        raise ShapeError(message, "expected LEFT or RIGHT")
    return x.with_shape(broadcast(x.dims, y.dims))


@op(shape=_shift_shape, since=11, outputs=("z",), exactness="exact")
def BitShift(x: Unsigned, y: Unsigned, *, direction: str) -> Unsigned:
    """`x` shifted by `y` bits to the `LEFT` or `RIGHT`.  Shapes: x, y broadcast from the last dim.

    Raises:
        ShapeError: another direction.

    Source: ONNX BitShift-11.
    """
    shift: Any = np.left_shift if direction == "LEFT" else np.right_shift
    # In NumPy, as in C, a shift by the full bit width or more is undefined; ONNX defines its result as 0.
    return np.where(y < x.dtype.itemsize * 8, shift(x, y), x.dtype.type(0))


@op(shape=broadcasting(), since=18, outputs=("c",), exactness="exact")
def BitwiseAnd(a: Integer, b: Integer) -> Integer:
    """Bitwise AND.  Shapes: a, b broadcast from the last dim.  Source: ONNX BitwiseAnd-18."""
    return a & b


@op(shape=broadcasting(), since=18, outputs=("c",), exactness="exact")
def BitwiseOr(a: Integer, b: Integer) -> Integer:
    """Bitwise OR.  Shapes: a, b broadcast from the last dim.  Source: ONNX BitwiseOr-18."""
    return a | b


@op(shape=broadcasting(), since=18, outputs=("c",), exactness="exact")
def BitwiseXor(a: Integer, b: Integer) -> Integer:
    """Bitwise exclusive OR.  Shapes: a, b broadcast from the last dim.  Source: ONNX BitwiseXor-18."""
    return a ^ b


@op(shape=elementwise("x"), since=18, exactness="exact")
def BitwiseNot(x: Integer) -> Integer:
    """Bitwise complement.  Shapes: x [*s] → [*s].  Source: ONNX BitwiseNot-18."""
    return ~x


@op(shape=broadcasting(), since=8, outputs=("sum",), role="pointwise")
def Sum(*data_0: F) -> F:
    """Sum of all operands.  Shapes: they broadcast from the last dim.  Source: ONNX Sum-13."""
    total = widened(data_0[0])
    for operand in data_0[1:]:
        total = total + operand
    return np.asarray(total).astype(data_0[0].dtype)


@op(shape=broadcasting(), since=8, outputs=("mean",), role="pointwise")
def Mean(*data_0: F) -> F:
    """Mean of all operands.  Shapes: they broadcast from the last dim.  Source: ONNX Mean-13."""
    total = widened(data_0[0])
    for operand in data_0[1:]:
        total = total + operand
    return np.asarray(total / len(data_0)).astype(data_0[0].dtype)


@op(shape=broadcasting(), since=8, outputs=("max",), symbolic=True, exactness="exact", role="pointwise")
def Max(*data_0: T) -> T:
    """Element-wise maximum of all operands; NaN propagates.  Shapes: they broadcast from the last dim.

    Source: ONNX Max-13.
    """
    largest = data_0[0]
    for operand in data_0[1:]:
        largest = maximum(largest, operand)
    return largest


@op(shape=broadcasting(), since=8, outputs=("min",), symbolic=True, exactness="exact", role="pointwise")
def Min(*data_0: T) -> T:
    """Element-wise minimum of all operands; NaN propagates.  Shapes: they broadcast from the last dim.

    Source: ONNX Min-13.
    """
    least = data_0[0]
    for operand in data_0[1:]:
        least = minimum(least, operand)
    return least

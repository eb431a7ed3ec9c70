"""Activation functions: element-wise functions, and functions along one axis."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.activation.dropout import Dropout
from graphport.ops.shapes import axis_index, broadcast, decided_equal_shapes, elementwise
from graphport.ops.special_functions import erf, logistic, softmax_rounded, widened
from graphport.ops.symbolic import maximum, minimum
from graphport.ops.types import FLOATS, IEEE, INTEGERS, NUMBERS_4, SCALAR, SIGNED, Tensor, Types

__all__ = ["Dropout"]

T = Annotated[Tensor, Types("T", FLOATS)]
Single = Annotated[Tensor, Types("T", frozenset({DType.FLOAT32}))]
Signed = Annotated[Tensor, Types("T", FLOATS | SIGNED)]
Number = Annotated[Tensor, Types("T", NUMBERS_4)]
Classic = Annotated[Tensor, Types("T", IEEE | INTEGERS)]
Sloped = Annotated[Tensor, Types("T", FLOATS | {DType.INT32, DType.INT64, DType.UINT32, DType.UINT64})]


@op(
    homogeneous=True,
    shape=elementwise("x"),
    since=6,
    nnef="relu(x)",
    pnnx=("F.relu(x)", "nn.ReLU(x)"),
    openvino="opset1.ReLU(x)",
    exactness="exact",
    role="pointwise",
)
def Relu(x: Signed) -> Signed:
    """Rectified linear unit: max(x, 0); NaN propagates.  Shapes: x [*s] → [*s].  Source: ONNX Relu-14."""
    return np.maximum(x, x.dtype.type(0))


@op(
    shape=elementwise("x"),
    since=6,
    nnef="sigmoid(x)",
    pnnx=("F.sigmoid(x)", "nn.Sigmoid(x)"),
    openvino="opset1.Sigmoid(x)",
    role="pointwise",
)
def Sigmoid(x: T) -> T:
    """Logistic function `1 / (1 + exp(-x))`, without overflow.  Shapes: x [*s] → [*s].  Source: ONNX Sigmoid-13."""
    return logistic(widened(x)).astype(x.dtype)


def _softmax_shape(input: TensorFact, *, axis: int = -1) -> TensorFact:
    if input.shape is not None:
        axis_index(axis, max(input.rank, 1))
    return TensorFact(input.dtype, input.shape)


@op(
    turns="axis",
    shape=_softmax_shape,
    since=13,
    outputs=("output",),
    openvino=("opset8.SoftMax(input, axis=axis)", "opset1.SoftMax(input, axis=axis)"),
    exactness="accumulation",
    role="pointwise",
)
def Softmax(input: T, *, axis: int = -1) -> T:
    """Exponentials along `axis`, scaled to sum 1.  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: `axis` is outside of the tensor.

    Source: ONNX Softmax-13.
    """
    if input.ndim == 0 or input.size == 0:
        return np.ones_like(input)
    return np.moveaxis(softmax_rounded(np.moveaxis(input, axis, -1)), -1, axis)


@op(
    turns="axis",
    shape=_softmax_shape,
    since=13,
    outputs=("output",),
    openvino="opset5.LogSoftmax(input, axis=axis)",
    exactness="accumulation",
    role="pointwise",
)
def LogSoftmax(input: T, *, axis: int = -1) -> T:
    """Logarithm of `Softmax` along `axis`.  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: `axis` is outside of the tensor.

    Source: ONNX LogSoftmax-13.
    """
    if input.ndim == 0 or input.size == 0:
        return np.zeros_like(input)
    x = widened(input)
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))).astype(input.dtype)


@op(shape=_softmax_shape, since=13, outputs=("output",), exactness="exact")
def Hardmax(input: T, *, axis: int = -1) -> T:
    """One-hot encoding of the argmax along `axis` (the first of equal maxima).  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: `axis` is outside of the tensor.

    Source: ONNX Hardmax-13.
    """
    if input.ndim == 0 or input.size == 0:
        return np.ones_like(input)
    indices = np.expand_dims(np.argmax(input, axis=axis), axis)
    result = np.zeros_like(input)
    np.put_along_axis(result, indices, input.dtype.type(1), axis)
    return result


@op(
    homogeneous=True,
    shape=elementwise("x"),
    since=6,
    nnef="leaky_relu(x, alpha=alpha)",
    pnnx=("F.leaky_relu(x, negative_slope=alpha)", "nn.LeakyReLU(x, negative_slope=alpha)"),
    role="pointwise",
)
def LeakyRelu(x: T, *, alpha: float = 0.01) -> T:
    """`x` where not negative, `alpha * x` elsewhere.  Shapes: x [*s] → [*s].  Source: ONNX LeakyRelu-16."""
    return np.where(x < 0, x * x.dtype.type(alpha), x).astype(x.dtype)


def _prelu_shape(x: TensorFact, slope: TensorFact) -> TensorFact:
    decided_equal_shapes(broadcast(x.dims, slope.dims), x.dims, "slope must broadcast to x")
    return x.with_shape(x.dims)


@op(homogeneous=True, shape=_prelu_shape, since=9, role="pointwise", exactness="rounding")
def PRelu(x: Sloped, slope: Sloped) -> Sloped:
    """`x` where not negative, `slope * x` elsewhere.  Shapes: x [*s], slope broadcasts to it from the last dim → [*s].

    Raises:
        ShapeError: `slope` is larger than `x`.

    Source: ONNX PRelu-16.
    """
    return np.where(x < 0, x * slope, x).astype(x.dtype)


@op(
    shape=elementwise("x"), since=6, nnef="elu(x, alpha=alpha)", openvino="opset1.Elu(x, alpha=alpha)", role="pointwise"
)
def Elu(x: T, *, alpha: float = 1.0) -> T:
    """`x` where positive, `alpha * (exp(x) - 1)` elsewhere.  Shapes: x [*s] → [*s].  Source: ONNX Elu-22."""
    wide = widened(x)
    return np.where(wide > 0, wide, wide.dtype.type(alpha) * np.expm1(np.minimum(wide, 0))).astype(x.dtype)


@op(shape=elementwise("x"), since=6, decomposes="Mul(Elu(x, alpha=alpha), gamma)", role="pointwise")
def Selu(x: T, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> T:
    """`gamma * x` where positive, `gamma * alpha * (exp(x) - 1)` elsewhere.  Shapes: x [*s] → [*s].

    Source: ONNX Selu-22.
    """
    wide = widened(x)
    below = wide.dtype.type(alpha) * np.expm1(np.minimum(wide, 0))
    return (wide.dtype.type(gamma) * np.where(wide > 0, wide, below)).astype(x.dtype)


# Below 0 `alpha` would turn the sides around.
@op(
    shape=elementwise("x"),
    since=12,
    decomposes="alpha > 0: Mul(Elu(Div(x, alpha), alpha=1.0), alpha)",
    role="pointwise",
)
def Celu(x: Single, *, alpha: float = 1.0) -> Single:
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.  Shapes: x [*s] → [*s].  Source: ONNX Celu-12."""
    a = x.dtype.type(alpha)
    return np.maximum(x, 0) + np.minimum(a * np.expm1(x / a), 0)


@op(
    shape=elementwise("x"),
    since=10,
    decomposes="Where(Greater(x, alpha), x, 0)",
    role="pointwise",
    exactness="exact",
)
def ThresholdedRelu(x: T, *, alpha: float = 1.0) -> T:
    """`x` where greater than `alpha`, 0 elsewhere.  Shapes: x [*s] → [*s].  Source: ONNX ThresholdedRelu-22."""
    return np.where(x > x.dtype.type(alpha), x, x.dtype.type(0))


@op(shape=elementwise("x"), since=6, role="pointwise")
def HardSigmoid(x: T, *, alpha: float = 0.2, beta: float = 0.5) -> T:
    """`alpha * x + beta` clipped to [0, 1].  Shapes: x [*s] → [*s].  Source: ONNX HardSigmoid-22."""
    wide = widened(x)
    return np.clip(wide * wide.dtype.type(alpha) + wide.dtype.type(beta), 0, 1).astype(x.dtype)


@op(
    shape=elementwise("x"),
    since=14,
    pnnx=("F.hardswish(x)", "nn.Hardswish(x)"),
    openvino="opset4.HSwish(x)",
    decomposes="Mul(x, HardSigmoid(x, alpha=1 / 6, beta=0.5))",
    role="pointwise",
)
def HardSwish(x: T) -> T:
    """`x * clip(x / 6 + 1 / 2, 0, 1)`.  Shapes: x [*s] → [*s].  Source: ONNX HardSwish-22."""
    wide = widened(x)
    return (wide * np.clip(wide / 6 + wide.dtype.type(0.5), 0, 1)).astype(x.dtype)


@op(
    shape=elementwise("x"),
    since=18,
    pnnx=("F.mish(x)", "nn.Mish(x)"),
    openvino="opset4.Mish(x)",
    decomposes="Mul(x, Tanh(Softplus(x)))",
    role="pointwise",
)
def Mish(x: T) -> T:
    """`x * tanh(softplus(x))`.  Shapes: x [*s] → [*s].  Source: ONNX Mish-22."""
    wide = widened(x)
    return (wide * np.tanh(np.logaddexp(wide, 0))).astype(x.dtype)


def _gelu_shape(x: TensorFact, *, approximate: str = "none") -> TensorFact:
    if approximate not in ("none", "tanh"):
        message = f"approximate is {approximate!r}"
        raise ShapeError(message, "expected none or tanh")
    return TensorFact(x.dtype, x.shape)


@op(shape=_gelu_shape, since=20, role="pointwise")
def Gelu(x: T, *, approximate: str = "none") -> T:
    """`x` times the standard normal distribution function of `x`; `tanh` selects its tanh approximation.

    Shapes: x [*s] → [*s].

    Raises:
        ShapeError: `approximate` is neither `none` nor `tanh`.

    Source: ONNX Gelu-20.
    """
    wide = widened(x)
    half = wide.dtype.type(0.5)
    if approximate == "tanh":
        inner = wide.dtype.type(np.sqrt(2 / np.pi)) * (wide + wide.dtype.type(0.044715) * wide**3)
        return (half * wide * (1 + np.tanh(inner))).astype(x.dtype)
    return (half * wide * (1 + erf(wide * wide.dtype.type(np.sqrt(0.5))))).astype(x.dtype)


@op(shape=elementwise("x"), since=1, nnef="softplus(x)", openvino="opset4.SoftPlus(x)", role="pointwise")
def Softplus(x: T) -> T:
    """`log(1 + exp(x))`, without overflow.  Shapes: x [*s] → [*s].  Source: ONNX Softplus-22."""
    wide = widened(x)
    return np.logaddexp(wide, wide.dtype.type(0)).astype(x.dtype)


@op(
    shape=elementwise("input"),
    since=1,
    outputs=("output",),
    openvino="opset9.SoftSign(input)",
    decomposes="Div(input, Add(Abs(input), 1))",
    role="pointwise",
)
def Softsign(input: T) -> T:
    """`x / (1 + |x|)`.  Shapes: input [*s] → [*s].  Source: ONNX Softsign-22."""
    wide = widened(input)
    return (wide / (1 + np.abs(wide))).astype(input.dtype)


@op(
    shape=elementwise("input"),
    since=6,
    outputs=("output",),
    nnef="tanh(input)",
    pnnx=("F.tanh(input)", "nn.Tanh(input)"),
    openvino="opset1.Tanh(input)",
    expression="tanh(input)",
    role="pointwise",
)
def Tanh(input: T) -> T:
    """Hyperbolic tangent.  Shapes: input [*s] → [*s].  Source: ONNX Tanh-13."""
    return np.tanh(widened(input)).astype(input.dtype)


@op(
    shape=elementwise("x"),
    since=24,
    pnnx=("F.silu(x)", "nn.SiLU(x)"),
    decomposes="alpha == 1: Mul(x, Sigmoid(x)) -> Mul(x, Sigmoid(Mul(x, alpha)))",
    role="pointwise",
)
def Swish(x: T, *, alpha: float = 1.0) -> T:
    """`x * sigmoid(alpha * x)`.  Shapes: x [*s] → [*s].  Source: ONNX Swish-24."""
    wide = widened(x)
    return (wide * logistic(wide * wide.dtype.type(alpha))).astype(x.dtype)


@op(shape=elementwise("input"), since=9, outputs=("output",), role="pointwise")
def Shrink(input: Classic, *, bias: float = 0.0, lambd: float = 0.5) -> Classic:
    """`x + bias` below `-lambd`, `x - bias` above `lambd`, 0 between.  Shapes: input [*s] → [*s].

    Source: ONNX Shrink-9.
    """
    wide = input.astype(np.float64)
    # Attributes are float32: an element of 0.4 is not above a limit of 0.4.
    limit, offset = float(np.float32(lambd)), float(np.float32(bias))
    return np.where(wide < -limit, wide + offset, np.where(wide > limit, wide - offset, 0)).astype(input.dtype)


def _clip_shape(input: TensorFact, min: TensorFact | None = None, max: TensorFact | None = None) -> TensorFact:
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and bound.shape is not None and len(bound.shape) > 1:
            message = f"{name} has rank {len(bound.shape)}"
            raise ShapeError(message, "expected a scalar")
    return TensorFact(input.dtype, input.shape)


@op(
    shape=_clip_shape,
    since=11,
    outputs=("output",),
    symbolic=True,
    exactness="exact",
    role="pointwise",
    ranks={"min": SCALAR, "max": SCALAR},
)
def Clip(input: Number, min: Number | None = None, max: Number | None = None) -> Number:
    """Clamp `input` to [`min`, `max`]; if `min` > `max` the result is `max`.  NaN propagates.

    Shapes: input [*s], min [], max [] → [*s].

    Source: ONNX Clip-13.
    """
    result = input if min is None else maximum(input, min.reshape(()))
    return result if max is None else minimum(result, max.reshape(()))

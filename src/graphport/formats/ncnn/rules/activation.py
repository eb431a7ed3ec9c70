"""Activations of ncnn."""

from __future__ import annotations

from math import isinf

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import blob_axis, blob_dims, constant_float32, emitted, lengths_of
from graphport.formats.ncnn.rules.functions import binary_with_constant, both
from graphport.formats.ncnn.rules.indices import along
from graphport.formats.ncnn.rules.rule_table import OPERATORS, RULES
from graphport.formats.pytorch.rules.binding import length
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import (
    Clip,
    Hardmax,
    HardSigmoid,
    LeakyRelu,
    Mish,
    PRelu,
    Relu,
    Sigmoid,
    Softmax,
)
from graphport.ops.definitions.arithmetic import Cast, Max, Min, Mul
from graphport.ops.definitions.comparison import Equal
from graphport.ops.definitions.reduction import ArgMax
from graphport.ops.definitions.reshape import Split
from graphport.ops.lowering.operands import sizes, vector
from graphport.ops.pattern import constant_numbers
from graphport.ops.shapes import axis_index


def activated(at: Layer, y: Value) -> Value:
    """Apply the fused activation of a layer: its type is parameter 9, its parameters are parameter 10."""
    b, numbers = at.b, at.array(10)
    match at.integer(9):
        case 0:
            return y
        case 1:
            return b(Relu, y)
        case 2:
            return b(LeakyRelu, y, alpha=float(numbers[0]))
        case 3:
            return b(Clip, y, b.like(y, numbers[0]), b.like(y, numbers[1]))
        case 4:
            return b(Sigmoid, y)
        case 5:
            return b(Mish, y)
        case 6:
            return b(Mul, y, b(HardSigmoid, y, alpha=float(numbers[0]), beta=float(numbers[1])))
        case other:
            message = f"unsupported activation_type {other}"
            raise UnsupportedError(message)


RULES.lower("""
ReLU(x, *, p0=0.0)
    -> p0 == 0: Relu(x)
    -> LeakyRelu(x, alpha=p0)
ELU(x, *, p0=0.1) <-> Elu(x, alpha=p0)
CELU(x, *, p0=1.0) <-> Celu(x, alpha=p0)
SELU(x, *, p0=1.67326324, p1=1.050700987) <-> Selu(x, alpha=p0, gamma=p1)
GELU(x, *, p0=0)
    -> p0: Gelu(x, approximate="tanh")
    -> Gelu(x)
HardSigmoid(x, *, p0=0.2, p1=0.5) <-> HardSigmoid(x, alpha=p0, beta=p1)
HardSwish(x, *, p0=0.2, p1=0.5) -> Mul(x, HardSigmoid(x, alpha=p0, beta=p1))
Mish(x) <-> Mish(x)
Sigmoid(x) <-> Sigmoid(x)
Shrink(x, *, p0=0.0, p1=0.5) <-> Shrink(x, bias=p0, lambd=p1)
Softplus, BNLL(x) <-> Softplus(x)
Softmax(x, *, p0=0) -> Softmax(x, axis=axis(p0, x))
Swish(x) -> Swish(x)
TanH(x) <-> Tanh(x)
# 1 above the threshold, 0 elsewhere.
Threshold(x, *, p0=0.0) -> cast(Greater(x, p0), dtype(x))
Dropout(x, *, p0=1.0)
    -> p0 == 1: x
    -> Mul(x, p0)
""")


@layer("PReLU")
def prelu(at: Layer) -> Value:
    count = at.integer(0)
    shape = [1] if count == 1 else [count, *[1] * (at.rank - 1)]
    return at.b(PRelu, at.x, at.weight(0, shape))


_LARGEST = float(np.finfo(np.float32).max)


@layer("Clip")
def clip(at: Layer) -> Value:
    return at.b(Clip, at.x, at.b.like(at.x, at.float_value(0, -_LARGEST)), at.b.like(at.x, at.float_value(1, _LARGEST)))


@layer("GLU")
def glu(at: Layer) -> Value:
    axis = at.axis(at.integer(0))
    half = length(at.b.dims(at.x), axis) // 2
    left, right = at.b.results(Split, 2, at.x, vector(at.b, [half, half]), axis=axis)
    return at.b(Mul, left, at.b(Sigmoid, right))


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


RULES.export_rules("""
Relu -> ReLU(x)
LeakyRelu -> ReLU(x, p0=alpha)
Gelu
    -> approximate == "tanh": GELU(x, p0=1)
    -> GELU(x)
HardSwish -> HardSwish(x, p0=1 / 6, p1=0.5)
# Operations: 0 is a sum, 2 a product, 3 a quotient; p1 says that the other operand is the number p2.
Swish
    -> alpha == 1: Swish(x)
    -> BinaryOp(x, Sigmoid(BinaryOp(x, p0=2, p1=1, p2=alpha)), p0=2)
Softsign -> BinaryOp(input, BinaryOp(AbsVal(input), p0=0, p1=1, p2=1.0), p0=3)
ThresholdedRelu -> BinaryOp(x, Threshold(x, p0=alpha), p0=2)
# Without training it does nothing; there is no mask.
Dropout(ratio: ignored, seed: ignored) -> training_mode is None or not const(training_mode): Noop(data)
""")


@Clip.export_rule("ncnn")
def export_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Value | None:
    """Export Clip: ncnn's bounds are finite constants; with an infinite bound use Max or Min."""
    bounds = [None if bound is None else constant_numbers(bound) for bound in (min, max)]
    if any(bound is not None and found is None for bound, found in zip((min, max), bounds, strict=True)):
        return None
    low, high = (None if found is None else float(found[0]) for found in bounds)
    ends = [(Max, -_LARGEST if low is None else low), (Min, _LARGEST if high is None else high)]
    finite = [(op_def, end) for op_def, end in ends if not isinf(end)]
    if len(finite) == len(ends):
        return emitted(b, "Clip", input, p0=low, p1=high)
    return b(finite[0][0], input, b.like(input, finite[0][1])) if finite else emitted(b, "Noop", input)


@PRelu.export_rule("ncnn")
def export_prelu(b: Builder, x: Value, slope: Value) -> Value | None:
    """Export PRelu with a single slope or per-channel slopes."""
    weights = constant_float32(slope)
    lengths = lengths_of(b, x)
    channels = [1] * (len(lengths) + 1 - len(weights.shape)) + list(weights.shape)
    if weights.count != 1 and channels != [1, lengths[0], *[1] * (len(lengths) - 1)]:
        return None
    return emitted(b, "PReLU", x, p0=weights.count, w0=weights)


@Softmax.export_rule("ncnn")
def export_softmax(b: Builder, input: Value, *, axis: int = -1) -> Value:
    blob_dims(b, input)
    if axis % max(len(b.dims(input)), 1) == batch_of(input):
        # A softmax of one element is 1 or NaN.
        return binary_with_constant(b, "add", both(b, "sub", input, input), 1.0)
    return emitted(b, "Softmax", input, p0=blob_axis(axis, len(b.dims(input)), batch_of(input)), p1=1)


OPERATORS.export_rules("""
# Not as the logarithm of a softmax, whose smallest elements float32 rounds to 0.
LogSoftmax -> Sub(low := Sub(input, ReduceMax(input, [axis])), Log(ReduceSum(Exp(low), [axis])))
""")


@Hardmax.export_rule("ncnn")
def export_hardmax(b: Builder, x: Value, *, axis: int = -1) -> Value:
    dims = b.dims(x)
    at = axis_index(axis, len(dims))
    (n,) = sizes(dims[at : at + 1], "the searched axis")
    place = b(ArgMax, x, axis=at)
    return b(Cast, b(Equal, place, along(b, np.arange(reserve(n)), at, len(dims), DType.INT64)), to=DType.FLOAT32)

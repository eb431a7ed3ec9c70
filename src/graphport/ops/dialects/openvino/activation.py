"""Activations in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.dialects.emitting import emit, emits
from graphport.ops.dialects.openvino.arithmetic_reals import REALS
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.openvino.emitting import emitted_reshape, renamed
from graphport.ops.dialects.operands import cast, dtype_of, integers, real, reshaped, scalar
from graphport.ops.pages.activation import (
    Clip,
    Dropout,
    Hardmax,
    HardSigmoid,
    PRelu,
    Relu,
    Sigmoid,
)
from graphport.ops.pages.arithmetic import Add, Max, Min, Mul
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


REALS.lower("""
opset1.Sigmoid, opset1.Tanh(x) -> rounded(_(real(x)), x)
opset1.Elu(x, *, alpha=1.0) -> rounded(Elu(real(x), alpha=alpha), x)
opset4.HSwish(x) -> rounded(HardSwish(real(x)), x)
""")


@lower("openvino", "opset1.ReLU")
def relu(b: Builder, x: Value) -> Value:
    """`x` where positive, 0 elsewhere; numbers without a sign stay."""
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    if dtype in (DType.INT16, DType.INT64):
        # ONNX Runtime has no such kernel.
        wide = cast(b, x, DType.INT64)
        return cast(b, b(Max, wide, b.constant(np.array(0))), dtype)
    return b(Identity, x) if dtype is not None and dtype.kind == "u" else b(Relu, x)


@lower("openvino", "opset1.PReLU")
def prelu(b: Builder, x: Value, slope: Value) -> Value:
    """A slope of rank 1 with a number for every channel goes along axis 1; any other broadcasts from the last axis."""
    dims, slopes = b.dims(x), b.dims(slope)
    channel = dims[1] if len(dims) > 1 else None
    if len(slopes) == 1 and slopes[0] != 1 and len(dims) > 2 and _is_per_channel(slopes[0], channel, dims[-1]):
        shape = (slopes[0] if isinstance(slopes[0], int) else -1, *[1] * (len(dims) - 2))
        slope = reshaped(b, slope, shape)
    return b(PRelu, x, slope)


def _is_per_channel(count: Dim, channel: Dim | None, last: Dim) -> bool:
    if count == channel:
        return True
    if isinstance(channel, int) and isinstance(count, int):
        return False
    if isinstance(last, int) and isinstance(count, int) and last != count:
        return True
    message = "whether a slope is one for each channel depends on an extent that is not known"
    raise UnsupportedError(message)


@PRelu.lift("openvino")
def lift_prelu(b: Builder, x: Value, slope: Value) -> Lifted:
    """A slope of rank 1 could be taken for channels: it gets all the axes of `x`."""
    rank, dims = len(b.dims(x)), b.dims(slope)
    if len(dims) == 1 and dims[0] != 1 and rank > 2:
        places = b.constant(np.arange(rank - 1, dtype=np.int64))
        slope = emit(b, "opset1.Unsqueeze", slope, places)
    return b.word("opset1.PReLU", x, slope)


ROWS.lower("""
# `scale * x` where positive, `scale * alpha * (exp(x) - 1)` elsewhere.
opset1.Selu(x, alpha: float, scale: float) -> Selu(x, alpha=alpha, gamma=scale)
# `min(max(x + 3, 0), 6) / 6`
opset5.HSigmoid(x) -> HardSigmoid(x, alpha=1 / 6, beta=0.5)
opset2.Gelu, opset7.Gelu(x, *, approximation_mode="erf")
    -> Gelu(x, approximate="tanh" if approximation_mode == "tanh" else "none")
""")
ROWS.lift("""
LeakyRelu -> opset1.PReLU(x, like(x, [alpha]))
Selu -> opset1.Selu(x, like(x, [alpha]), like(x, [gamma]))
HardSigmoid -> opset1.HardSigmoid(x, alpha, beta)
Gelu -> opset7.Gelu(x, approximation_mode="tanh" if approximate == "tanh" else "erf")
Swish
    -> alpha == 1: opset4.Swish(x)
    -> opset4.Swish(x, alpha)
# Integers are shrunk as reals, and cut off.
Shrink
    -> is_floating(input) or (bias % 1 == 0 and lambd % 1 == 0):
       opset1.Select(opset1.Less(input, -lambd), opset1.Add(input, bias),
                     opset1.Select(opset1.Greater(input, lambd), opset1.Subtract(input, bias), like(input, 0)))
""")


@lower("openvino", "opset1.Clamp")
def clamp(b: Builder, x: Value, *, min: float, max: float) -> Value:
    """Not below `min` and not above `max`; of integers, the integers between them."""
    dtype = dtype_of(x)
    if dtype.is_floating:
        return b(Clip, x, scalar(b, min, dtype), scalar(b, max, dtype))
    limits = np.iinfo(dtype.numpy)
    low = int(np.clip(np.ceil(min), limits.min, limits.max))
    high = limits.max if max >= limits.max else int(np.clip(np.floor(max), limits.min, limits.max))
    return b(Clip, x, b.constant(low, dtype), b.constant(high, dtype))


@Clip.lift("openvino")
def lift_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Lifted:
    match min, max:
        case None, None:
            return (renamed(b, input),)
        case None, high:
            return b.word("opset1.Minimum", input, _bound(b, high))
        case low, None:
            return b.word("opset1.Maximum", input, _bound(b, low))
        case low, high:
            pass
    bounds = real(low), real(high)
    if bounds[0] is not None and bounds[1] is not None and bounds[0] <= bounds[1] and dtype_of(input).is_floating:
        return b.word("opset1.Clamp", input, min=bounds[0], max=bounds[1])
    return b.word("opset1.Minimum", emit(b, "opset1.Maximum", input, _bound(b, low)), _bound(b, high))


def _bound(b: Builder, bound: Value) -> Value:
    """A bound of rank 1 would give a scalar an axis."""
    if not b.dims(bound):
        return bound
    return emitted_reshape(b, bound, ())


@lower("openvino", "opset1.HardSigmoid")
def hard_sigmoid(b: Builder, x: Value, alpha: Value, beta: Value) -> Value:
    """`alpha * x + beta` clipped to [0, 1]."""
    slope, offset = real(alpha), real(beta)
    if slope is not None and offset is not None:
        return b(HardSigmoid, x, alpha=slope, beta=offset)
    line = b(Add, b(Mul, x, alpha), beta)
    return b(Max, b(Min, line, b.like(x, 1)), b.like(x, 0))


@lower("openvino", "opset4.Swish")
def swish(b: Builder, x: Value, beta: Value | None = None) -> Value:
    """`x * sigmoid(beta * x)`, said with both: runtimes have no kernel for the word."""
    return b(Mul, x, b(Sigmoid, x if beta is None or real(beta) == 1 else b(Mul, x, beta)))


@Hardmax.lift("openvino")
def lift_hardmax(b: Builder, input: Value, *, axis: int = -1) -> Lifted:
    """The place of the first largest number, spread over the axis again."""
    dims = b.dims(input)
    if not dims:
        return None
    axis %= len(dims)
    indices = emits(
        b,
        "opset11.TopK",
        2,
        input,
        b.constant(np.array(1, np.int64)),
        axis=axis,
        mode="max",
        sort="value",
        stable=True,
        index_element_type=DType.INT64,
    )[1]
    flat = emit(b, "opset1.Squeeze", indices, b.constant(np.array([axis], np.int64)))
    length = dims[axis]
    if not isinstance(length, int):
        return None
    ends = b.like(input, 1), b.like(input, 0)
    return b.word("opset1.OneHot", flat, b.constant(np.array(length, np.int64)), *ends, axis=axis)


@Dropout.lift("openvino")
def lift_dropout(
    b: Builder,
    data: Value,
    ratio: Value | None = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> Lifted:
    """Without training it does nothing, and the mask keeps everything."""
    del ratio, seed
    trains = (0,) if training_mode is None else integers(training_mode)
    if trains is None or trains[0]:
        return None
    same = renamed(b, data)
    if b.count == 1:
        return (same,)
    shape = emit(b, "opset3.ShapeOf", data)
    return same, emit(b, "opset3.Broadcast", b.constant(np.array(True)), shape, mode="numpy")

"""Activations in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_extent, emitted_top_k, renamed
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.activation import Clip, Dropout, Hardmax, PRelu, Relu
from graphport.ops.definitions.arithmetic import Max
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import cast, dtype_of, finite_limits, index, integers, reshaped, scalar, vector

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


RULES.lower("""
opset1.Sigmoid, opset1.Tanh(x) -> rounded(_(real(x)), x)
opset1.Elu(x, *, alpha=1.0) -> rounded(Elu(real(x), alpha=alpha), x)
opset4.HSwish(x) -> rounded(HardSwish(real(x)), x)
""")


@lower("openvino", "opset1.ReLU")
def relu(b: Builder, x: Value) -> Value:
    """Rectify: max(x, 0). Unsigned integers are returned unchanged."""
    dtype = x.dtype
    if dtype in (DType.INT16, DType.INT64):
        # ONNX Runtime has no such kernel.
        wide = cast(b, x, DType.INT64)
        return cast(b, b(Max, wide, index(b, 0)), dtype)
    return b(Identity, x) if dtype is not None and dtype.kind == "u" else b(Relu, x)


@lower("openvino", "opset1.PReLU")
def prelu(b: Builder, x: Value, slope: Value) -> Value:
    """Convert PReLU. A slope of rank 1 with one element per channel applies along axis 1, else along the last axis."""
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
    message = "unknown dim: the slope may be per channel or not"
    raise UnsupportedError(message)


@PRelu.export_rule("openvino")
def export_prelu(b: Builder, x: Value, slope: Value) -> Exported:
    """Export PRelu. Unsqueeze a slope of rank 1 to the rank of `x`, so that OpenVINO does not apply it to channels."""
    rank, dims = len(b.dims(x)), b.dims(slope)
    if len(dims) == 1 and dims[0] != 1 and rank > 2:
        axes = b.constant(np.arange(rank - 1, dtype=np.int64))
        slope = emit(b, "opset1.Unsqueeze", slope, axes)
    return b.emit("opset1.PReLU", x, slope)


RULES.lower("""
# `scale * x` where positive, `scale * alpha * (exp(x) - 1)` elsewhere.
opset1.Selu(x, alpha: float, scale: float) -> Selu(x, alpha=alpha, gamma=scale)
# `min(max(x + 3, 0), 6) / 6`
opset5.HSigmoid(x) -> HardSigmoid(x, alpha=1 / 6, beta=0.5)
opset1.HardSigmoid(x, alpha, beta)
    -> known(alpha) is not None and known(beta) is not None: HardSigmoid(x, alpha=known(alpha), beta=known(beta))
    -> Max(Min(Add(Mul(x, alpha), beta), 1), 0)
opset2.Gelu, opset7.Gelu(x, *, approximation_mode="erf")
    -> Gelu(x, approximate="tanh" if approximation_mode == "tanh" else "none")
# Runtimes have no kernel for the word.
opset4.Swish(x, beta=None)
    -> beta is None or known(beta) == 1: Mul(x, Sigmoid(x))
    -> Mul(x, Sigmoid(Mul(x, beta)))
""")
RULES.export_rules("""
LeakyRelu -> opset1.PReLU(x, like(x, [alpha]))
Selu -> opset1.Selu(x, like(x, [alpha]), like(x, [gamma]))
HardSigmoid -> opset1.HardSigmoid(x, alpha, beta)
Gelu -> opset7.Gelu(x, approximation_mode="tanh" if approximate == "tanh" else "erf")
Swish
    -> alpha == 1: opset4.Swish(x)
    -> opset4.Swish(x, alpha)
# A bound of rank 1 would give a scalar an axis.
Clip
    -> min is None and max is None: renamed(input)
    -> min is None: opset1.Minimum(input, emitted_scalar(max))
    -> max is None: opset1.Maximum(input, emitted_scalar(min))
    -> low = known(min); high = known(max);
       low is not None and high is not None and low <= high and is_floating(input):
       opset1.Clamp(input, min=low, max=high)
    -> opset1.Minimum(opset1.Maximum(input, emitted_scalar(min)), emitted_scalar(max))
# Integers are shrunk as reals, and cut off.
Shrink
    -> is_floating(input) or (bias % 1 == 0 and lambd % 1 == 0):
       opset1.Select(opset1.Less(input, -lambd), opset1.Add(input, bias),
                     opset1.Select(opset1.Greater(input, lambd), opset1.Subtract(input, bias), like(input, 0)))
""")


@lower("openvino", "opset1.Clamp")
def clamp(b: Builder, x: Value, *, min: float, max: float) -> Value:
    """Clamp to [min, max]; for integer types, the bounds are rounded inwards: [ceil(min), floor(max)]."""
    dtype = dtype_of(x)
    if dtype.is_floating:
        return b(Clip, x, scalar(b, min, dtype), scalar(b, max, dtype))
    least, greatest = finite_limits(dtype)
    low = int(np.clip(np.ceil(min), least, greatest))
    high = greatest if max >= greatest else int(np.clip(np.floor(max), least, greatest))
    return b(Clip, x, b.constant(low, dtype), b.constant(high, dtype))


@Hardmax.export_rule("openvino")
def export_hardmax(b: Builder, input: Value, *, axis: int = -1) -> Exported:
    """Export Hardmax as OneHot of the index of the first maximum along `axis`."""
    dims = b.dims(input)
    if not dims or not isinstance(dims[axis], int):
        return None
    indices = emit(b, "opset1.Squeeze", emitted_top_k(b, input, 1, axis)[1], vector(b, [axis % len(dims)]))
    ends = b.like(input, 1), b.like(input, 0)
    return b.emit("opset1.OneHot", indices, emitted_extent(b, input, axis), *ends, axis=axis % len(dims))


@Dropout.export_rule("openvino")
def export_dropout(
    b: Builder,
    data: Value,
    ratio: Value | None = None,
    training_mode: Value | None = None,
    *,
    seed: int | None = None,
) -> Exported:
    """Export Dropout in inference mode as a copy and a mask of true; training mode is not exported."""
    del ratio, seed
    trains = (0,) if training_mode is None else integers(training_mode)
    if trains is None or trains[0]:
        return None
    same = renamed(b, data)
    if b.count == 1:
        return (same,)
    shape = emit(b, "opset3.ShapeOf", data)
    return same, emit(b, "opset3.Broadcast", b.constant(np.array(True)), shape, mode="numpy")

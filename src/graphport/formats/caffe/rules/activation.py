"""Activations in Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal
from graphport.formats.caffe.rules.binding import Layer, aligned, in_caffe, layer, small_numbers
from graphport.formats.caffe.rules.rule_table import RULES
from graphport.ops.definitions.activation import Clip, PRelu, Softmax

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower("""
BNLL(x) <-> Softplus(x)
Mish(x) <-> Mish(x)
HardSwish, HSwish(x) <-> HardSwish(x)
""")
RULES.lower("Sigmoid(x) <-> Sigmoid(x)", fields=("sigmoid_param",))
RULES.lower("TanH(x) <-> Tanh(x)", fields=("tanh_param",))
RULES.lower(
    """
ReLU(x, *, negative_slope=0.0)
    -> negative_slope == 0: Relu(x)
    -> LeakyRelu(x, alpha=negative_slope)
ReLU6(x) -> Clip(x, 0, 6)
""",
    fields=("relu_param",),
)
RULES.lower("Clip(x, *, min: float, max: float) -> Clip(x, min, max)", fields=("clip_param",))
RULES.lower("ELU(x, *, alpha=1.0) <-> Elu(x, alpha=alpha)", fields=("elu_param",))
RULES.lower("Swish(x, *, beta=1.0) -> Swish(x, alpha=beta)", fields=("swish_param",))
RULES.lower(
    "HardSigmoid(x, *, alpha=0.2, beta=0.5) <-> HardSigmoid(x, alpha=alpha, beta=beta)", fields=("hard_sigmoid_param",)
)
RULES.lower(
    """
# Nothing, unless training left the scaling to inference.
Dropout(x, *, dropout_ratio=0.5, scale_train=True)
    -> scale_train: Identity(x)
    -> Mul(x, 1 - dropout_ratio)
""",
    fields=("dropout_param",),
)
RULES.lower("Threshold(x, *, threshold=0.0) -> Cast(Greater(x, threshold), to=float32)", fields=("threshold_param",))


@layer("PReLU", "prelu_param")
def prelu(at: Layer, *, channel_shared: bool = False) -> Value:
    """PReLU with per-channel slopes, or a single slope."""
    dims = at.dims()
    slope = at.blob(0, (1,) if channel_shared or len(dims) < 2 else (dims[1],), "slope")
    return at.b(PRelu, at.x, slope if channel_shared else aligned(at.b, slope, min(1, len(dims) - 1), len(dims)))


@layer("Softmax", "softmax_param")
def softmax(at: Layer, *, axis: int = 1) -> Value:
    """Softmax along one axis, by default the channel axis."""
    return at.b(Softmax, at.x, axis=at.axis(axis))


RULES.export_rules("""
Relu -> ReLU(x)
LeakyRelu -> ReLU(x, negative_slope=alpha)
Swish
    -> alpha == 1: Swish(x)
    -> Swish(x, beta=alpha)
Softmax -> Softmax(input, axis=stated_axis(axis, input))
# What inference does: nothing.
Dropout(ratio: ignored, seed: ignored) -> training_mode is None: Split(data)
""")


@Clip.export_rule("caffe")
def export_clip(
    b: Builder, input: Value, low: Value | None = None, high: Value | None = None
) -> tuple[Value, ...] | None:
    """Export Clip with constant bounds; a lower bound of 0 alone is ReLU."""
    bounds = [small_numbers(bound) for bound in (low, high)]
    if any(bound is not None and found is None for bound, found in zip((low, high), bounds, strict=True)):
        return None
    least, most = (None if found is None else float(found.reshape(-1)[0]) for found in bounds)
    if least == 0 and most == 6:
        return in_caffe(b, "ReLU6", input)
    if least == 0 and most is None:
        return in_caffe(b, "ReLU", input)
    widest = float(np.finfo(np.float32).max)
    stated: dict[str, Any] = {"min": -widest if least is None else least, "max": widest if most is None else most}
    return in_caffe(b, "Clip", input, **stated)


@PRelu.export_rule("caffe")
def export_prelu(b: Builder, x: Value, slope: Value) -> tuple[Value, ...] | None:
    """Export PRelu with per-channel slopes, or a single slope."""
    dims, own = b.dims(x), b.dims(slope)
    aligned_own = (*[1] * (len(dims) - len(own)), *own)
    if any(decide_equal(n, 1) is not True for axis, n in enumerate(aligned_own) if axis != 1) or len(dims) < 2:
        return None
    count = aligned_own[1]
    flat = slope if len(own) == 1 else b.reshaped(slope, [count]) if isinstance(count, int) else None
    if flat is None:
        return None
    is_shared = count == 1 and decide_equal(dims[1], 1) is not True
    return in_caffe(b, "PReLU", x, blobs=[flat], channel_shared=True if is_shared else None)

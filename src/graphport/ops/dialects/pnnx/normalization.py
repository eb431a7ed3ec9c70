"""Normalizations of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.budget import made_up
from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.pnnx.padding import padded
from graphport.ops.dialects.pnnx.reduction_norms import norm
from graphport.ops.dialects.torch_functions import (
    DIALECT,
    bounded,
    called,
    dtype_of,
    emits,
    integers,
    length,
    number,
    vector,
)
from graphport.ops.dialects.torch_rows import PNNX
from graphport.ops.pages.arithmetic import Add, Div, Max, Mul, Pow, Sqrt, Sub
from graphport.ops.pages.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    RMSNormalization,
)
from graphport.ops.pages.pooling import AveragePool
from graphport.ops.pages.reduction import ReduceSum
from graphport.ops.pages.reshape import Squeeze, Unsqueeze
from graphport.ops.views.normalization import (
    LayerNormalizationView,
    RMSNormalizationView,
)

_SAME_EPSILON = 1e-5


def _filled(b: Builder, x: Value, count: int, number: float) -> Value:
    return b.constant(np.full(bounded(count), number), dtype_of(x))


def _epsilon(eps: Any) -> float | None:
    found = float(number(eps))
    return None if found == _SAME_EPSILON else found


@emits(*(f"nn.BatchNorm{n}d" for n in (1, 2, 3)), ignores=("num_features", "affine"))
def batch_norm_module(
    b: Builder,
    input: Value,
    running_mean: Value,
    running_var: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: Any = 1e-5,
) -> Value:
    return batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)


@emits("F.batch_norm")
def batch_norm(
    b: Builder,
    input: Value,
    running_mean: Value,
    running_var: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    training: Any = False,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> Value:
    del momentum
    if number(training):
        message = "a batch normalization that is training"
        raise UnsupportedError(message)
    channels = length(b.dims(running_mean), 0)
    scale = weight if weight is not None else _filled(b, input, channels, 1)
    shift = bias if bias is not None else _filled(b, input, channels, 0)
    return b(BatchNormalization, input, scale, shift, running_mean, running_var, epsilon=_epsilon(eps))


@emits("aten::batch_norm")
def aten_batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any = None,
) -> Value:
    del cudnn_enabled
    return batch_norm(b, input, running_mean, running_var, weight, bias, training, momentum, eps)


@emits("aten::instance_norm", "torch.instance_norm")
def aten_instance_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any = None,
) -> Value:
    del momentum, cudnn_enabled
    if running_mean is not None and running_var is not None and not number(use_input_stats):
        return batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)
    return instance_norm(b, input, weight=weight, bias=bias, eps=eps)


@emits(*(f"nn.InstanceNorm{n}d" for n in (1, 2, 3)), ignores=("num_features", "affine", "track_running_stats"))
def instance_norm_module(
    b: Builder,
    input: Value,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: Any = 1e-5,
) -> Value:
    if running_mean is not None and running_var is not None:
        return batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)
    return instance_norm(b, input, weight=weight, bias=bias, eps=eps)


@emits("F.instance_norm", ignores=("momentum",))
def instance_norm(
    b: Builder,
    input: Value,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Value | None = None,
    bias: Value | None = None,
    use_input_stats: Any = True,
    eps: Any = 1e-5,
) -> Value:
    if running_mean is not None or running_var is not None or not number(use_input_stats):
        message = "an instance normalization by statistics that are given"
        raise UnsupportedError(message)
    channels = length(b.dims(input), 1)
    scale = weight if weight is not None else _filled(b, input, channels, 1)
    shift = bias if bias is not None else _filled(b, input, channels, 0)
    return b(InstanceNormalization, input, scale, shift, epsilon=_epsilon(eps))


@emits("nn.GroupNorm", "F.group_norm", "aten::group_norm", ignores=("num_channels", "affine", "cudnn_enabled"))
def group_norm(
    b: Builder,
    input: Value,
    num_groups: Any,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: Any = 1e-5,
    cudnn_enabled: Any = None,
) -> Value:
    del cudnn_enabled
    channels = length(b.dims(input), 1)
    scale = weight if weight is not None else _filled(b, input, channels, 1)
    shift = bias if bias is not None else _filled(b, input, channels, 0)
    groups = int(number(num_groups))
    return b(GroupNormalization, input, scale, shift, num_groups=groups, epsilon=_epsilon(eps))


@emits("nn.LayerNorm", "F.layer_norm", "aten::layer_norm", ignores=("elementwise_affine", "cudnn_enable"))
def layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Any,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: Any = 1e-5,
    cudnn_enable: Any = None,
) -> Value:
    del cudnn_enable
    shape = integers(normalized_shape)
    made_up(*shape)
    scale = weight if weight is not None else b.constant(np.ones(shape), dtype_of(input))
    return b(LayerNormalization, input, scale, bias, axis=-len(shape), epsilon=_epsilon(eps))


@emits("nn.RMSNorm", "F.rms_norm", "aten::rms_norm", ignores=("elementwise_affine",))
def rms_norm(b: Builder, input: Value, normalized_shape: Any, weight: Value | None = None, eps: Any = None) -> Value:
    shape = integers(normalized_shape)
    made_up(*shape)
    scale = weight if weight is not None else b.constant(np.ones(shape), dtype_of(input))
    epsilon = _smallest(dtype_of(input)) if eps is None else float(number(eps))
    return b(RMSNormalization, input, scale, axis=-len(shape), epsilon=epsilon)


def _smallest(dtype: DType) -> float:
    """What PyTorch adds where nothing is said: of the type that it computes in, single precision for narrower ones."""
    return float(np.finfo(np.float64 if dtype is DType.FLOAT64 else np.float32).eps)


@emits("nn.LocalResponseNorm", "F.local_response_norm")
def local_response_norm(
    b: Builder, input: Value, size: Any, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0
) -> Value:
    """Windows of an even size reach one further before their middle than behind it; ONNX's reach further behind."""
    width = int(number(size))
    factors = {"alpha": float(number(alpha)), "beta": float(number(beta)), "bias": float(number(k))}
    if width % 2 and len(b.dims(input)) == 4:
        return b(LRN, input, size=width, **factors)
    squares = b(Unsqueeze, b(Mul, input, input), vector(b, [1]))
    trailing = len(b.dims(input)) - 2
    window = padded(b, squares, [(width // 2, (width - 1) // 2), *[(0, 0)] * trailing])
    mean = b(AveragePool, window, kernel_shape=(width, *[1] * trailing), strides=(1,) * (trailing + 1))
    total = b(Squeeze, mean, vector(b, [1]))
    divisor = b(Add, b(Mul, total, b.like(total, factors["alpha"])), b.like(total, factors["bias"]))
    return b(Div, input, b(Pow, divisor, b.like(total, factors["beta"])))


PNNX.having(norm=norm).lower("""
F.normalize(input, p: any = 2.0, dim: any = 1, eps=1e-12) -> Div(input, Max(norm(input, p, dim, True), eps))
""")


@emits("nn.PairwiseDistance", "F.pairwise_distance", "aten::pairwise_distance")
def pairwise_distance(
    b: Builder, x1: Value, x2: Value, p: Any = 2.0, eps: Any = 1e-6, keepdim: Any = False, norm: Any = None
) -> Value:
    power = number(p if norm is None else norm)
    gap = b(Add, b(Sub, x1, x2), b.like(x1, number(eps)))
    return _norm(b, gap, power, keepdim=bool(number(keepdim)))


def _norm(b: Builder, x: Value, power: Any, *, keepdim: bool) -> Value:
    return norm(b, x, power, -1, keepdim)


@emits("nn.CosineSimilarity", "F.cosine_similarity", "aten::cosine_similarity")
def cosine_similarity(b: Builder, x1: Value, x2: Value, dim: Any = 1, eps: Any = 1e-8) -> Value:
    axes = vector(b, integers(dim))
    product = b(ReduceSum, b(Mul, x1, x2), axes, keepdims=0)
    sizes = [b(Sqrt, b(ReduceSum, b(Mul, x, x), axes, keepdims=0)) for x in (x1, x2)]
    least = b.like(x1, number(eps))
    return b(Div, product, b(Mul, b(Max, sizes[0], least), b(Max, sizes[1], least)))


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


PNNX.lift("""
BatchNormalization(momentum: ignored)
    -> F.batch_norm(input=x, running_mean=input_mean, running_var=input_var, weight=scale, bias=b, eps=epsilon)
InstanceNormalization -> F.instance_norm(input=input, weight=scale, bias=b, eps=epsilon)
GroupNormalization(stash_type: ignored)
    -> F.group_norm(input=x, weight=scale, bias=bias, num_groups=num_groups, eps=epsilon)
LRN -> size % 2 == 1: F.local_response_norm(input=x, size=size, alpha=alpha, beta=beta, k=bias)
""")


@LayerNormalizationView.lift(DIALECT)
def lift_layer_norm(b: Builder, op: LayerNormalizationView) -> Value | None:
    shape = _shape(b, op.x, op.scale, op.axis)
    if shape is None or b.count > 1:
        return None
    return called(b, "F.layer_norm", input=op.x, weight=op.scale, bias=op.b, normalized_shape=shape, eps=op.epsilon)


@RMSNormalizationView.lift(DIALECT)
def lift_rms_norm(b: Builder, op: RMSNormalizationView) -> Value | None:
    shape = _shape(b, op.x, op.scale, op.axis)
    if shape is None:
        return None
    return called(b, "F.rms_norm", input=op.x, weight=op.scale, normalized_shape=shape, eps=op.epsilon)


def _shape(b: Builder, x: Value, scale: Value, axis: int) -> tuple[int, ...] | None:
    """The lengths of the axes that are normalized together, if the scale has them."""
    dims = b.dims(x)
    shape = tuple(length(dims, place) for place in range(axis % len(dims), len(dims)))
    return shape if b.dims(scale) == shape else None

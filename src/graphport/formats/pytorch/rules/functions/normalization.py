"""Normalizations of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    bounded,
    called,
    emits,
    integers,
    length,
    scalar_of,
)
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.formats.pytorch.rules.functions.reduction_norms import norm
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Pow
from graphport.ops.definitions.normalization import (
    LRN,
)
from graphport.ops.definitions.pooling import AveragePool
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.views.normalization import (
    LayerNormalizationView,
    RMSNormalizationView,
)

_SAME_EPSILON = 1e-5


def _for_each(b: Builder, given: Value | None, x: Value, count: int, number: float) -> Value:
    """Return the per-channel parameter `given`, or `count` elements of `number` if it is `None`."""
    return b.constant(np.full(bounded(count), number), dtype_of(x)) if given is None else given


def _epsilon(eps: Any) -> float | None:
    found = float(scalar_of(eps))
    return None if found == _SAME_EPSILON else found


def _for_entries(b: Builder, given: Value | None, x: Value, shape: Any) -> Value:
    """Return the parameter `given` of the normalized axes, or ones of `shape` if it is `None`."""
    extents = integers(shape)
    reserve(*extents)
    return b.constant(np.ones(extents), dtype_of(x)) if given is None else given


def _first_normalized_axis(_b: Builder, shape: Any) -> int:
    """Return the first normalized axis as a negative index: -len(shape)."""
    return -len(integers(shape))


def smallest(b: Builder, x: Value) -> float:
    """Return PyTorch's default epsilon: that of the compute type, float32 for narrower ones."""
    del b
    return float(np.finfo(np.float64 if dtype_of(x) is DType.FLOAT64 else np.float32).eps)


_NORMS = PNNX.having(
    epsilon=lambda _b, eps: _epsilon(eps), first_of=_first_normalized_axis, for_each=_for_each,
    for_entries=_for_entries,
    integers=lambda _b, x: integers(x), norm=norm,
    smallest=smallest,
)  # fmt: skip
_NORMS.lower(
    """
nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d(input, running_mean, running_var, weight=None, bias=None, eps=1e-5)
    -> F.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
""",
    ignores=("num_features", "affine"),
)
_NORMS.lower("""
F.batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum: ignored = 0.1,
             eps=1e-5)
    -> training: unsupported("a batch normalization that is training")
    -> count = length(running_mean, 0);
       BatchNormalization(input, for_each(weight, input, count, 1), for_each(bias, input, count, 0),
                          running_mean, running_var, epsilon=epsilon(eps))
aten::batch_norm(input, weight, bias, running_mean, running_var, training, momentum: ignored, eps,
                 cudnn_enabled: ignored = None)
    -> F.batch_norm(input, running_mean, running_var, weight, bias, training, eps=eps)
aten::instance_norm, torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats,
                                         momentum: ignored, eps, cudnn_enabled: ignored = None)
    -> running_mean is not None and running_var is not None and not use_input_stats:
       F.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    -> F.instance_norm(input, weight=weight, bias=bias, eps=eps)
""")
_NORMS.lower(
    """
nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d(input, running_mean=None, running_var=None, weight=None, bias=None, eps=1e-5)
    -> running_mean is not None and running_var is not None:
       F.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    -> F.instance_norm(input, weight=weight, bias=bias, eps=eps)
""",
    ignores=("num_features", "affine", "track_running_stats"),
)
_NORMS.lower(
    """
F.instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, eps=1e-5)
    -> running_mean is not None or running_var is not None or not use_input_stats:
       unsupported("an instance normalization by statistics that are given")
    -> count = length(input, 1);
       InstanceNormalization(input, for_each(weight, input, count, 1), for_each(bias, input, count, 0),
                             epsilon=epsilon(eps))
""",
    ignores=("momentum",),
)
_NORMS.lower(
    """
nn.GroupNorm, F.group_norm, aten::group_norm(input, num_groups, weight=None, bias=None, eps=1e-5)
    -> count = length(input, 1);
       GroupNormalization(input, for_each(weight, input, count, 1), for_each(bias, input, count, 0),
                          num_groups=num_groups, epsilon=epsilon(eps))
""",
    ignores=("num_channels", "affine", "cudnn_enabled"),
)
_NORMS.lower(
    """
nn.LayerNorm, F.layer_norm,
    aten::layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable: ignored = None)
    -> LayerNormalization(input, for_entries(weight, input, normalized_shape), bias, axis=first_of(normalized_shape),
                          epsilon=epsilon(eps))
""",
    ignores=("elementwise_affine", "cudnn_enable"),
)
_NORMS.lower(
    """
nn.RMSNorm, F.rms_norm, aten::rms_norm(input, normalized_shape, weight=None, eps=None)
    -> RMSNormalization(input, for_entries(weight, input, normalized_shape), axis=first_of(normalized_shape),
                        epsilon=smallest(input) if eps is None else eps)
""",
    ignores=("elementwise_affine",),
)


@emits("nn.LocalResponseNorm", "F.local_response_norm")
def local_response_norm(
    b: Builder, input: Value, size: Any, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0
) -> Value:
    """Local response normalization: the larger part of an even window precedes the center, in ONNX it follows it."""
    width = int(scalar_of(size))
    factors = {
        "alpha": float(scalar_of(alpha)),
        "beta": float(scalar_of(beta)),
        "bias": float(scalar_of(k)),
    }
    if width % 2 and len(b.dims(input)) == 4:
        return b(LRN, input, size=width, **factors)
    squares = b(Unsqueeze, b(Mul, input, input), [1])
    trailing = len(b.dims(input)) - 2
    window = padded(b, squares, [(width // 2, (width - 1) // 2), *[(0, 0)] * trailing])
    mean = b(AveragePool, window, kernel_shape=(width, *[1] * trailing), strides=(1,) * (trailing + 1))
    total = b(Squeeze, mean, [1])
    divisor = b(Add, b(Mul, total, b.like(total, factors["alpha"])), b.like(total, factors["bias"]))
    return b(Div, input, b(Pow, divisor, b.like(total, factors["beta"])))


_NORMS.lower("""
F.normalize(input, p: any = 2.0, dim: any = 1, eps=1e-12) -> Div(input, Max(norm(input, p, dim, True), eps))
nn.PairwiseDistance, F.pairwise_distance,
    aten::pairwise_distance(x1, x2, p: any = 2.0, eps=1e-6, keepdim: any = False, norm=None)
    -> norm(Add(Sub(x1, x2), eps), p if norm is None else norm, -1, keepdim)
nn.CosineSimilarity, F.cosine_similarity, aten::cosine_similarity(x1, x2, dim: any = 1, eps=1e-8)
    -> axes = integers(dim); product = ReduceSum(Mul(x1, x2), axes, keepdims=0);
       first = Sqrt(ReduceSum(Mul(x1, x1), axes, keepdims=0)); second = Sqrt(ReduceSum(Mul(x2, x2), axes, keepdims=0));
       Div(product, Mul(Max(first, eps), Max(second, eps)))
""")


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


PNNX.export_rules("""
BatchNormalization(momentum: ignored)
    -> F.batch_norm(input=x, running_mean=input_mean, running_var=input_var, weight=scale, bias=b, eps=epsilon)
InstanceNormalization -> F.instance_norm(input=input, weight=scale, bias=b, eps=epsilon)
GroupNormalization(stash_type: ignored)
    -> F.group_norm(input=x, weight=scale, bias=bias, num_groups=num_groups, eps=epsilon)
LRN -> size % 2 == 1: F.local_response_norm(input=x, size=size, alpha=alpha, beta=beta, k=bias)
""")


@LayerNormalizationView.export_rule(DIALECT)
def export_layer_norm(b: Builder, op: LayerNormalizationView) -> Value | None:
    shape = _shape(b, op.x, op.scale, op.axis)
    if shape is None or b.count > 1:
        return None
    return called(b, "F.layer_norm", input=op.x, weight=op.scale, bias=op.b, normalized_shape=shape, eps=op.epsilon)


@RMSNormalizationView.export_rule(DIALECT)
def export_rms_norm(b: Builder, op: RMSNormalizationView) -> Value | None:
    shape = _shape(b, op.x, op.scale, op.axis)
    if shape is None:
        return None
    return called(b, "F.rms_norm", input=op.x, weight=op.scale, normalized_shape=shape, eps=op.epsilon)


def _shape(b: Builder, x: Value, scale: Value, axis: int) -> tuple[int, ...] | None:
    """Return the sizes of the normalized axes if the scale has that shape, else `None`."""
    dims = b.dims(x)
    shape = tuple(length(dims, place) for place in range(axis % len(dims), len(dims)))
    return shape if b.dims(scale) == shape else None

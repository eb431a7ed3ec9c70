"""Normalizations of exported programs, composite and decomposed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import integers, scalar_of
from graphport.formats.pytorch.rules.functions.normalization import smallest
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Reciprocal, Sqrt, Sub
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Size
from graphport.ops.lowering.operands import dtype_of, in_float32, vector

Answer = tuple[Value, ...]
batch_norm, group_norm, layer_norm, rms_norm = (
    partial(PNNX.read, f"F.{name}") for name in ("batch_norm", "group_norm", "layer_norm", "rms_norm")
)
"""Import rules shared with PNNX, whose arguments are equal."""


def _moments(b: Builder, x: Value, axes: list[int], eps: Any, *, keeps: bool) -> tuple[Value, Value]:
    """Return the mean and the reciprocal standard deviation, which most programs do not use."""
    keepdims = None if keeps else 0
    wide = in_float32(b, x)
    center = b(ReduceMean, wide, axes)
    gap = b(Sub, wide, center)
    spread = b(ReduceMean, b(Mul, gap, gap), axes, keepdims=keepdims)
    mean = center if keeps else b(ReduceMean, wide, axes, keepdims=0)
    return mean, b(Reciprocal, b(Sqrt, b(Add, spread, float(scalar_of(eps)))))


def _completed(b: Builder, y: Value, x: Value, axes: list[int], eps: Any, *, keeps: bool) -> Any:
    if not any(b.wants(place) for place in range(1, b.count)):
        return (y, *[None] * (b.count - 1)) if b.count > 1 else y
    return (y, *_moments(b, x, axes, eps, keeps=keeps))


def _layer_norm(b: Builder, x: Value, shape: Any, weight: Value | None, bias: Value | None, eps: Any) -> Value:
    """Layer normalization, computed in the element type of the weights if it differs."""
    kind = dtype_of(x)
    given = next((dtype_of(each) for each in (weight, bias) if each is not None), kind)
    if given is kind:
        return layer_norm(b, x, shape, weight, bias, eps)
    return cast(b, layer_norm(b, cast(b, x, given), shape, weight, bias, eps), kind)


@aten("aten.layer_norm")
def aten_layer_norm(
    b: Builder,
    input: Value,
    normalized_shape: Any,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: Any = 1e-5,
    cudnn_enable: Any = None,
) -> Value:
    del cudnn_enable
    return _layer_norm(b, input, normalized_shape, weight, bias, eps)


@aten("aten.native_layer_norm")
def native_layer_norm(
    b: Builder, input: Value, normalized_shape: Any, weight: Value | None, bias: Value | None, eps: Any
) -> Any:
    rank, count = len(b.dims(input)), len(integers(normalized_shape))
    y = _layer_norm(b, input, normalized_shape, weight, bias, eps)
    return _completed(b, y, input, list(range(rank - count, rank)), eps, keeps=True)


@aten("aten._fused_rms_norm")
def fused_rms_norm(
    b: Builder, input: Value, normalized_shape: Any, weight: Value | None = None, eps: Any = None
) -> Any:
    """RMS normalization; the second result, for training, is the reciprocal root mean square."""
    y = rms_norm(b, input, normalized_shape, weight, eps)
    if b.count == 1 or not b.wants(1):
        return (y, None)[: b.count]
    axes = vector(b, range(-len(integers(normalized_shape)), 0))
    mean = b(ReduceMean, b(Mul, input, input), axes)
    least = float(scalar_of(eps)) if eps is not None else smallest(b, input)
    return y, b(Reciprocal, b(Sqrt, b(Add, mean, b.like(mean, least))))


@aten("aten.native_group_norm")
def native_group_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: Any,
    C: Any,
    HxW: Any,
    group: Any,
    eps: Any,
) -> Any:
    del N, C, HxW
    groups = int(scalar_of(group))
    y = group_norm(b, input, groups, weight, bias, eps)
    if not any(b.wants(place) for place in range(1, b.count)):
        return (y, *[None] * (b.count - 1)) if b.count > 1 else y
    split = b(Reshape, input, b(Concat, b(Shape, input, start=0, end=1), [groups, -1], axis=0))
    return (y, *_moments(b, split, [2], eps, keeps=False))


@aten("aten._native_batch_norm_legit_no_training", "aten.cudnn_batch_norm_inference")
def batch_norm_inference(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: Any,
    eps: Any,
) -> Any:
    del momentum
    y = batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)
    if b.count == 1:
        return y
    # Results saved for the backward pass are empty.
    empty = b.constant(np.zeros(0), DType.FLOAT32)
    return (y, *[empty] * (b.count - 1))


def trained(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, eps: Any
) -> tuple[Value, Value, Value, Value]:
    """Batch normalization in training mode: return result, mean, variance, and reciprocal standard deviation."""
    rank = len(b.dims(x))
    axes = [axis for axis in range(rank) if axis != 1]
    wide = in_float32(b, x)
    center = b(ReduceMean, wide, axes)
    gap = b(Sub, wide, center)
    variance = b(ReduceMean, b(Mul, gap, gap), axes)
    inverse = b(Reciprocal, b(Sqrt, b(Add, variance, float(scalar_of(eps)))))
    y = b(Mul, gap, inverse)
    shape = vector(b, [-1, *[1] * (rank - 2)])
    y = y if weight is None else b(Mul, y, b(Reshape, in_float32(b, weight), shape))
    y = y if bias is None else b(Add, y, b(Reshape, in_float32(b, bias), shape))
    flat = vector(b, [-1])
    flats = [b(Reshape, each, flat) for each in (center, variance, inverse)]
    return cast(b, y, dtype_of(x)), flats[0], flats[1], flats[2]


@aten("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    b: Builder, input: Value, weight: Value | None, bias: Value | None, training: Any, momentum: Any, eps: Any
) -> Any:
    del training, momentum
    y, mean, _, inverse = trained(b, input, weight, bias, eps)
    return (y, mean, inverse)[: b.count] if b.count > 1 else y


# Updates of the running statistics have been converted by functionalization.
RULES.lower("""
aten._native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps)
    -> training: aten._native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)
    -> aten._native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps)
""")


@aten("aten._native_batch_norm_legit_functional")
def batch_norm_functional(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: Any,
    momentum: Any,
    eps: Any,
) -> Any:
    """Batch normalization that also returns the updated running statistics."""
    if not scalar_of(training):
        y = batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)
        empty = b.constant(np.zeros(0), DType.FLOAT32)
        return y, empty, empty, running_mean, running_var
    y, mean, variance, inverse = trained(b, input, weight, bias, eps)
    after = running(b, input, mean, variance, running_mean, running_var, momentum)
    return y, mean, inverse, *after


def running(
    b: Builder, x: Value, mean: Value, variance: Value, running_mean: Value, running_var: Value, momentum: Any
) -> tuple[Value, Value]:
    """Return the updated running statistics; the batch variance is unbiased (divided by count - 1)."""
    channels = b(Shape, x, start=1, end=2)
    count = cast(b, b(Div, b(Size, x), channels), dtype_of(variance))
    sample = b(Div, b(Mul, variance, count), b(Sub, count, 1))
    return _moved(b, running_mean, mean, momentum), _moved(b, running_var, sample, momentum)


def _moved(b: Builder, old: Value, new: Value, momentum: Any) -> Value:
    """(1 - momentum) * old + momentum * new."""
    share = float(scalar_of(momentum))
    return b(Add, b(Mul, old, b.like(old, 1 - share)), b(Mul, cast(b, new, dtype_of(old)), b.like(old, share)))


@aten("aten.instance_norm.statistics", ignores=("eps", "use_input_stats"))
def instance_norm_statistics(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: Any,
) -> tuple[Value, Value]:
    """Return the updated running statistics of instance normalization: batch means of the per-sample statistics."""
    del weight, bias
    wide = in_float32(b, input)
    axes = vector(b, list(range(2, len(b.dims(input)))))
    center = b(ReduceMean, wide, axes)
    gap = b(Sub, wide, center)
    count = cast(b, b(Div, b(Size, input), b(Size, center)), dtype_of(wide))
    variance = b(Div, b(ReduceSum, b(Mul, gap, gap), axes), b(Sub, count, 1))
    mean, sample = (b(Reshape, b(ReduceMean, x, [0]), [-1]) for x in (center, variance))
    return _moved(b, running_mean, mean, momentum), _moved(b, running_var, sample, momentum)


@aten("aten.batch_norm")
def aten_batch_norm(
    b: Builder,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any = None,
) -> Value:
    del momentum, cudnn_enabled
    if scalar_of(training) or running_mean is None or running_var is None:
        return trained(b, input, weight, bias, eps)[0]
    return batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)


@aten("aten._weight_norm")
def weight_norm(b: Builder, v: Value, g: Value, dim: Any = 0) -> Value:
    """Weight normalization: g * v / |v| with the norm over all axes except `dim`."""
    return weight_norm_interface(b, v, g, dim)[0]


@aten("aten._weight_norm_interface")
def weight_norm_interface(b: Builder, v: Value, g: Value, dim: Any = 0) -> tuple[Value, Value]:
    """Weight normalization that also returns the norms."""
    rank = len(b.dims(v))
    axes = (
        [axis for axis in range(rank) if axis != int(scalar_of(dim)) % rank]
        if scalar_of(dim) != -1
        else list(range(rank))
    )
    size = b(Sqrt, b(ReduceSum, b(Mul, v, v), axes))
    return b(Mul, v, b(Div, g, size)), size

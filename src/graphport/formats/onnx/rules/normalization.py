"""Older forms of normalizations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.older import RULES, unsupported
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Pow, Sqrt, Sub
from graphport.ops.definitions.normalization import (
    BatchNormalization,
    InstanceNormalization,
    RMSNormalization,
)
from graphport.ops.definitions.reduction import ReduceMean
from graphport.ops.definitions.reshape import Flatten, Reshape, Shape, Unsqueeze
from graphport.ops.view import Attributes
from graphport.ops.views.normalization import (
    BatchNormalizationView,
    GroupNormalizationView,
    LayerNormalizationView,
    RMSNormalizationView,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(Attributes):
    """Attributes `epsilon` and `momentum` of BatchNormalization."""

    epsilon: float = 1e-5
    momentum: float = 0.9


@Statistics.lower("onnx", "BatchNormalization", until=13)
def batch_normalization_13(
    b: Builder, op: Statistics, x: Value, scale: Value, shift: Value, mean: Value, var: Value
) -> tuple[Value, ...]:
    """BatchNormalization-9: more than one result selects training mode."""
    if b.count > 3:
        message = "the statistics saved for the gradient have no canonical form"
        raise UnsupportedError(message)
    training = int(b.count > 1)
    return b.results(
        BatchNormalization,
        b.count,
        x,
        scale,
        shift,
        mean,
        var,
        epsilon=op.epsilon,
        momentum=op.momentum,
        training_mode=training or None,
    )


@Statistics.lower("onnx", "BatchNormalization", until=8)
def batch_normalization_8(
    b: Builder, op: Statistics, x: Value, scale: Value, shift: Value, mean: Value, var: Value, *, spatial: int = 1
) -> tuple[Value, ...]:
    """Statistics per channel or, with `spatial` 0, per entry of a sample."""
    if spatial:
        return batch_normalization_13(b, op, x, scale, shift, mean, var)
    # Every element of a sample becomes a channel.
    vectors = [b(Reshape, value, b.constant([-1])) for value in (scale, shift, mean, var)]
    y, *running = batch_normalization_13(b, op, b(Flatten, x), *vectors)
    return (b(Reshape, y, b(Shape, x)), *(b(Reshape, found, b(Shape, mean)) for found in running))


@Statistics.lower("onnx", "BatchNormalization", until=6)
def batch_normalization_6(
    b: Builder,
    op: Statistics,
    x: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    var: Value,
    *,
    consumed_inputs: tuple[int, ...] | None = None,
    is_test: int = 0,
    spatial: int = 1,
) -> tuple[Value, ...]:
    """`is_test` or a single result meant inference; `consumed_inputs` allowed to write over operands."""
    del consumed_inputs
    if is_test and b.count > 1:
        message = "inference with more than one result has no canonical form"
        raise UnsupportedError(message)
    return batch_normalization_8(b, op, x, scale, shift, mean, var, spatial=spatial)


RULES.lower(
    """
InstanceNormalization(input, scale, b, *, consumed_inputs: ignored = None, epsilon=1e-5)
    -> InstanceNormalization(input, scale, b, epsilon=epsilon)
""",
    until=5,
)


RULES.lower(
    """
# One factor and summand a group: instances whose channels are the groups.
GroupNormalization(x, scale, bias, *, epsilon=1e-5, num_groups)
    -> Reshape(InstanceNormalization(Reshape(x, [0, num_groups, -1]), scale, bias, epsilon=epsilon), Shape(x))
""",
    until=20,
)
RULES.lower(
    """
# ONNX Runtime had it in the default domain before the default domain did, and its files still name old opsets.
LayerNormalization(x, scale, b=None, *, axis=-1, epsilon=1e-5, stash_type=1)
    -> LayerNormalization(x, scale, b, axis=axis, epsilon=epsilon, stash_type=stash_type)
""",
    until=16,
)


@lower("onnx", "SimplifiedLayerNormalization")
def simplified_layer_normalization(
    b: Builder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """RMSNormalization under ONNX Runtime's name in the default domain."""
    if b.wants(1):
        message = "the second result (inverse standard deviation) has no canonical form"
        raise UnsupportedError(message)
    return b(RMSNormalization, x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)


@BatchNormalizationView.export_rule("onnx", until=13)
def batch_normalization_in_use(b: Builder, op: BatchNormalizationView) -> Value:
    """Export BatchNormalization in inference mode to opsets 7 to 13."""
    unsupported(
        (bool(op.training_mode) or b.count > 1, "training mode has other results"),
        (b.version is not None and b.version < 7, "is_test is not supported"),
    )
    operands = (op.x, op.scale, op.b, op.input_mean, op.input_var)
    return b.emit("BatchNormalization", *operands, facts=[op.x.fact], epsilon=op.epsilon, momentum=op.momentum)[0]


def _standardized(b: Builder, x: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) over `axes`."""
    axes_value = b.constant(np.array(axes, np.int64))
    shifted = b(Sub, x, b(ReduceMean, x, axes_value))
    variance = b(ReduceMean, _squared(b, shifted), axes_value)
    return b(Div, shifted, b(Sqrt, b(Add, variance, epsilon)))


def _squared(b: Builder, x: Value) -> Value:
    """Return x² as a Pow, a pattern that ONNX Runtime fuses to one normalization kernel."""
    return b(Pow, x, 2.0)


@LayerNormalizationView.export_rule("onnx", until=16)
def layer_normalization_in_steps(b: Builder, op: LayerNormalizationView) -> Value:
    """Export LayerNormalization to opsets before 17 by its formula."""
    unsupported(
        (b.count > 1, "mean and variance are not results"),
        (op.stash_type != 1, "mean and variance must have the element type of x"),
    )
    rank = len(b.dims(op.x))
    scaled = b(Mul, _standardized(b, op.x, tuple(range(op.axis % rank, rank)), op.epsilon), op.scale)
    return scaled if op.b is None else b(Add, scaled, op.b)


@RMSNormalizationView.export_rule("onnx", until=22)
def rms_normalization_in_steps(b: Builder, op: RMSNormalizationView) -> Value:
    """Export RMSNormalization to opsets before 23 by its formula."""
    unsupported((op.stash_type != 1, "the mean must have the element type of x"))
    rank = len(b.dims(op.x))
    axes = b.constant(np.array(range(op.axis % rank, rank), np.int64))
    mean = b(ReduceMean, _squared(b, op.x), axes)
    return b(Mul, b(Div, op.x, b(Sqrt, b(Add, mean, b.like(op.x, op.epsilon)))), op.scale)


@GroupNormalizationView.export_rule("onnx", until=20)
def group_normalization_in_steps(b: Builder, op: GroupNormalizationView) -> Value:
    """Export GroupNormalization: normalize groups as samples, then scale and shift each channel."""
    scale, bias = op.scale, op.bias
    unsupported((op.stash_type != 1, "mean and variance must have the element type of x"))
    rank = len(b.dims(op.x))
    groups = b(Reshape, op.x, [0, op.num_groups, -1])
    if op.x.dtype is DType.BFLOAT16:
        normalized = _standardized(b, groups, (2,), op.epsilon)  # instances of that type came with opset 22
    else:
        ones, zeros = (b.like(op.x, np.full(op.num_groups, number)) for number in (1, 0))
        normalized = b(InstanceNormalization, groups, ones, zeros, epsilon=op.epsilon)
    y = b(Reshape, normalized, b(Shape, op.x))
    scale, bias = (_by_channel(b, value, rank) for value in (scale, bias))
    return b(Add, b(Mul, y, scale), bias)


def _by_channel(b: Builder, value: Value, rank: int) -> Value:
    """Reshape per-channel elements to broadcast with samples [C, …], `rank` counting the batch."""
    (channels,) = b.dims(value, 1)
    known = b.reshaped(value, (channels, *(1,) * (rank - 2))) if isinstance(channels, int) else None
    if rank == 2 or known is not None:
        return known or value
    return b(Unsqueeze, value, b.constant(np.arange(1, rank - 1)))

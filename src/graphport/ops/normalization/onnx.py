"""Older forms of normalizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import UnsupportedError
from graphport.ops.normalization import BatchNormalization, GroupNormalization, InstanceNormalization
from graphport.ops.reshape import Flatten, Reshape, Shape

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@BatchNormalization.lower("onnx", until=13)
def batch_normalization_13(
    b: Builder,
    x: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> tuple[Value, ...]:
    """More than one result meant training."""
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
        epsilon=epsilon,
        momentum=momentum,
        training_mode=training or None,
    )


@BatchNormalization.lower("onnx", until=8)
def batch_normalization_8(
    b: Builder,
    x: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Value, ...]:
    """Statistics per channel or, with `spatial` 0, per entry of a sample."""
    if spatial:
        return batch_normalization_13(b, x, scale, shift, mean, var, epsilon=epsilon, momentum=momentum)
    # Every entry of a sample becomes a channel.
    vectors = [b(Reshape, value, b.constant([-1])) for value in (scale, shift, mean, var)]
    y, *running = batch_normalization_13(b, b(Flatten, x), *vectors, epsilon=epsilon, momentum=momentum)
    return (b(Reshape, y, b(Shape, x)), *(b(Reshape, found, b(Shape, mean)) for found in running))


@BatchNormalization.lower("onnx", until=6)
def batch_normalization_6(
    b: Builder,
    x: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    var: Value,
    *,
    consumed_inputs: tuple[int, ...] | None = None,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> tuple[Value, ...]:
    """`is_test` or a single result meant inference; `consumed_inputs` allowed to write over operands."""
    del consumed_inputs
    if is_test and b.count > 1:
        message = "inference with more than one result has no canonical form"
        raise UnsupportedError(message)
    return batch_normalization_8(b, x, scale, shift, mean, var, epsilon=epsilon, momentum=momentum, spatial=spatial)


@InstanceNormalization.lower("onnx", until=5)
def instance_normalization_5(
    b: Builder,
    input: Value,
    scale: Value,
    shift: Value,
    *,
    consumed_inputs: tuple[int, ...] | None = None,
    epsilon: float = 1e-5,
) -> Value:
    """`consumed_inputs` allowed to write over operands."""
    del consumed_inputs
    return b(InstanceNormalization, input, scale, shift, epsilon=epsilon)


@GroupNormalization.lower("onnx", until=20)
def group_normalization_20(
    b: Builder, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int
) -> Value:
    """One factor and summand a group: instances whose channels are the groups."""
    groups = b(Reshape, x, b.constant([0, num_groups, -1]))
    return b(Reshape, b(InstanceNormalization, groups, scale, bias, epsilon=epsilon), b(Shape, x))

"""Normalization of each sample over its channels, over groups of channels, or over given axes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.normalization.batch import check_vectors
from graphport.ops.shapes import axis_indices, check_rank
from graphport.ops.types import FLOATS, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.normalization import GroupNormalizationView

T = Annotated[Tensor, Types("T", FLOATS)]

STASH = {1: np.dtype(np.float32), 10: np.dtype(np.float16), 11: np.dtype(np.float64), 16: np.dtype(np.float32)}
"""Computation type by `stash_type` (ONNX's numbers); bfloat16 rounds its results afterwards."""


def standardized(x: Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return `(x - mean) / sqrt(var + epsilon)` over `axes`, the mean, and the inverse deviation (keepdims)."""
    mean = x.mean(axis=axes, keepdims=True)
    centred = x - mean
    inverse = 1 / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + x.dtype.type(epsilon))
    return centred * inverse, mean, inverse


def _instance_shape(input: TensorFact, scale: TensorFact, b: TensorFact, *, epsilon: float = 1e-5) -> TensorFact:
    channels = None
    if input.shape is not None:
        check_rank(input, 3, "input")
        channels = input.shape[1]
    check_vectors(channels, scale=scale, b=b)
    return input.with_shape(input.shape)


@op(
    shape=_instance_shape,
    since=6,
    outputs=("output",),
    exactness="accumulation",
    role="pointwise",
    ranks={"input": (3, None), "scale": 1, "b": 1},
)
def InstanceNormalization(input: T, scale: T, b: T, *, epsilon: float = 1e-5) -> T:
    """Each feature map with mean 0 and variance 1, times `scale`, plus `b` of its channel.

    Shapes: input [N, C, *d], scale and b [C] → [N, C, *d].

    Raises:
        ShapeError: `scale` or `b` does not have one entry per channel.

    Source: ONNX InstanceNormalization-22.
    """
    wide = np.result_type(input.dtype, np.float32)
    y, _, _ = standardized(input.astype(wide), tuple(range(2, input.ndim)), epsilon)
    channel = (-1, *[1] * (input.ndim - 2))
    return (y * scale.astype(wide).reshape(channel) + b.astype(wide).reshape(channel)).astype(input.dtype)


@viewed
def _group_shape(op: GroupNormalizationView[TensorFact]) -> TensorFact:
    check_stash(op.stash_type)
    if op.num_groups < 1:
        message = f"num_groups is {op.num_groups}"
        raise ShapeError(message, "at least 1")
    channels = None
    if op.x.shape is not None:
        check_rank(op.x, 2, "x")
        channels = op.x.shape[1]
    channels = check_vectors(channels, scale=op.scale, bias=op.bias)
    if isinstance(channels, int) and channels % op.num_groups:
        message = f"{channels} channels do not split into {op.num_groups} groups"
        raise ShapeError(message)
    return op.x.with_shape(op.x.shape)


def check_stash(stash_type: int) -> None:
    """Check that `stash_type` is a floating-point type.

    Raises:
        ShapeError: it is another type.
    """
    if stash_type not in STASH:
        message = f"stash_type is {stash_type}"
        raise ShapeError(message, "1 float32, 10 float16, 11 float64 or 16 bfloat16")


@op(
    shape=_group_shape,
    since=21,
    exactness="accumulation",
    role="pointwise",
    ranks={"x": (2, None), "scale": 1, "bias": 1},
)
def GroupNormalization(x: T, scale: T, bias: T, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1) -> T:
    """Groups of channels with mean 0 and variance 1, times `scale`, plus `bias` of each channel.

    Shapes: x [N, C, *d], scale and bias [C] → [N, C, *d].

    Raises:
        ShapeError: the channels do not split into `num_groups`, or a vector does not have one entry per channel.

    Source: ONNX GroupNormalization-21.
    """
    wide = np.result_type(STASH[stash_type], np.float32)
    groups = x.astype(wide).reshape(x.shape[0], num_groups, prod(x.shape[1:]) // num_groups)
    y = standardized(groups, (2,), epsilon)[0].reshape(x.shape).astype(x.dtype)
    channel = (-1, *[1] * (x.ndim - 2))
    return y * scale.reshape(channel) + bias.reshape(channel)


def _mean_variance_shape(x: TensorFact, *, axes: tuple[int, ...] = (0, 2, 3)) -> TensorFact:
    if x.shape is not None:
        axis_indices(axes, x.rank)
    return x.with_shape(x.shape)


@op(shape=_mean_variance_shape, since=9, exactness="accumulation", role="pointwise")
def MeanVarianceNormalization(x: T, *, axes: tuple[int, ...] = (0, 2, 3)) -> T:
    """`(x - mean) / (deviation + 1e-9)` over `axes`.  Shapes: x [*s] → [*s].

    Raises:
        ShapeError: an axis is outside of the tensor, or named twice.

    Source: ONNX MeanVarianceNormalization-13.
    """
    wide = np.result_type(x.dtype, np.float32)
    a = x.astype(wide)
    centred = a - a.mean(axis=axes, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=axes, keepdims=True))
    return (centred / (deviation + wide.type(1e-9))).astype(x.dtype)

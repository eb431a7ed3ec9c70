"""Normalization by statistics of the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import check_rank, same_dim
from graphport.ops.types import FLOATS, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.normalization import BatchNormalizationView

T = Annotated[Tensor, Types("T", FLOATS)]
T1 = Annotated[Tensor, Types("T1", FLOATS)]
T2 = Annotated[Tensor, Types("T2", FLOATS)]


@viewed
def _batch_shape(op: BatchNormalizationView[TensorFact]) -> list[TensorFact]:
    channels: Dim | None = None
    if op.x.shape is not None:
        check_rank(op.x, 1, "x")
        channels = op.x.shape[1] if len(op.x.shape) > 1 else 1
    channels = check_vectors(channels, scale=op.scale, b=op.b, input_mean=op.input_mean, input_var=op.input_var)
    running = op.input_mean.with_shape(None if channels is None else (channels,))
    return [op.x.with_shape(op.x.shape), running, running.with_dtype(op.input_var.dtype)]


def check_vectors(channels: Dim | None, **vectors: TensorFact) -> Dim | None:
    """Return the number of channels that all `vectors` (one element per channel) agree on; None if unknown.

    Raises:
        ShapeError: an operand is not a vector, or lengths differ.
    """
    for name, fact in vectors.items():
        if fact.shape is None:
            continue
        if len(fact.shape) != 1:
            message = f"{name} has the shape {list(fact.shape)}"
            raise ShapeError(message, "expected rank 1: one element per channel")
        channels = fact.shape[0] if channels is None else same_dim(channels, fact.shape[0], f"channels and {name}")
    return channels


@op(
    bias="b",
    shape=_batch_shape,
    since=14,
    outputs=("y", "running_mean", "running_var"),
    exactness="rounding",
    role="pointwise",
    ranks={"scale": 1, "b": 1, "input_mean": 1, "input_var": 1},
)
def BatchNormalization(
    x: T,
    scale: T1,
    b: T1,
    input_mean: T2,
    input_var: T2,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[T, T2, T2]:
    """`(x - mean) / sqrt(var + epsilon) * scale + b` per channel, with stored statistics or, in training, those of `x`.

    In training the running statistics are `input * momentum + current * (1 - momentum)`, with the biased variance.
    Otherwise they are returned unchanged.

    Shapes: x [N, C, *d], all others [C] → [N, C, *d], [C], [C].

    Raises:
        ShapeError: a vector does not have one element per channel.

    Source: ONNX BatchNormalization-15.
    """
    wide = np.result_type(x.dtype, np.float32)
    channel = (-1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (-1,)
    a = x.astype(wide)
    mean, var = input_mean.astype(wide), input_var.astype(wide)
    running_mean, running_var = input_mean, input_var
    if training_mode:
        others = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean, var = a.mean(axis=others).reshape(-1), a.var(axis=others).reshape(-1)
        kept = wide.type(momentum)
        running_mean = (input_mean.astype(wide) * kept + mean * (1 - kept)).astype(input_mean.dtype)
        running_var = (input_var.astype(wide) * kept + var * (1 - kept)).astype(input_var.dtype)
    factor = scale.astype(wide) / np.sqrt(var + wide.type(epsilon))
    y = (a - mean.reshape(channel)) * factor.reshape(channel) + b.astype(wide).reshape(channel)
    return y.astype(x.dtype), running_mean, running_var

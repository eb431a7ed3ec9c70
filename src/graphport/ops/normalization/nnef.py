"""Normalizations in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.ops.convolution.borders import fact_of
from graphport.ops.declare import lower
from graphport.ops.normalization import BatchNormalization
from graphport.ops.reshape import Squeeze

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("nnef", "batch_normalization")
def batch_normalization(
    b: Builder, input: Value, mean: Value, variance: Value, offset: Value, scale: Value, *, epsilon: float
) -> Value:
    """Statistics given as (1, C)."""
    channels = b.dims(input)[1]
    vectors = [_vector(b, value, channels) for value in (scale, offset, mean, variance)]
    return b(BatchNormalization, input, *vectors, epsilon=epsilon)


def _vector(b: Builder, value: Value, channels: Dim) -> Value:
    dims = b.dims(value)
    flat = b.reshaped(value, [dims[1]]) if isinstance(dims[1], int) else None
    return flat or b(Squeeze, value, b.constant([0]))


@BatchNormalization.lift("nnef")
def lift_batch_normalization(
    b: Builder,
    x: Value,
    scale: Value,
    shift: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Value, ...] | None:
    """Inference alone; statistics become (1, C)."""
    del momentum
    if training_mode or b.count > 1:
        return None
    rows = [_row(b, value) for value in (mean, var, shift, scale)]
    return b.word("batch_normalization", x, *rows, epsilon=epsilon)


def _row(b: Builder, value: Value) -> Value:
    channels = b.dims(value)[0]
    flat = b.reshaped(value, [1, channels]) if isinstance(channels, int) else None
    fact = TensorFact(fact_of(value).dtype, (1, channels))
    return flat or b.word("unsqueeze", value, facts=[fact], axes=(0,))[0]

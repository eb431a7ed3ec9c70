"""Normalization to mean 0 and variance 1, from basic operators."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.convolution_borders import fact_of
from graphport.formats.nnef.rules.formula import term
from graphport.formats.nnef.rules.normalization.named import channel_row
from graphport.ops.definitions.normalization.groups import (
    InstanceNormalization,
    MeanVarianceNormalization,
)
from graphport.ops.lowering.leading_broadcast import emit_elementwise
from graphport.ops.views.normalization import GroupNormalizationView, LayerNormalizationView, RMSNormalizationView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_TINY = 1e-9


def _from(b: Builder, x: Value, axis: int) -> tuple[int, ...]:
    rank = len(b.dims(x))
    return tuple(range(axis % rank, rank))


def _reduced(b: Builder, x: Value, axes: Sequence[int]) -> Fact:
    indices = {axis % len(b.dims(x)) for axis in axes}
    return TensorFact(fact_of(x).dtype, tuple(1 if place in indices else dim for place, dim in enumerate(b.dims(x))))


def _moments(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Return mean, x - mean, and variance over `axes`."""
    indices = tuple(axis % len(b.dims(x)) for axis in axes)
    fact = _reduced(b, x, axes)
    mean = term(b, "mean_reduce", x, fact=fact, axes=indices)
    centred = term(b, "sub", x, mean)
    return mean, centred, term(b, "mean_reduce", term(b, "sqr", centred), fact=fact, axes=indices)


def _standardized(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    _, centred, variance = _moments(b, x, axes)
    return term(b, "div", centred, term(b, "sqrt", term(b, "add", variance, epsilon)))


@LayerNormalizationView.export_rule("nnef")
def export_layer_normalization(b: Builder, op: LayerNormalizationView) -> tuple[Value, ...] | None:
    """Export LayerNormalization by its formula, with the optional mean and inverse deviation."""
    if op.stash_type != 1:
        return None
    mean, centred, variance = _moments(b, op.x, _from(b, op.x, op.axis))
    deviation = term(b, "sqrt", term(b, "add", variance, op.epsilon))
    y = emit_elementwise(b, "mul", term(b, "div", centred, deviation), op.scale)[0]
    y = y if op.b is None else emit_elementwise(b, "add", y, op.b)[0]
    return (y, mean, term(b, "rcp", deviation))[: b.count] if b.count > 1 else (y,)


@RMSNormalizationView.export_rule("nnef")
def export_rms_normalization(b: Builder, op: RMSNormalizationView) -> tuple[Value, ...] | None:
    """Export RMSNormalization by its formula."""
    if op.stash_type != 1:
        return None
    axes = _from(b, op.x, op.axis)
    square = term(b, "mean_reduce", term(b, "sqr", op.x), fact=_reduced(b, op.x, axes), axes=axes)
    return emit_elementwise(
        b, "mul", term(b, "div", op.x, term(b, "sqrt", term(b, "add", square, op.epsilon))), op.scale
    )


@InstanceNormalization.export_rule("nnef")
def export_instance_normalization(
    b: Builder, input: Value, scale: Value, shift: Value, *, epsilon: float = 1e-5
) -> tuple[Value, ...]:
    """Export InstanceNormalization by its formula; scale and shift become (1, C)."""
    return (_per_channel(b, _standardized(b, input, _from(b, input, 2), epsilon), scale, shift),)


def _per_channel(b: Builder, x: Value, scale: Value, shift: Value) -> Value:
    return term(b, "add", term(b, "mul", x, channel_row(b, scale)), channel_row(b, shift))


@GroupNormalizationView.export_rule("nnef")
def export_group_normalization(b: Builder, op: GroupNormalizationView) -> tuple[Value, ...] | None:
    """Export GroupNormalization with a temporary group axis; all dims but the first must be static."""
    dims = b.dims(op.x)
    known = [dim for dim in dims[1:] if isinstance(dim, int)]
    if op.stash_type != 1 or len(known) < len(dims) - 1:
        return None
    grouped = _reshaped(b, op.x, op.num_groups, prod(known) // op.num_groups)
    whole = _reshaped(b, _standardized(b, grouped, (2,), op.epsilon), *known)
    return (_per_channel(b, whole, op.scale, op.bias),)


def _reshaped(b: Builder, x: Value, *extents: int) -> Value:
    """Reshape all axes of `x` after the first."""
    fact = TensorFact(fact_of(x).dtype, (b.dims(x, at_least=1)[0], *extents))
    return term(b, "reshape", x, fact=fact, shape=(0, *extents), axis_start=0, axis_count=-1)


@MeanVarianceNormalization.export_rule("nnef")
def export_mean_variance(b: Builder, x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> tuple[Value, ...]:
    """Export MeanVarianceNormalization as (x - mean) / (sqrt(variance) + epsilon)."""
    _, centred, variance = _moments(b, x, axes)
    return (term(b, "div", centred, term(b, "add", term(b, "sqrt", variance), _TINY)),)

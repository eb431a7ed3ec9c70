"""Normalizations of Keras in inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.keras.rules.binding import Layer, in_compute_type, layer
from graphport.formats.keras.rules.tensors import binary, reduced, weight_along
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Add, Div, Min, Mul, Reciprocal, Sqrt, Sub
from graphport.ops.definitions.normalization import BatchNormalization, LayerNormalization
from graphport.ops.definitions.normalization.groups import GroupNormalization
from graphport.ops.definitions.normalization.layer import RMSNormalization
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.lowering.operands import cast, dtype_of, in_float32, reshaped, sizes, transposed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_EPSILON = 1e-12


@layer(
    "BatchNormalization",
    weights="gamma:scale beta:center ~moving_mean ~moving_variance",
    call="x training mask",
    mask="keep",
    autocast=False,
)
def batch_normalization(
    at: Layer, *, axis: Any = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True
) -> Value:
    """Normalization with the moving mean and variance of each channel."""
    del center, scale
    b, x, rank = at.b, in_float32(at.b, at.x), at.rank
    axes = [axis] if isinstance(axis, int) else list(axis)
    mean, variance = at.need("moving_mean"), at.need("moving_variance")
    x = cast(b, x, dtype_of(mean))
    if len(axes) > 1:
        return in_compute_type(at, _normalized(at, x, [at.axis(each) for each in axes], epsilon))
    channel = at.axis(axes[0])
    if not channel:
        message = "the normalized axis is the batch axis"
        raise ShapeError(message)
    order = [0, channel, *(each for each in range(1, rank) if each != channel)]
    width = b.dims(mean)
    gamma = at.get("gamma") or _fill_vector(b, width, 1.0, mean)
    beta = at.get("beta") or _fill_vector(b, width, 0.0, mean)
    y = b(BatchNormalization, transposed(b, x, order), gamma, beta, mean, variance, epsilon=float(epsilon))
    return in_compute_type(at, transposed(b, y, np.argsort(order).tolist()))


def _normalized(at: Layer, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """Normalization whose weights have several axes."""
    b, rank = at.b, at.rank
    mean, variance = (weight_along(b, at.need(role), axes, rank) for role in ("moving_mean", "moving_variance"))
    y = b(Div, b(Sub, x, mean), b(Sqrt, binary(b, Add, variance, float(epsilon))))
    return _scaled(at, y, axes)


def _scaled(at: Layer, y: Value, axes: Sequence[int]) -> Value:
    """`y * gamma + beta`."""
    b, gamma, beta = at.b, at.get("gamma"), at.get("beta")
    rank = len(b.dims(y))
    y = y if gamma is None else b(Mul, y, weight_along(b, cast(b, gamma, dtype_of(y)), axes, rank))
    return y if beta is None else b(Add, y, weight_along(b, cast(b, beta, dtype_of(y)), axes, rank))


def _fill_vector(b: Builder, dims: Sequence[Any], number: float, like: Value) -> Value:
    return b.like(like, np.full(sizes(dims, "the channels"), number))


@layer("LayerNormalization", weights="gamma:scale beta:center&!rms_scaling", mask="keep", autocast=False)
def layer_normalization(
    at: Layer,
    *,
    axis: Any = -1,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    rms_scaling: bool = False,
) -> Value:
    """Normalization over some axes of each item."""
    del center, scale
    b, x, rank = at.b, in_float32(at.b, at.x), at.rank
    axes = sorted(at.axis(each) for each in ([axis] if isinstance(axis, int) else axis))
    if rms_scaling:
        # Keras divides by the standard deviation, despite the option's name.
        return in_compute_type(at, _rms_scaled(at, x, axes, epsilon, centers=True))
    if axes != list(range(axes[0], rank)):
        mean = reduced(b, ReduceMean, x, axes, keepdims=True)
        centred = b(Sub, x, mean)
        variance = reduced(b, ReduceMean, b(Mul, centred, centred), axes, keepdims=True)
        y = b(Div, centred, b(Sqrt, binary(b, Add, variance, float(epsilon))))
        return in_compute_type(at, _scaled(at, y, axes))
    dims = b.dims(at.get("gamma") or at.get("beta") or x)[-len(axes) :]
    gamma, beta = at.get("gamma"), at.get("beta")
    gamma = b.like(x, np.ones(sizes(dims, "the normalized axes"))) if gamma is None else cast(b, gamma, dtype_of(x))
    if len(b.dims(gamma)) != len(axes):
        gamma = reshaped(b, gamma, sizes(b.dims(x)[-len(axes) :], "the normalized axes"))
    beta = None if beta is None else cast(b, beta, dtype_of(x))
    if beta is not None and len(b.dims(beta)) != len(axes):
        beta = reshaped(b, beta, sizes(b.dims(x)[-len(axes) :], "the normalized axes"))
    y = b(LayerNormalization, x, gamma, beta, axis=axes[0] - rank, epsilon=float(epsilon))
    return in_compute_type(at, y)


def _rms_scaled(at: Layer, x: Value, axes: Sequence[int], epsilon: float, *, centers: bool = False) -> Value:
    """Division by the root mean square; by the standard deviation if `centers`."""
    b = at.b
    y = b(Sub, x, reduced(b, ReduceMean, x, axes, keepdims=True)) if centers else x
    mean = reduced(b, ReduceMean, b(Mul, y, y), axes, keepdims=True)
    y = b(Mul, x, b(Reciprocal, b(Sqrt, binary(b, Add, mean, float(epsilon)))))
    gamma = at.get("gamma") or at.get("scale")
    return y if gamma is None else b(Mul, y, weight_along(b, cast(b, gamma, dtype_of(y)), axes, at.rank))


@layer("RMSNormalization", weights="scale", call="x", mask="keep")
def rms_normalization(at: Layer, *, axis: Any = -1, epsilon: float = 1e-6) -> Value:
    """Division by the root of the mean of the squares over some axes."""
    axes = sorted(at.axis(each) for each in ([axis] if isinstance(axis, int) else axis))
    x, scale = at.x, at.need("scale")
    if axes == [at.rank - 1] and len(at.b.dims(scale)) == 1:
        return at.b(RMSNormalization, x, scale, axis=-1, epsilon=float(epsilon))
    return in_compute_type(at, _rms_scaled(at, x, axes, epsilon))


@layer("GroupNormalization", weights="gamma:scale beta:center", mask="keep", autocast=False)
def group_normalization(
    at: Layer, *, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True
) -> Value:
    """Normalization over the elements of groups of channels."""
    del center, scale
    b, x, rank = at.b, in_float32(at.b, at.x), at.rank
    channel = at.axis(axis)
    (channels,) = sizes(b.dims(x)[channel : channel + 1], "the channels")
    count = channels if groups == -1 else groups
    order = [0, channel, *(each for each in range(1, rank) if each != channel)]
    gamma = at.get("gamma") or b.like(x, np.ones(channels))
    beta = at.get("beta") or b.like(x, np.zeros(channels))
    y = b(
        GroupNormalization,
        transposed(b, x, order),
        cast(b, gamma, dtype_of(x)),
        cast(b, beta, dtype_of(x)),
        num_groups=count,
        epsilon=float(epsilon),
    )
    return in_compute_type(at, transposed(b, y, np.argsort(order).tolist()))


@layer("UnitNormalization", mask="keep")
def unit_normalization(at: Layer, *, axis: Any = -1) -> Value:
    """Division by the length over some axes."""
    axes = [at.axis(each) for each in ([axis] if isinstance(axis, int) else axis)]
    return unit_length(at.b, at.x, axes, _EPSILON)


def unit_length(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """`x` divided by its length over some axes, or by `epsilon` if that is larger."""
    total = reduced(b, ReduceSum, b(Mul, x, x), axes, keepdims=True)
    inverse = b(Reciprocal, b(Sqrt, total))
    return b(Mul, x, binary(b, Min, inverse, 1.0 / epsilon))

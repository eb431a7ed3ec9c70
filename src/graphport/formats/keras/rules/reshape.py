"""Layers of Keras that move elements, and layers that do nothing in inference."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from graphport.formats.keras.rules.binding import Layer, layer
from graphport.formats.keras.rules.tensors import FIRST, expand_like, reshape_to, shape_like, unsqueezed
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.reshape import Concat, Flatten, Identity, Reshape
from graphport.ops.lowering.operands import transposed, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value

_IDENTITIES = (
    *("Identity", "InputLayer", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
    *("GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization"),
)


@layer(*_IDENTITIES, call="x training", mask="keep")
def identity(at: Layer, *, l1: Any = None, l2: Any = None, stddev: Any = None, data_format: Any = None) -> Value:
    """The input; noise and dropout are for training."""
    del l1, l2, stddev, data_format
    return at.b(Identity, at.x)


@layer("Flatten")
def flatten(at: Layer, *, data_format: str | None = None) -> Value:
    """Join all axes but the first one, after channels are moved to the end."""
    b, x, rank = at.b, at.x, at.rank
    if rank == 1:
        return unsqueezed(b, x, [1])
    if data_format == FIRST and rank > 2:
        x = transposed(b, x, (0, *range(2, rank), 1))
    return b(Flatten, x, axis=1)


@layer("Reshape")
def reshape(at: Layer, *, target_shape: Any = ()) -> Value:
    """Reshape each item of the batch."""
    dims = at.dims()
    target = list(target_shape)
    inner = dims[1:]
    if target.count(-1) == 1 and all(isinstance(dim, int) for dim in inner):
        known, total = prod(n for n in target if n != -1), prod(dim for dim in inner if isinstance(dim, int))
        if known and total % known == 0:
            target[target.index(-1)] = total // known
    return reshape_to(at.b, at.x, [(at.x, 0), *target])


@layer("Permute")
def permute(at: Layer, *, dims: Any = ()) -> Value:
    """Permute the axes of each item; `dims` count from 1, because axis 0 is the batch."""
    if sorted(dims) != list(range(1, at.rank)):
        message = f"dims are {tuple(dims)} for rank {at.rank}"
        raise ShapeError(message)
    return transposed(at.b, at.x, (0, *dims))


@layer("RepeatVector")
def repeat_vector(at: Layer, *, n: int = 1) -> Value:
    """`n` copies along a new axis 1."""
    x = unsqueezed(at.b, at.x, [1])
    return expand_like(at.b, x, [(x, 0), n, (x, 2)])


@layer("Concatenate", mask="concatenate")
def concatenate(at: Layer, *, axis: int = -1) -> Value:
    """Concatenate the inputs along an axis."""
    return at.b(Concat, *at.inputs, axis=at.axis(axis))


@layer("TimeDistributed.fold", autocast=False)
def fold_time(at: Layer) -> Value:
    """[batch, time, ...] as [batch * time, ...]."""
    b, x = at.b, at.x
    rest = [(x, axis) for axis in range(2, at.rank)]
    if all(isinstance(dim, int) for dim in at.dims()[2:]):
        return b(Reshape, x, vector(b, [-1, *(dim for dim in at.dims()[2:] if isinstance(dim, int))]))
    return b(Reshape, x, shape_like(b, [-1, *rest]))


@layer("TimeDistributed.unfold", autocast=False, call="x like")
def unfold_time(at: Layer) -> Value:
    """[batch * time, ...] as [batch, time, ...], where `like` has the first two axes."""
    like = at.need("like")
    rest = [(at.x, axis) for axis in range(1, at.rank)]
    return reshape_to(at.b, at.x, [(like, 0), (like, 1), *rest])

"""Positions as rotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import row_of_table
from graphport.ops.shapes import same_dim
from graphport.ops.special_functions import widened
from graphport.ops.types import FLOAT32, HALF, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.attention import RotaryEmbeddingView

T = Annotated[Tensor, Types("T", FLOAT32 | HALF)]
M = Annotated[Tensor, Types("M", INT64)]


@viewed
def _rotary_shape(op: RotaryEmbeddingView[TensorFact]) -> TensorFact:
    if op.x.shape is None:
        return TensorFact(op.x.dtype, None)
    rotated = op.rotary_embedding_dim or _head_size(op.x, op.num_heads)
    if isinstance(rotated, int) and rotated % 2:
        message = f"{rotated} rotated columns per head, expected an even number"
        raise ShapeError(message, "set an even rotary_embedding_dim")
    rank = 3 if op.position_ids is None else 2
    for name, cache in (("cos_cache", op.cos_cache), ("sin_cache", op.sin_cache)):
        if cache.shape is None:
            continue
        if cache.rank != rank:
            message = f"{name} has rank {cache.rank}"
            raise ShapeError(message, "3 without position_ids: batch, position, pair; 2 with: position, pair")
        same_dim(cache.dims[-1], rotated // 2, f"pairs in {name}")
    return TensorFact(op.x.dtype, op.x.shape)


def _head_size(x: TensorFact, heads: int | None) -> Dim:
    if x.rank == 4:
        return x.dims[3]
    if x.rank != 3:
        message = f"X has rank {x.rank}"
        raise ShapeError(message, "expected rank 3 [batch, length, heads * size] or 4 [batch, heads, length, size]")
    width = x.dims[2]
    if not heads or heads < 0 or (isinstance(width, int) and width % heads):
        message = f"X has {width} columns, which cannot be split into {heads} heads"
        raise ShapeError(message, "set num_heads to the head count")
    return width // heads


@op(
    shape=_rotary_shape,
    since=23,
    exactness="rounding",
    role="pointwise",
    index_operands=("position_ids",),
    holds={"position_ids": row_of_table},
    ranks={"x": (3, 4), "cos_cache": (2, 3), "sin_cache": (2, 3), "position_ids": 2},
)
def RotaryEmbedding(
    x: T,
    cos_cache: T,
    sin_cache: T,
    position_ids: M | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> T:
    """Rotary position embedding: rotate pairs of channels of each head by an angle that depends on the position.

    The first `rotary_embedding_dim` channels of a head are rotated, all of them if it is 0. A pair is two neighbouring
    channels if `interleaved`, else one channel of the first half and one of the second half.

    Shapes: x [B, N, L, H] or [B, L, N * H]; caches [positions, pairs] and position_ids [B, L], or caches
    [B, L, pairs] → shape of x.

    Raises:
        ShapeError: the channels do not divide into heads and pairs, or the caches have another number of pairs.

    Source: ONNX RotaryEmbedding-23.
    """
    heads = np.swapaxes(x, 1, 2) if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads or 1, -1)
    count = rotary_embedding_dim or heads.shape[3]
    cos, sin = (cache if position_ids is None else cache[position_ids] for cache in (cos_cache, sin_cache))
    cos, sin = (widened(cache)[:, :, None, :] for cache in (cos, sin))
    rotated = widened(heads[..., :count])
    a, b = (rotated[..., 0::2], rotated[..., 1::2]) if interleaved else np.split(rotated, 2, -1)
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    pairs = np.stack((real, imaginary), -1) if interleaved else np.concatenate((real, imaginary), -1)
    both = np.concatenate((pairs.reshape(rotated.shape).astype(x.dtype), heads[..., count:]), -1)
    return np.swapaxes(both, 1, 2) if x.ndim == 4 else both.reshape(x.shape)

"""Attention and related operators in TFLite, by their formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.attention import attention
from graphport.ops.definitions.arithmetic import Add, Mod, Mul, Sub
from graphport.ops.definitions.comparison import And, LessOrEqual, Where
from graphport.ops.definitions.indexing import Gather, ScatterElements, Slice
from graphport.ops.definitions.reshape import Concat, Expand, Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, transposed, vector
from graphport.ops.views.attention import AttentionView, RotaryEmbeddingView, TensorScatterView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"
_COMPUTE_PRECISIONS = (1, 11)
"""ONNX's numbers of float32, in which kernels compute, and of float64, for which float32 is accurate enough here."""
_HEADS = 4


@AttentionView.export_rule("tflite")
def export_attention(b: Builder, op: AttentionView) -> Exported:
    """Export Attention as the NNEF rule does; the number of valid keys becomes a mask."""
    if op.softmax_precision in _COMPUTE_PRECISIONS:
        op = replace(op, softmax_precision=None)
    if op.nonpad_kv_seqlen is not None:
        window = op.left_window_size, 0 if op.is_causal else op.right_window_size
        mask = _masked(b, (op.q, op.k), op.attn_mask, op.nonpad_kv_seqlen, window)
        op = replace(op, attn_mask=mask, nonpad_kv_seqlen=None, is_causal=0, left_window_size=-1, right_window_size=-1)
    return attention(b, op)


def _masked(
    b: Builder, operands: tuple[Value, Value], mask: Value | None, lengths: Value, window: tuple[int, int]
) -> Value:
    """Additive mask [batch, heads or 1, queries, keys].

    0 where a query attends to a key, else -inf, plus the given mask.
    """
    queries, keys = (sizes(b.dims(x)[-2:-1], "the queries and keys")[0] for x in operands)
    reserve(queries, keys)
    count = reshaped(b, cast(b, lengths, DType.INT64), (-1, 1, 1, 1))
    place = b.constant(np.arange(keys, dtype=np.int64))
    seen = b(LessOrEqual, b(Add, place, 1), count)
    # Query i is at position lengths - queries + i.
    rows = b(Add, count, b.constant(np.arange(-queries, 0, dtype=np.int64)[:, None]))
    ahead = b(Sub, place, rows)
    left, right = window
    if left >= 0:
        seen = b(And, seen, b(LessOrEqual, b.constant(np.asarray(-left, np.int64)), ahead))
    if right >= 0:
        seen = b(And, seen, b(LessOrEqual, ahead, b.constant(np.asarray(right, np.int64))))
    like = operands[0]
    hidden = b.like(like, -np.inf)
    if mask is None:
        return b(Where, seen, 0.0, hidden)
    numbers = b(Where, mask, 0.0, hidden) if dtype_of(mask) is DType.BOOL else mask
    missing = keys - sizes(b.dims(mask)[-1:], "the columns of the mask")[0]
    if missing > 0:
        rows_of = sizes(b.dims(mask)[:-1], "the rows of the mask")
        numbers = b(Concat, numbers, b.like(like, np.full((*rows_of, missing), -np.inf)), axis=-1)
    return b(Where, seen, numbers, hidden)


@RotaryEmbeddingView.export_rule("tflite")
def export_rotary_embedding(b: Builder, op: RotaryEmbeddingView) -> Exported:
    """Export RotaryEmbedding: rotate pairs of columns by the angles of their positions."""
    dims = sizes(b.dims(op.x), "the rotated tensor")
    if len(dims) == _HEADS:
        heads = op.x
    else:
        batch, length, width = dims
        count = op.num_heads or 1
        heads = transposed(b, reshaped(b, op.x, (batch, length, count, width // count)), (0, 2, 1, 3))
    (size,) = sizes(b.dims(heads)[3:], "the head size")
    rotated = op.rotary_embedding_dim or size
    # [batch, 1, length, pairs]
    caches = [
        b(Unsqueeze, cache if op.position_ids is None else b(Gather, cache, op.position_ids, axis=0), [1])
        for cache in (op.cos_cache, op.sin_cache)
    ]
    y = _rotated(b, _columns(b, heads, 0, rotated), caches, rotated, interleaved=bool(op.interleaved))
    if rotated < size:
        y = b(Concat, y, _columns(b, heads, rotated, size), axis=3)
    return (y if len(dims) == _HEADS else reshaped(b, transposed(b, y, (0, 2, 1, 3)), dims),)


def _columns(b: Builder, x: Value, start: int, stop: int, step: int = 1) -> Value:
    return b(Slice, x, *(vector(b, [n]) for n in (start, stop, 3, step)))


def _rotated(b: Builder, x: Value, caches: Sequence[Value], size: int, *, interleaved: bool) -> Value:
    cos, sin = caches
    half = size // 2
    steps = ((0, size, 2), (1, size, 2)) if interleaved else ((0, half, 1), (half, size, 1))
    first, second = (_columns(b, x, *step) for step in steps)
    real = b(Sub, b(Mul, first, cos), b(Mul, second, sin))
    other = b(Add, b(Mul, first, sin), b(Mul, second, cos))
    if not interleaved:
        return b(Concat, real, other, axis=3)
    pairs = b(Concat, *(b(Unsqueeze, part, [4]) for part in (real, other)), axis=4)
    return reshaped(b, pairs, sizes(b.dims(x), "the rotated tensor"))


@TensorScatterView.export_rule("tflite")
def export_tensor_scatter(b: Builder, op: TensorScatterView) -> Exported:
    """Export TensorScatter: replace rows of a cache from a position on, which differs by sample."""
    dims, given = sizes(b.dims(op.past_cache), "the cache"), sizes(b.dims(op.update), "the update")
    at = op.axis % len(dims)
    if at == 0:
        message = "the cache is updated along axis 0, expected another axis than the batch"
        raise UnsupportedError(message)
    reserve(*given)
    behind = [1] * (len(dims) - at - 1)
    indices = b.constant(np.arange(given[at], dtype=np.int64).reshape(-1, *behind))
    if op.write_indices is not None:
        start = reshaped(b, cast(b, op.write_indices, DType.INT64), (-1, *[1] * (len(dims) - 1)))
        indices = b(Add, indices, start)
    if op.mode == "circular":
        indices = b(Mod, indices, b.constant(np.asarray(dims[at], np.int64)))
    return (b(ScatterElements, op.past_cache, b(Expand, indices, given), op.update, axis=at),)

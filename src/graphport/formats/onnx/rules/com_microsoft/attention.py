"""Attention as ONNX Runtime's own domain has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.formats.onnx.rules.com_microsoft.binding import dtype_of, import_rule, only
from graphport.formats.onnx.rules.com_microsoft.matmul import matmul_integer_to_float
from graphport.ops.definitions.arithmetic import Add, Cast, Max, Sub
from graphport.ops.definitions.attention.attention import Attention
from graphport.ops.definitions.attention.cache import TensorScatter
from graphport.ops.definitions.attention.rotary import RotaryEmbedding
from graphport.ops.definitions.comparison import Less, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Split, Squeeze, Transpose, Unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_HIDDEN = -10000.0
"""Default number added to masked scores."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """Attributes that forms of attention share."""

    heads: int
    scale: float = 0.0
    unidirectional: int = 0
    hidden: float = _HIDDEN


@import_rule("Attention")
def attention(
    b: Builder,
    x: Value,
    weights: Value,
    bias: Value | None = None,
    mask_index: Value | None = None,
    past: Value | None = None,
    attention_bias: Value | None = None,
    past_sequence_length: Value | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = _HIDDEN,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: tuple[int, ...] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value | None, ...]:
    """Attention: one projection of the input contains queries, keys and values."""
    del rotary_embedding_dim
    is_plain = not do_rotary and not past_present_share_buffer and past_sequence_length is None
    only("attention without rotary embedding and shared caches", holds=is_plain)
    projected = b(MatMul, x, weights)
    projected = projected if bias is None else b(Add, projected, bias)
    settings = _Settings(num_heads, scale, unidirectional, mask_filter_value)
    return _of_itself(b, settings, projected, qkv_hidden_sizes, mask_index, past, attention_bias)


@import_rule("QAttention")
def quantized_attention(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value,
    x_scale: Value,
    weight_scale: Value,
    mask_index: Value | None = None,
    x_zero_point: Value | None = None,
    weight_zero_point: Value | None = None,
    past: Value | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = _HIDDEN,
    num_heads: int,
    past_present_share_buffer: int = 0,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value | None, ...]:
    """The same, with a projection of integers."""
    only("attention without rotary embedding and shared caches", holds=not do_rotary and not past_present_share_buffer)
    projected = matmul_integer_to_float(b, x, weight, x_scale, weight_scale, x_zero_point, weight_zero_point, bias)
    settings = _Settings(num_heads, scale, unidirectional, mask_filter_value)
    return _of_itself(b, settings, projected, None, mask_index, past, None)


def _of_itself(
    b: Builder,
    settings: _Settings,
    projected: Value,
    sizes: Sequence[int] | None,
    mask_index: Value | None,
    past: Value | None,
    attention_bias: Value | None,
) -> tuple[Value | None, ...]:
    q, k, v = _thirds(b, projected, sizes)
    caches: list[Value | None] = [None, None]
    if past is not None:
        caches = [b(Squeeze, half, [0]) for half in b.results(Split, 2, past, axis=0, num_outputs=2)]
    bias = _bias(b, settings, q, k, mask_index, attention_bias, caches[0])
    y, *present = _attended(b, settings, [q, k, v, bias, *caches], 3 if b.wants(1) else 1)
    if not present:
        return (y,)
    return y, b(Concat, *(b(Unsqueeze, half, [0]) for half in present), axis=0)


def _thirds(b: Builder, projected: Value, sizes: Sequence[int] | None) -> tuple[Value, ...]:
    if sizes is None:
        width = b.dims(projected, at_least=1)[-1]
        each = width // 3 if isinstance(width, int) and width % 3 == 0 else 0
        only("a projection of known width", holds=each > 0)
        sizes = [each] * 3
    return b.results(Split, 3, projected, [*sizes], axis=2)


def _attended(b: Builder, settings: _Settings, operands: Sequence[Value | None], count: int) -> tuple[Value, ...]:
    is_split = len(b.dims(operands[0])) == 4 if operands[0] is not None else False
    heads = None if is_split else settings.heads
    return b.results(
        Attention,
        count,
        *operands,
        is_causal=1 if settings.unidirectional else None,
        q_num_heads=heads,
        kv_num_heads=heads,
        scale=settings.scale or None,
    )


def _bias(
    b: Builder,
    settings: _Settings,
    queries: Value,
    keys: Value,
    mask: Value | None,
    bias: Value | None,
    past: Value | None,
) -> Value | None:
    """Return the number added to the scores for a mask of 0 and 1 or lengths, plus `bias`."""
    if mask is None:
        return bias
    # ONNX Runtime's kernel of Attention wants a row for each query.
    one = b.integers([1])
    rows = b(Concat, one, one, b(Shape, queries, start=1, end=2), one, axis=0)
    seen = b(Expand, _key_mask(b, mask, keys, past), rows)
    hidden = b(Where, seen, b.like(keys, 0), b.like(keys, settings.hidden))
    return hidden if bias is None else b(Add, hidden, bias)


def _key_mask(b: Builder, mask: Value, keys: Value, past: Value | None) -> Value:
    """Return a boolean mask of the visible keys that broadcasts to [batch, heads, queries, keys]."""
    dims = b.dims(mask)
    if len(dims) in (2, 3):
        return b(Unsqueeze, b(Cast, mask, to=DType.BOOL), [*((1, 2) if len(dims) == 2 else (1,))])
    is_one_each = len(dims) == 1 and decide_equal(dims[0], b.dims(keys, at_least=1)[0]) is True
    only("a mask of keys, of queries and keys, or of a length for each sample", holds=is_one_each)
    axis = 1 if len(b.dims(keys)) == 3 else 2
    total = b(Shape, keys, start=axis, end=axis + 1)
    if past is not None:
        total = b(Add, total, b(Shape, past, start=2, end=3))
    zero, one = (b.constant(np.array(n, np.int64)) for n in (0, 1))
    positions = b(Range, zero, b(Squeeze, total), one)
    lengths = b(Cast, b(Unsqueeze, mask, [1, 2, 3]), to=DType.INT64)
    return b(Less, positions, lengths)


@import_rule("MultiHeadAttention")
def multi_head_attention(
    b: Builder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    bias: Value | None = None,
    key_padding_mask: Value | None = None,
    attention_bias: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    past_sequence_length: Value | None = None,
    cache_indirection: Value | None = None,
    *,
    mask_filter_value: float = _HIDDEN,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> tuple[Value | None, ...]:
    """MultiHeadAttention of projected tensors, packed or separate, or with separate head axes."""
    is_plain = past_sequence_length is None and cache_indirection is None and not b.wants(3)
    only("growing caches and no attention scores as an output", holds=is_plain)
    settings = _Settings(num_heads, scale, unidirectional, mask_filter_value)
    q, k, v = _with_bias(b, *_unpacked(b, query, key, value), bias)
    mask = _bias(b, settings, q, k, key_padding_mask, attention_bias, past_key)
    is_split = len(b.dims(k)) == 4
    q = _split_heads(b, q, num_heads) if is_split else q
    count = 3 if b.wants(1) or b.wants(2) else 1
    y, *present = _attended(b, settings, [q, k, v, mask, past_key, past_value], count)
    return _heads_together(b, y) if is_split else y, *present


def _unpacked(b: Builder, query: Value, key: Value | None, value: Value | None) -> tuple[Value, Value, Value]:
    """Unpack queries, keys and values of rank 3, or keys and values of rank 4 with separate heads."""
    if key is None:
        only("queries, keys and values in one tensor of rank 5", holds=len(b.dims(query)) == 5 and value is None)
        q, k, v = _split_packed(b, query, 3)
        return q, k, v
    if value is None:
        only("keys and values in one tensor of rank 5", holds=len(b.dims(key)) == 5)
        k, v = _split_packed(b, key, 2)
        return query, k, v
    only("queries, keys and values of rank 3", holds=len(b.dims(query)) == 3 and len(b.dims(key)) in (3, 4))
    return query, key, value


def _split_packed(b: Builder, packed: Value, count: int) -> list[Value]:
    """Split [batch, length, heads, count, size] into `count` tensors with merged heads."""
    parts = b.results(Split, count, packed, axis=3, num_outputs=count)
    return [b(Reshape, part, [0, 0, -1]) for part in parts]


def _with_bias(b: Builder, q: Value, k: Value, v: Value, bias: Value | None) -> tuple[Value, Value, Value]:
    if bias is None:
        return q, k, v
    widths = [b.dims(x, at_least=1)[-1] for x in (q, k, v)]
    known = [width for width in widths if isinstance(width, int)]
    only("a bias of three tensors of known width", holds=len(known) == 3 and len(b.dims(k)) == 3)
    summands = b.results(Split, 3, bias, [*known], axis=0)
    first, second, third = (b(Add, x, summand) for x, summand in zip((q, k, v), summands, strict=True))
    return first, second, third


def _split_heads(b: Builder, x: Value, heads: int) -> Value:
    return b(Transpose, b(Reshape, x, [0, 0, heads, -1]), perm=(0, 2, 1, 3))


def _heads_together(b: Builder, x: Value) -> Value:
    return b(Reshape, b(Transpose, x, perm=(0, 2, 1, 3)), [0, 0, -1])


@import_rule("RotaryEmbedding")
def rotary_embedding(
    b: Builder,
    x: Value,
    position_ids: Value,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """RotaryEmbedding as in the default domain; a single position is the position of the first token."""
    only("a batch of one length, and no scale", holds=not is_packed_batching and scale == 1)
    heads: int | None = num_heads or None
    if heads is None and len(b.dims(x)) == 3:
        width, pairs = b.dims(x, at_least=3)[2], b.dims(cos_cache, at_least=2)[1]
        only("heads of known width", holds=isinstance(width, int) and isinstance(pairs, int) and pairs > 0)
        heads = width // (2 * pairs) if isinstance(width, int) and isinstance(pairs, int) else None
    positions = position_ids
    if len(b.dims(position_ids)) == 1:
        positions = _counted_from(b, x, position_ids)
    rotated = rotary_embedding_dim or None
    return b(
        RotaryEmbedding,
        x,
        cos_cache,
        sin_cache,
        positions,
        interleaved=interleaved or None,
        num_heads=heads if len(b.dims(x)) == 3 else None,
        rotary_embedding_dim=rotated,
    )


def _counted_from(b: Builder, x: Value, first: Value) -> Value:
    """Return positions `first`, `first + 1`, … of the tokens: [batch, length]."""
    axis = 2 if len(b.dims(x)) == 4 else 1
    zero, one = (b.constant(np.array(n, np.int64)) for n in (0, 1))
    length = b(Shape, x, start=axis, end=axis + 1)
    row = b(Add, b(Range, zero, b(Squeeze, length), one), first)
    return b(Expand, row, b(Concat, b(Shape, x, start=0, end=1), length, axis=0))


@import_rule("GroupQueryAttention")
def group_query_attention(
    b: Builder,
    query: Value,
    key: Value | None,
    value: Value | None,
    past_key: Value | None,
    past_value: Value | None,
    seqlens_k: Value,
    total_sequence_length: Value,
    cos_cache: Value | None = None,
    sin_cache: Value | None = None,
    position_ids: Value | None = None,
    attention_bias: Value | None = None,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
) -> tuple[Value | None, ...]:
    """GroupQueryAttention with a cache of a separate length per sample.

    `seqlens_k` is the number of keys of a sample minus one, including new ones, which follow the old ones.
    """
    only(
        "softmax without a smoothing factor, and no attention scores as an output",
        holds=smooth_softmax < 1 and not b.wants(3),
    )
    q, k, v = _grouped(b, query, key, value, num_heads, kv_num_heads)
    length = b(Shape, q, start=1, end=2)
    flat = b(Reshape, b(Cast, seqlens_k, to=DType.INT64), [-1])
    # In a padded prompt the keys after its end count, too, but no valid query sees them.
    lengths = b(Max, b(Add, flat, [1]), length)
    starts = b(Sub, lengths, length)
    if do_rotary:
        positions = _rows(b, starts, length) if position_ids is None else position_ids
        q = _rotated(b, q, cos_cache, sin_cache, positions, num_heads, rotary_interleaved)
        k = _rotated(b, k, cos_cache, sin_cache, positions, kv_num_heads, rotary_interleaved)
    keys, values = (_split_heads(b, x, kv_num_heads) for x in (k, v))
    if past_key is not None and past_value is not None:
        keys, values = (
            _cached(b, past, x, starts, total_sequence_length) for past, x in ((past_key, keys), (past_value, values))
        )
    bias = attention_bias
    if local_window_size >= 0:
        bias = _window(b, keys, _rows(b, starts, length), local_window_size, attention_bias)
    y = b(
        Attention,
        _split_heads(b, q, num_heads),
        keys,
        values,
        bias,
        None,
        None,
        lengths,
        is_causal=causal or None,
        scale=scale or None,
        softcap=softcap or None,
    )
    return _heads_together(b, y), keys, values


def _window(b: Builder, keys: Value, positions: Value, size: int, bias: Value | None) -> Value:
    """Return a bias of -inf for keys more than `size - 1` positions before a query: [batch, 1, queries, keys]."""
    zero, one = (b.constant(np.array(n, np.int64)) for n in (0, 1))
    key_positions = b(Range, zero, b(Squeeze, b(Shape, keys, start=2, end=3)), one)
    ahead = b(Sub, b(Unsqueeze, positions, [1, 3]), key_positions)
    hidden = b(Where, b(Less, ahead, size), b.like(keys, 0), b.like(keys, -np.inf))
    if bias is None:
        return hidden
    missing = b(Sub, b(Shape, keys, start=2, end=3), b(Shape, bias, start=3, end=4))
    return b(Add, hidden, b(Pad, bias, b(Concat, [0], missing, axis=0), None, [3]))


def _grouped(
    b: Builder, query: Value, key: Value | None, value: Value | None, heads: int, groups: int
) -> tuple[Value, Value, Value]:
    if key is not None and value is not None:
        return query, key, value
    width = b.dims(query, at_least=3)[2]
    only("positive head counts", holds=heads > 0 and groups > 0)
    size = width // (heads + 2 * groups) if isinstance(width, int) else 0
    only("queries, keys and values of known width in one tensor", holds=size > 0 and key is None and value is None)
    q, k, v = b.results(Split, 3, query, [heads * size, groups * size, groups * size], axis=2)
    return q, k, v


def _rows(b: Builder, starts: Value, length: Value) -> Value:
    zero, one = (b.constant(np.array(n, np.int64)) for n in (0, 1))
    return b(Add, b(Unsqueeze, starts, [1]), b(Range, zero, b(Squeeze, length), one))


def _rotated(
    b: Builder, x: Value, cos: Value | None, sin: Value | None, positions: Value, heads: int, interleaved: int
) -> Value:
    pairs = None if cos is None else b.dims(cos, at_least=2)[1]
    only("rotary embeddings of known width", holds=isinstance(pairs, int) and sin is not None)
    return b(
        RotaryEmbedding,
        x,
        cos,
        sin,
        positions,
        interleaved=interleaved or None,
        num_heads=heads,
        rotary_embedding_dim=2 * pairs if isinstance(pairs, int) else None,
    )


def _cached(b: Builder, past: Value, new: Value, starts: Value, total: Value) -> Value:
    """Extend the cache to `total` keys if necessary, and write each sample's new entries after its old ones."""
    only("a cache of the type of its keys", holds=dtype_of(past) is dtype_of(new))
    held = b(Shape, past, start=2, end=3)
    wanted = b(Reshape, b(Cast, total, to=DType.INT64), [1])
    added = b(Sub, b(Max, held, wanted), held)
    longer = b(Pad, past, b(Concat, [0], added, axis=0), None, [2])
    return b(TensorScatter, longer, new, starts, axis=2)

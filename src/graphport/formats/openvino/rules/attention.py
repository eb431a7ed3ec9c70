"""Attention in OpenVINO."""

from __future__ import annotations

from functools import partial, reduce
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Dim, decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.emitting import (
    emitted_cast,
    emitted_extent,
    emitted_gather,
    emitted_range,
    emitted_reshape,
    emitted_slice,
    emitted_transpose,
)
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.definitions.activation import Softmax
from graphport.ops.definitions.arithmetic import Add, Mul, Reciprocal, Sqrt
from graphport.ops.definitions.attention import Attention
from graphport.ops.definitions.attention.attention import PRECISIONS
from graphport.ops.definitions.comparison import LessOrEqual, Where
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Unsqueeze
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import counted, extent, gather_index
from graphport.ops.lowering.operands import cast, dtype_of, float_element, index, scalar, sizes, transposed, vector
from graphport.ops.views.attention import AttentionView, RotaryEmbeddingView, TensorScatterView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


@lower("openvino", "opset13.ScaledDotProductAttention")
def scaled_dot_product_attention(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    scale: Value | None = None,
    *,
    causal: bool = False,
) -> Value:
    """Compute softmax(scale * Q Kᵀ + mask) V; with `causal` the causal mask replaces `mask`."""
    if causal or (mask is not None and not b.dims(mask) and dtype_of(mask).is_floating):
        # One number added to all scores changes no share.
        mask = None
    factor = _factor(b, q, k, scale)
    if _has_equal_heads(b, q, k, v) and _covers(b, mask, k) and factor is not None and factor > 0:
        own = None if scale is None else factor
        rows = None if mask is None else _rowed(b, mask, q)
        return b(Attention, q, k, v, rows, is_causal=int(causal), scale=own)
    return _decomposed(b, q, k, v, mask, scale, causal=causal)


def _factor(b: Builder, q: Value, k: Value, scale: Value | None) -> float | None:
    if scale is not None:
        return float_element(scale)
    known = [dim for dim in (b.dims(q, at_least=1)[-1], b.dims(k, at_least=1)[-1]) if isinstance(dim, int)]
    return 1 / sqrt(known[0]) if known and known[0] else None


def _has_equal_heads(b: Builder, q: Value, k: Value, v: Value) -> bool:
    """Whether Q, K and V have rank 4, equal batch sizes and equal numbers of heads."""
    dims = [b.dims(operand) for operand in (q, k, v)]
    if any(len(shape) != 4 for shape in dims):
        return False
    return all(decide_equal(shape[axis], dims[0][axis]) is True for shape in dims[1:] for axis in (0, 1))


def _covers(b: Builder, mask: Value | None, k: Value) -> bool:
    """Whether the mask has a column for each key: ONNX masks keys without a column."""
    if mask is None:
        return True
    dims = b.dims(mask)
    return 1 <= len(dims) <= 4 and decide_equal(dims[-1], b.dims(k, at_least=2)[-2]) is True


def _rowed(b: Builder, mask: Value, q: Value) -> Value:
    """Broadcast the mask to one row per query: ONNX Runtime does not broadcast this axis."""
    dims, length = b.dims(mask), b.dims(q, at_least=3)[2]
    if len(dims) > 1 and decide_equal(dims[-2], length) is True:
        return mask
    rows = vector(b, [length]) if isinstance(length, int) else b(Shape, q, start=2, end=3)
    return b(Expand, mask, b(Concat, rows, [1], axis=0))


def _decomposed(
    b: Builder, q: Value, k: Value, v: Value, mask: Value | None, scale: Value | None, *, causal: bool
) -> Value:
    rank, dtype = len(b.dims(k)), dtype_of(q)
    k_transposed = transposed(b, k, [*range(rank - 2), rank - 1, rank - 2])
    if scale is None:
        factor = _factor(b, q, k, None)
        scale = _root(b, q) if factor is None else scalar(b, factor, dtype)
    scores = b(MatMul, b(Mul, q, scale), k_transposed)
    hidden = scalar(b, -np.inf, dtype)
    if causal:
        rows, columns = (counted(b, extent(b, scores, axis)) for axis in (-2, -1))
        scores = b(Where, b(LessOrEqual, columns, b(Unsqueeze, rows, [1])), scores, hidden)
    elif mask is not None and dtype_of(mask) is DType.BOOL:
        scores = b(Where, mask, scores, hidden)
    elif mask is not None:
        scores = b(Add, scores, mask)
    return b(MatMul, b(Softmax, scores, axis=-1), v)


def _root(b: Builder, q: Value) -> Value:
    """Return 1 / sqrt(head size) for a head size that is known only at run time."""
    return b(Reciprocal, b(Sqrt, cast(b, gather_index(b, b(Shape, q), -1, 0), dtype_of(q))))


# The way to OpenVINO


@AttentionView.export_rule("openvino")
def export_attention(b: Builder, op: AttentionView) -> Exported:
    q, key, value = op.q, op.k, op.v
    is_flat = len(b.dims(q)) == 3
    if is_flat:
        counts = op.q_num_heads or 1, op.kv_num_heads or 1
        q, key, value = _with_heads(b, q, counts[0]), _with_heads(b, key, counts[1]), _with_heads(b, value, counts[1])
    key = key if op.past_key is None else emit(b, "opset1.Concat", op.past_key, key, axis=2)
    value = value if op.past_value is None else emit(b, "opset1.Concat", op.past_value, value, axis=2)
    (size,) = sizes(b.dims(q, 4)[3:], "the head size")
    factor = 1 / sqrt(size) if op.scale is None else op.scale
    keys, values = (_repeated(b, each, b.dims(q, at_least=2)[1]) for each in (key, value))
    window = (op.left_window_size, 0 if op.is_causal else op.right_window_size)
    is_plain = not op.softcap and op.softmax_precision is None and op.nonpad_kv_seqlen is None and op.past_key is None
    if is_plain and b.count == 1 and op.left_window_size < 0 and op.right_window_size < 0 and op.attn_mask is None:
        y = emit(b, _SDPA, q, keys, values, 0, factor, causal=bool(op.is_causal))
        return (_joined(b, y) if is_flat else y,)
    raw = emit(b, "opset1.MatMul", emit(b, "opset1.Multiply", q, factor), keys, transpose_b=True)
    capped = raw
    if op.softcap:
        shares = emit(b, "opset1.Tanh", emit(b, "opset1.Divide", raw, op.softcap))
        capped = emit(b, "opset1.Multiply", shares, op.softcap)
    offset = _offset(b, q, op.past_key, op.nonpad_kv_seqlen)
    seen = _visible_keys(b, raw, offset, op.nonpad_kv_seqlen, window)
    biased, hides = _biased(b, capped, op.attn_mask, seen)
    shares = _masked_softmax(b, biased, PRECISIONS.get(op.softmax_precision or 0), hides=hides)
    y = emit(b, "opset1.MatMul", shares, values)
    y = _joined(b, y) if is_flat else y
    if b.count == 4 and op.qk_matmul_output_mode == 2 and hides:
        hidden = scalar(b, -np.inf, dtype_of(biased))
        biased = emit(b, "opset1.Select", _masked_scores(b, biased), hidden, biased)
    fourth = (raw, capped, biased, shares)[op.qk_matmul_output_mode]
    return (y, key, value, fourth)[: b.count]


_SDPA = "opset13.ScaledDotProductAttention"


def attended(b: Builder, heads: tuple[Value, Value, Value], factor: Value, *, causal: bool) -> Value:
    """Compute attention from basic operators: softmax(factor * Q Kᵀ + causal mask) V.

    Shapes: queries [B, N, L, H], keys [B, N, S, H], values [B, N, S, W], factor [] → [B, N, L, W].
    """
    q, k, v = heads
    scores = emit(b, "opset1.MatMul", emit(b, "opset1.Multiply", q, factor), k, transpose_b=True)
    seen = _visible_keys(b, scores, None, None, (-1, 0)) if causal else None
    biased, hides = _biased(b, scores, None, seen)
    return emit(b, "opset1.MatMul", _masked_softmax(b, biased, None, hides=hides), v)


def _with_heads(b: Builder, x: Value, heads: int) -> Value:
    batch, length, width = b.dims(x, 3)
    (columns,) = sizes([width], "the total size of all heads")
    shape = _copied(b, x, [batch, length, heads, columns // heads])
    return emitted_transpose(b, shape, [0, 2, 1, 3])


def _copied(b: Builder, x: Value, dims: Sequence[Dim]) -> Value:
    """Reshape `x`; open dims keep their index."""
    wanted = vector(b, [n if isinstance(n, int) else 0 for n in dims])
    fact = TensorFact(dtype_of(x), tuple(dims))
    return b.emit("opset1.Reshape", x, wanted, facts=[fact], special_zero=True)[0]


def _joined(b: Builder, y: Value) -> Value:
    """Merge heads: [B, N, L, H] to [B, L, N * H]."""
    batch, length, count, size = (b.dims(y, 4)[axis] for axis in (0, 2, 1, 3))
    return _copied(b, emitted_transpose(b, y, [0, 2, 1, 3]), [batch, length, count * size])


def _repeated(b: Builder, x: Value, queries: Dim) -> Value:
    """Repeat each head of keys or values for the query heads that share it (grouped-query attention)."""
    count = b.dims(x, at_least=2)[1]
    if decide_equal(count, queries) is True:
        return x
    (wanted, own) = sizes([queries, count], "the head counts")
    return emitted_gather(b, x, np.repeat(np.arange(own), wanted // own).tolist(), 1)


def _offset(b: Builder, q: Value, past_key: Value | None, lengths: Value | None) -> Value | None:
    """Return the number of keys before the first query, one for all or one per sample; `None` if there are none."""
    if lengths is not None:
        behind = emit(b, "opset1.Subtract", lengths, emitted_extent(b, q, 2))
        return emitted_reshape(b, behind, (-1, 1, 1, 1))
    return None if past_key is None else emitted_extent(b, past_key, 2)


def _visible_keys(
    b: Builder, scores: Value, offset: Value | None, lengths: Value | None, window: tuple[int, int]
) -> Value | None:
    """Return which keys each query sees by causality and window, without the mask; `None` for all."""
    left, right = window
    found: list[Value] = []
    columns = emitted_range(b, scores, 3)
    if left >= 0 or right >= 0:
        rows = emit(b, "opset1.Unsqueeze", emitted_range(b, scores, 2), vector(b, [1]))
        if offset is not None:
            rows = emit(b, "opset1.Add", rows, offset)
        ahead = emit(b, "opset1.Subtract", columns, rows)
        if right >= 0:
            found.append(emit(b, "opset1.LessEqual", ahead, right))
        if left >= 0:
            found.append(emit(b, "opset1.GreaterEqual", ahead, -left))
    if lengths is not None:
        found.append(emit(b, "opset1.Less", columns, emitted_reshape(b, lengths, (-1, 1, 1, 1))))
    return reduce(partial(emit, b, "opset1.LogicalAnd"), found) if found else None


def _biased(b: Builder, scores: Value, mask: Value | None, seen: Value | None) -> tuple[Value, bool]:
    """Add the mask to the scores; masked keys get the lowest finite number. Also return whether there may be any.

    OpenVINO's CPU plugin computes NaN from infinite scores.
    """
    dtype = dtype_of(scores)
    if mask is not None:
        mask = _widened(b, mask, b.dims(scores, at_least=1)[-1])
        if dtype_of(mask) is DType.BOOL:
            seen = mask if seen is None else emit(b, "opset1.LogicalAnd", seen, mask)
            mask = None
    if mask is not None:
        scores = emit(b, "opset1.Add", scores, emitted_cast(b, mask, dtype))
    if seen is not None:
        scores = emit(b, "opset1.Select", seen, scores, scalar(b, _lowest(dtype), dtype))
    return scores, seen is not None or mask is not None


def _lowest(dtype: DType) -> float:
    return float(np.finfo(np.float16 if dtype is DType.FLOAT16 else np.float32).min)


def _masked_scores(b: Builder, scores: Value) -> Value:
    """Return which scores belong to masked keys."""
    return emit(b, "opset1.LessEqual", scores, _lowest(dtype_of(scores)))


def _widened(b: Builder, mask: Value, keys: Dim) -> Value:
    """Pad a mask to one column per key; keys without a column are masked."""
    columns = b.dims(mask, at_least=1)[-1]
    if decide_equal(columns, keys) is not False:
        return mask
    (missing,) = sizes([keys - columns], "the keys beyond the end of a mask")
    rank, dtype = len(b.dims(mask)), dtype_of(mask)
    none, more = vector(b, [0] * rank), vector(b, [0] * (rank - 1) + [missing])
    if dtype is DType.BOOL:
        padded = _widened(b, emitted_cast(b, mask, DType.FLOAT32), keys)
        return emit(b, "opset1.Greater", padded, 0.0)
    fill = scalar(b, -np.inf, dtype) if dtype.is_floating else b.like(mask, 0)
    return emit(b, "opset12.Pad", mask, none, more, fill, pad_mode="constant")


def _masked_softmax(b: Builder, biased: Value, precision: DType | None, *, hides: bool) -> Value:
    """Softmax along the keys; 0 for queries that see none."""
    dtype = dtype_of(biased)
    if not hides:
        wide = biased if precision is None else emitted_cast(b, biased, precision)
        return emitted_cast(b, emit(b, "opset8.SoftMax", wide, axis=-1), dtype)
    top = emit(b, "opset1.ReduceMax", biased, vector(b, [-1]), keep_dims=True)
    is_blind = _masked_scores(b, top)
    zero = b.like(biased, 0)
    scores = emit(b, "opset1.Select", is_blind, zero, biased)
    wide = scores if precision is None else emitted_cast(b, scores, precision)
    shares = emitted_cast(b, emit(b, "opset8.SoftMax", wide, axis=-1), dtype)
    return emit(b, "opset1.Select", is_blind, zero, shares)


@RotaryEmbeddingView.export_rule("openvino")
def export_rotary_embedding(b: Builder, op: RotaryEmbeddingView) -> Exported:
    """Rotary position embedding: rotate pairs of columns by the angles of their positions."""
    rank = len(b.dims(op.x))
    heads = _with_heads(b, op.x, op.num_heads or 1) if rank == 3 else op.x
    (size,) = sizes(b.dims(heads, 4)[3:], "the head size")
    rotated = op.rotary_embedding_dim or size
    caches = op.cos_cache, op.sin_cache
    if op.position_ids is not None:
        caches = tuple(emitted_gather(b, cache, op.position_ids) for cache in caches)
    # Cosines and sines [batch, 1, length, half].
    cos, sin = (emit(b, "opset1.Unsqueeze", cache, vector(b, [1])) for cache in caches)
    inner, rest = (emitted_slice(b, heads, start, stop, 3) for start, stop in ((0, rotated), (rotated, size)))
    y = _rotated(b, inner, cos, sin, rotated, interleaved=bool(op.interleaved))
    if rotated < size:
        y = emit(b, "opset1.Concat", y, rest, axis=3)
    return (y if rank == 4 else _joined(b, y),)


def _rotated(b: Builder, x: Value, cos: Value, sin: Value, size: int, *, interleaved: bool) -> Value:
    half = size // 2
    parts = ((0, size, 3, 2), (1, size, 3, 2)) if interleaved else ((0, half, 3), (half, size, 3))
    first, second = (emitted_slice(b, x, *part) for part in parts)
    products = [
        (emit(b, "opset1.Multiply", one, cos), emit(b, "opset1.Multiply", other, sin))
        for one, other in ((first, second), (second, first))
    ]
    real_part = emit(b, "opset1.Subtract", *products[0])
    imaginary = emit(b, "opset1.Add", *products[1])
    if not interleaved:
        return emit(b, "opset1.Concat", real_part, imaginary, axis=3)
    parts = [emit(b, "opset1.Unsqueeze", part, vector(b, [4])) for part in (real_part, imaginary)]
    pairs = emit(b, "opset1.Concat", *parts, axis=4)
    return _copied(b, pairs, b.dims(x))


@TensorScatterView.export_rule("openvino")
def export_tensor_scatter(b: Builder, op: TensorScatterView) -> Exported:
    """Export TensorScatter: overwrite cache entries along `axis` from the start index of each batch item on."""
    dims = b.dims(op.past_cache)
    rank = len(dims)
    at = op.axis % rank
    if at == 0:
        message = "a cache that grows along the batch axis"
        raise UnsupportedError(message)
    steps = emitted_range(b, op.update, at)
    behind = [1] * (rank - at - 1)
    indices = emitted_reshape(b, steps, (-1, *behind))
    if op.write_indices is not None:
        start = emitted_reshape(b, emitted_cast(b, op.write_indices, DType.INT64), (-1, *[1] * (rank - 1)))
        indices = emit(b, "opset1.Add", indices, start)
    if op.mode == "circular":
        indices = emit(b, "opset1.FloorMod", indices, emitted_extent(b, op.past_cache, at))
    every = emit(b, "opset3.Broadcast", indices, emit(b, "opset3.ShapeOf", op.update), mode="bidirectional")
    return b.emit("opset3.ScatterElementsUpdate", op.past_cache, every, op.update, index(b, at))

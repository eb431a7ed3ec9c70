"""Attention of ncnn."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import emitted, lengths_of, stretched
from graphport.formats.pytorch.rules.binding import length
from graphport.formats.pytorch.rules.functions.reshape_parts import repeat_interleave
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import Softmax
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.attention import RotaryEmbedding
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Reshape, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.views.attention import AttentionView


@layer("MultiHeadAttention")
def multi_head_attention(at: Layer) -> Value:
    """MultiHeadAttention: projections, attention per head, and output projection; the mask is the last operand."""
    b = at.b
    blobs, mask = _blobs(at)
    query = blobs[0]
    key = blobs[1] if len(blobs) > 1 else query
    value = blobs[2] if len(blobs) > 2 else key
    embed, heads = at.integer(0), at.integer(1)
    size = at.integer(2) // embed
    sources = ((query, size), (key, at.integer(3, embed)), (value, at.integer(4, embed)))
    q, k, v = (
        at.b(Transpose, at.b(Reshape, _linear(at, x, 2 * index, [embed, width]), [0, 0, heads, -1]), perm=(0, 2, 1, 3))
        for index, (x, width) in enumerate(sources)
    )
    factor = at.float_value(6, 1 / sqrt(embed / heads))
    mixed = b(Transpose, _attended(b, q, k, v, mask, factor), perm=(0, 2, 1, 3))
    return _linear(at, b(Reshape, mixed, [0, 0, -1]), 6, [size, embed])


def _blobs(at: Layer) -> tuple[Sequence[Value], Value | None]:
    """Return the operands without the attention mask, and the mask; `None` if parameter 5 declares no mask."""
    at.refuse(7, 18)
    return (at.inputs[:-1], at.inputs[-1]) if at.integer(5) else (at.inputs, None)


def _attended(b: Builder, query: Value, key: Value, value: Value, mask: Value | None, factor: float) -> Value:
    """Scaled dot-product attention: softmax(scale * Q Kᵀ + mask) V."""
    scores = b(MatMul, b(Mul, query, factor), b(Transpose, key, perm=(0, 1, 3, 2)))
    if mask is not None:
        scores = b(Add, scores, b(Unsqueeze, mask, [1]) if len(b.dims(mask)) == 3 else mask)
    return b(MatMul, b(Softmax, scores), value)


def _linear(at: Layer, x: Value, index: int, shape: list[int]) -> Value:
    weight = at.b(Transpose, at.weight(index, shape), perm=(1, 0))
    return at.b(Add, at.b(MatMul, x, weight), at.weight(index + 1, shape[:1]))


@layer("SDPA")
def scaled_dot_product_attention(at: Layer) -> Value:
    """SDPA: queries, keys and values [heads, length, size], with grouped-query heads. The mask is the last operand."""
    b = at.b
    (query, key, value), mask = _blobs(at)
    heads, size = length(b.dims(query), 1), length(b.dims(query), 3)
    key, value = (_repeat_heads(at, x, heads) for x in (key, value))
    return _attended(b, query, key, value, mask, at.float_value(6) or 1 / sqrt(size))


@layer("RotaryEmbed")
def rotary_embed(at: Layer) -> Value:
    """RotaryEmbed: rotate pairs of features by cosine and sine blobs; pairs are halves or neighbours."""
    b = at.b
    x, cosines, sines = at.inputs
    return b(RotaryEmbedding, x, cosines, sines, interleaved=1 if at.integer(0) else None)


def _repeat_heads(at: Layer, x: Value, heads: int) -> Value:
    times = heads // length(at.b.dims(x), 1)
    return x if times == 1 else repeat_interleave(at.b, x, times, 1)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@AttentionView.export_rule("ncnn")
def export_attention(b: Builder, op: AttentionView) -> Value | None:
    """Export Attention with a head axis, without key/value cache; the mask is added."""
    q, k, v, mask = op.q, op.k, op.v, op.attn_mask
    is_plain = (
        op.past_key is None and op.nonpad_kv_seqlen is None and op.non_defaults().keys() <= {"is_causal", "scale"}
    )
    if not is_plain or b.count > 1 or len(b.dims(q)) != 4:
        return None
    (_, rows, _), (_, columns, _), _ = (lengths_of(b, each) for each in (q, k, v))
    masks: list[Value] = []
    if op.is_causal:
        if mask is not None or rows != columns or not isinstance(rows, int) or not isinstance(columns, int):
            return None
        reserve(rows, columns)
        masks = [b.constant(np.triu(np.full((1, rows, columns), -np.inf), 1), DType.FLOAT32)]
    elif mask is not None:
        if dtype_of(mask) is DType.BOOL:
            return None
        masks = [stretched(b, mask, [1] * (4 - len(b.dims(mask))) + list(b.dims(mask)), 0)]
    return emitted(b, "SDPA", q, k, v, *masks, p5=int(bool(masks)) or None, p6=op.scale)

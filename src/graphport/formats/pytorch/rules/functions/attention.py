"""Attention of PyTorch."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim, Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    bounded,
    called,
    constant_elements,
    emits,
    length,
    scalar_of,
)
from graphport.formats.pytorch.rules.functions.reshape_parts import repeat_interleave
from graphport.formats.pytorch.rules.functions.reshape_shapes import transpose
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.activation import Gelu, Relu, Softmax
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.comparison import Equal, LessOrEqual, Not, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.normalization import LayerNormalization
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Split, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.views.attention import AttentionView

Answer = Value | tuple[Value, ...]


def _scores(b: Builder, query: Value, key: Value, scale: float, mask: Value | None, *, may_hide: bool = False) -> Value:
    """softmax(scale * Q Kᵀ + mask); with `may_hide`, rows of queries without an unmasked key are zeros."""
    scores = b(MatMul, b(Mul, query, scale), transpose(b, key, -1, -2))
    if mask is None:
        return b(Softmax, scores)
    if dtype_of(mask) is DType.BOOL:
        mask = b(Where, mask, b.like(query, 0), b.like(query, -np.inf))
    masked = b(Add, scores, mask)
    if not may_hide:
        return b(Softmax, masked)
    largest = b(ReduceMax, masked, [-1])
    return b(Where, b(Equal, largest, -np.inf), b.like(query, 0), b(Softmax, masked))


def _causal(b: Builder, query: Value, key: Value) -> Value:
    """Causal mask: query i attends to keys 0 to i."""
    rows, columns = (b.dims(x, at_least=2)[-2] for x in (query, key))
    if isinstance(rows, Symbolic) or isinstance(columns, Symbolic):
        own, others = (b(Unsqueeze, _positions(b, x), [axis]) for x, axis in ((query, 1), (key, 0)))
        return b(LessOrEqual, others, own)
    bounded(rows * columns)
    reserve(rows, columns)
    return b.constant(np.tril(np.ones((rows, columns), bool)))


def _positions(b: Builder, x: Value) -> Value:
    """Return the positions along the second last axis, from 0."""
    count = b(Squeeze, b(Shape, x, start=-2, end=-1), [0])
    return b(Range, b.constant(0, DType.INT64), count, b.constant(1, DType.INT64))


@emits("F.scaled_dot_product_attention", "aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    scale: Any = None,
    enable_gqa: Any = False,
) -> Value:
    if scalar_of(dropout_p):
        message = "attention with dropout (dropout_p > 0)"
        raise UnsupportedError(message)
    if scalar_of(enable_gqa):
        heads = length(b.dims(query), len(b.dims(query)) - 3)
        key, value = (_repeat_heads(b, x, heads) for x in (key, value))
    factor = 1 / sqrt(length(b.dims(query), len(b.dims(query)) - 1)) if scale is None else float(scalar_of(scale))
    mask = _causal(b, query, key) if scalar_of(is_causal) else attn_mask
    may_hide = attn_mask is not None and _may_hide_a_query(attn_mask)
    return b(MatMul, _scores(b, query, key, factor, mask, may_hide=may_hide), value)


def _may_hide_a_query(mask: Value) -> bool:
    """Whether a mask may exclude all keys of a query."""
    array = constant_elements(mask)
    if array is None or not array.ndim:
        return True
    hidden = ~array if array.dtype == bool else np.isneginf(array)
    return bool(hidden.all(axis=-1).any())


def _repeat_heads(b: Builder, x: Value, heads: int) -> Value:
    """Repeat key or value heads for the query heads of their group (grouped-query attention)."""
    axis = len(b.dims(x)) - 3
    times = heads // length(b.dims(x), axis)
    return x if times == 1 else repeat_interleave(b, x, times, axis)


@emits(
    "nn.MultiheadAttention",
    ignores=("bias", "dropout", "kdim", "vdim", "add_bias_kv", "is_causal"),
)
def multihead_attention(
    b: Builder,
    query: Value | None = None,
    key: Value | None = None,
    value: Value | None = None,
    attn_mask: Value | None = None,
    embed_dim: Any = None,
    num_heads: Any = 1,
    batch_first: Any = False,
    key_padding_mask: Value | None = None,
    need_weights: Any = True,
    average_attn_weights: Any = True,
    add_zero_attn: Any = False,
    input: Value | None = None,
    **weights: Value,
) -> Answer:
    """Multi-head attention: input projections, scaled dot-product attention, output projection.

    A single operand `input` is query, key and value; of two operands, the second is key and value.
    """
    del embed_dim, need_weights
    query = input if query is None else query
    if query is None:
        message = "the query is missing"
        raise ShapeError(message)
    if attn_mask is not None and dtype_of(query) is DType.BOOL and dtype_of(attn_mask) is not DType.BOOL:
        # pnnx swaps the names of a boolean mask and the query; a query is never boolean.
        query, attn_mask = attn_mask, query
    if attn_mask is None and key is not None and dtype_of(query) is DType.BOOL and dtype_of(key) is not DType.BOOL:
        # pnnx writes a boolean mask as the first unnamed operand.
        query, key, value, attn_mask = key, value, None, query
    if key is None:
        key = query
    if value is None:
        value = key
    heads = int(scalar_of(num_heads))
    is_alone = len(b.dims(query)) == 2
    is_first = bool(scalar_of(batch_first)) and not is_alone
    operands = [b(Unsqueeze, x, [0]) if is_alone else x for x in (query, key, value)]
    operands = [x if is_first or is_alone else b(Transpose, x, perm=(1, 0, 2)) for x in operands]
    attn_mask, key_padding_mask = _masks_by_shape(b, operands[0], operands[1], attn_mask, key_padding_mask)
    projected = _projected(b, operands, weights)
    has_more = "bias_k" in weights or bool(scalar_of(add_zero_attn))
    if has_more and (attn_mask is not None or key_padding_mask is not None):
        message = "a mask together with add_bias_kv or add_zero_attn"
        raise UnsupportedError(message)
    if "bias_k" in weights:
        added = (weights["bias_k"], weights["bias_v"])
        projected[1:] = [_lengthened(b, x, more) for x, more in zip(projected[1:], added, strict=True)]
    if scalar_of(add_zero_attn):
        projected[1:] = [_lengthened(b, x, b.like(x, np.zeros((1, 1, 1)))) for x in projected[1:]]
    q, k, v = (b(Transpose, b(Reshape, x, [0, 0, heads, -1]), perm=(0, 2, 1, 3)) for x in projected)
    size = length(b.dims(q), 3)
    scores = _scores(b, q, k, 1 / sqrt(size), _masks(b, query, attn_mask, key_padding_mask, heads))
    mixed = b(Transpose, b(MatMul, scores, v), perm=(0, 2, 1, 3))
    y = _linear(b, b(Reshape, mixed, [0, 0, -1]), weights["out_proj_weight"], weights.get("out_proj_bias"))
    if is_alone:
        y = b(Squeeze, y, [0])
    elif not is_first:
        y = b(Transpose, y, perm=(1, 0, 2))
    if b.count == 1:
        return y
    seen = b(ReduceMean, scores, [1], keepdims=0) if scalar_of(average_attn_weights) else scores
    return y, b(Squeeze, seen, [0]) if is_alone else seen


def _lengthened(b: Builder, x: Value, more: Value) -> Value:
    """Append `more`, one vector for all samples, to each sequence [batch, length, features]."""
    shape = b(Concat, b(Shape, x, start=0, end=1), vector(b, [1]), b(Shape, x, start=2), axis=0)
    return b(Concat, x, b(Expand, more, shape), axis=1)


def _masks_by_shape(
    b: Builder, query: Value, key: Value, mask: Value | None, padding: Value | None
) -> tuple[Value | None, Value | None]:
    """Return attention mask and key padding mask, distinguished by shape: pnnx writes both under one name.

    A constant mask whose rows are not the batch size is an attention mask.

    Raises:
        UnsupportedError: dynamic dims permit both.
    """
    if mask is None or padding is not None or len(b.dims(mask)) != 2:
        return mask, padding
    rows, query_length, items = b.dims(mask, at_least=1)[0], b.dims(query, at_least=2)[1], b.dims(key, at_least=1)[0]
    if rows == query_length or (mask.is_constant and rows != items):
        return mask, None
    if rows == items:
        return None, mask
    if _may_be(rows, query_length) and _may_be(rows, items):
        message = (
            f"ambiguous mask with {rows} rows: attn_mask has one row per query ({query_length}), key_padding_mask "
            f"one row per sample ({items})"
        )
        raise UnsupportedError(message)
    return (None, mask) if _may_be(rows, items) else (mask, None)


def _may_be(one: Dim, other: Dim) -> bool:
    """Whether two dims may be equal at run time: one of them is symbolic."""
    return isinstance(one, Symbolic) or isinstance(other, Symbolic)


def _masks(b: Builder, query: Value, mask: Value | None, padding: Value | None, heads: int) -> Value | None:
    """Return the additive mask of the scores."""
    attn_mask = _mask(b, mask, heads)
    if padding is None:
        return attn_mask
    wide = b(Unsqueeze, padding, vector(b, [1, 2]) if len(b.dims(padding)) > 1 else vector(b, [0, 1, 2]))
    if dtype_of(wide) is DType.BOOL:
        wide = b(Where, wide, b.like(query, -np.inf), b.like(query, 0))
    if attn_mask is None:
        return wide
    if dtype_of(attn_mask) is DType.BOOL:
        attn_mask = b(Where, attn_mask, b.like(query, 0), b.like(query, -np.inf))
    return b(Add, attn_mask, wide)


def _projected(b: Builder, operands: list[Value], weights: dict[str, Value]) -> list[Value]:
    joined, bias = weights.get("in_proj_weight"), weights.get("in_proj_bias")
    biases: tuple[Value | None, ...] = (None, None, None)
    size = length(b.dims(weights["out_proj_weight"]), 1)
    parts = vector(b, [size] * 3)
    if bias is not None:
        biases = b.results(Split, 3, bias, parts, axis=0)
    if joined is not None:
        matrices = b.results(Split, 3, joined, parts, axis=0)
    else:
        matrices = tuple(weights[f"{name}_proj_weight"] for name in "qkv")
    return [_linear(b, x, w, c) for x, w, c in zip(operands, matrices, biases, strict=True)]


def _linear(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    y = b(MatMul, x, b(Transpose, weight, perm=(1, 0)))
    return y if bias is None else b(Add, y, bias)


def _mask(b: Builder, mask: Value | None, heads: int) -> Value | None:
    """Reshape a mask to broadcast over batch and heads; true elements of a boolean mask are excluded."""
    if mask is None:
        return None
    if dtype_of(mask) is DType.BOOL:
        mask = b(Not, mask)
    if len(b.dims(mask)) != 3:
        return mask
    return b(Reshape, mask, b(Concat, vector(b, [-1, heads]), b(Shape, mask, start=1), axis=0))


def _fast_masks(mask: Value | None, mask_type: Any) -> dict[str, Value]:
    """Return the mask of the fast path by type: attention mask (0), key padding mask (1), or combined (2)."""
    if mask is None:
        return {}
    kind = None if mask_type is None else scalar_of(mask_type)
    if kind not in (0, 1):
        message = f"unsupported mask_type {kind} of an encoder layer, expected 0 or 1"
        raise UnsupportedError(message)
    return {"attn_mask" if kind == 0 else "key_padding_mask": mask}


@emits("aten::_native_multi_head_attention")
def native_multi_head_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    embed_dim: Any,
    num_head: Any,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Value | None = None,
    need_weights: Any = True,
    average_attn_weights: Any = True,
    mask_type: Any = None,
) -> Any:
    """Multi-head attention of PyTorch's fast path: batch first, and one packed matrix for the three projections."""
    del embed_dim, need_weights
    weights = {
        "in_proj_weight": qkv_weight,
        "in_proj_bias": qkv_bias,
        "out_proj_weight": proj_weight,
        "out_proj_bias": proj_bias,
    }
    masks = _fast_masks(mask, mask_type)
    options = {"num_heads": num_head, "batch_first": True, "average_attn_weights": average_attn_weights}
    return multihead_attention(b, query, key, value, **options, **masks, **weights)


@emits("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    b: Builder,
    src: Value,
    embed_dim: Any,
    num_heads: Any,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: Any,
    norm_first: Any,
    eps: Any,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None = None,
    mask_type: Any = None,
) -> Value:
    """Transformer encoder layer: attention and feed-forward with residuals, pre- or post-normalization."""
    masks = _fast_masks(mask, mask_type)
    epsilon = float(scalar_of(eps))
    is_before = bool(scalar_of(norm_first))
    weights = {
        "in_proj_weight": qkv_weight,
        "in_proj_bias": qkv_bias,
        "out_proj_weight": proj_weight,
        "out_proj_bias": proj_bias,
    }
    del embed_dim

    def normalize_1(x: Value) -> Value:
        return b(LayerNormalization, x, norm_weight_1, norm_bias_1, epsilon=epsilon)

    def normalize_2(x: Value) -> Value:
        return b(LayerNormalization, x, norm_weight_2, norm_bias_2, epsilon=epsilon)

    seen = multihead_attention(
        b, normalize_1(src) if is_before else src, num_heads=num_heads, batch_first=True, **masks, **weights
    )
    x = b(Add, src, seen if isinstance(seen, Value) else seen[0])
    x = x if is_before else normalize_1(x)
    hidden = _linear(b, normalize_2(x) if is_before else x, ffn_weight_1, ffn_bias_1)
    active = b(Gelu, hidden) if scalar_of(use_gelu) else b(Relu, hidden)
    y = b(Add, x, _linear(b, active, ffn_weight_2, ffn_bias_2))
    return y if is_before else normalize_2(y)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@AttentionView.export_rule(DIALECT)
def export_attention(b: Builder, op: AttentionView) -> Value | None:
    """Export Attention with a separate head axis, without cache."""
    q, k, v = op.q, op.k, op.v
    is_plain = (
        op.past_key is None and op.nonpad_kv_seqlen is None and op.non_defaults().keys() <= {"is_causal", "scale"}
    )
    if not is_plain or b.count > 1 or len(b.dims(q)) != 4 or (op.is_causal and op.attn_mask):
        return None
    heads, groups = b.dims(q, at_least=2)[1], b.dims(k, at_least=2)[1]
    if op.is_causal and b.dims(q, at_least=3)[2] != b.dims(k, at_least=3)[2]:
        return None
    return called(
        b,
        "F.scaled_dot_product_attention",
        query=q,
        key=k,
        value=v,
        attn_mask=op.attn_mask,
        dropout_p=0.0,
        is_causal=bool(op.is_causal),
        scale=op.scale,
        enable_gqa=None if heads == groups else True,
    )

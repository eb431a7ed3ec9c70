"""Attention of PyTorch."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.activation import Gelu, Relu, Softmax
from graphport.ops.arithmetic import Add, Mul
from graphport.ops.builder import Builder
from graphport.ops.comparison import Not, Where
from graphport.ops.declare import UnsupportedError
from graphport.ops.matmul import MatMul
from graphport.ops.normalization import LayerNormalization
from graphport.ops.pytorch import dtype_of, length, number, says, vector
from graphport.ops.reduction import ReduceMean
from graphport.ops.reshape import Concat, Reshape, Shape, Split, Squeeze, Transpose, Unsqueeze
from graphport.ops.reshape.pnnx import repeat_interleave, transpose

Answer = Value | tuple[Value, ...]


def _scores(b: Builder, query: Value, key: Value, scale: float, mask: Value | None) -> Value:
    """How much each query attends to each key."""
    scores = b(MatMul, b(Mul, query, b.like(query, scale)), transpose(b, key, -1, -2))
    if mask is None:
        return b(Softmax, scores)
    if dtype_of(mask) is DType.BOOL:
        mask = b(Where, mask, b.like(query, 0), b.like(query, -np.inf))
    return b(Softmax, b(Add, scores, mask))


def _causal(b: Builder, query: Value, key: Value) -> Value:
    rows, columns = (length(b.dims(x), len(b.dims(x)) - 2) for x in (query, key))
    return b.constant(np.tril(np.ones((rows, columns), bool)))


@says("F.scaled_dot_product_attention", "aten::scaled_dot_product_attention")
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
    if number(dropout_p):
        message = "an attention that drops at random"
        raise UnsupportedError(message)
    if number(enable_gqa):
        heads = length(b.dims(query), len(b.dims(query)) - 3)
        key, value = (_spread(b, x, heads) for x in (key, value))
    factor = 1 / sqrt(length(b.dims(query), len(b.dims(query)) - 1)) if scale is None else float(number(scale))
    mask = _causal(b, query, key) if number(is_causal) else attn_mask
    return b(MatMul, _scores(b, query, key, factor, mask), value)


def _spread(b: Builder, x: Value, heads: int) -> Value:
    """One copy for each query head of its group."""
    axis = len(b.dims(x)) - 3
    times = heads // length(b.dims(x), axis)
    return x if times == 1 else repeat_interleave(b, x, times, axis)


@says(
    "nn.MultiheadAttention",
    ignores=("bias", "dropout", "kdim", "vdim", "add_bias_kv", "add_zero_attn", "is_causal"),
)
def multihead_attention(
    b: Builder,
    query: Value,
    key: Value | None = None,
    value: Value | None = None,
    attn_mask: Value | None = None,
    embed_dim: Any = None,
    num_heads: Any = 1,
    batch_first: Any = False,
    key_padding_mask: Value | None = None,
    need_weights: Any = True,
    average_attn_weights: Any = True,
    **weights: Value,
) -> Answer:
    """Projections, attention in each head, and the projection of all heads together.

    One operand is query, key and value; of two, the second is key and value.
    """
    del embed_dim, need_weights
    if key_padding_mask is not None or "bias_k" in weights:
        message = "keys that are padded or learnt"
        raise UnsupportedError(message)
    if key is None:
        key = query
    if value is None:
        value = key
    heads = int(number(num_heads))
    is_alone = len(b.dims(query)) == 2
    is_first = bool(number(batch_first)) and not is_alone
    operands = [b(Unsqueeze, x, vector(b, [0])) if is_alone else x for x in (query, key, value)]
    operands = [x if is_first or is_alone else b(Transpose, x, perm=(1, 0, 2)) for x in operands]
    projected = _projected(b, operands, weights)
    q, k, v = (_headed(b, x, heads) for x in projected)
    size = length(b.dims(q), 3)
    scores = _scores(b, q, k, 1 / sqrt(size), _mask(b, attn_mask, heads))
    mixed = b(Transpose, b(MatMul, scores, v), perm=(0, 2, 1, 3))
    y = _linear(b, b(Reshape, mixed, vector(b, [0, 0, -1])), weights["out_proj_weight"], weights.get("out_proj_bias"))
    if is_alone:
        y = b(Squeeze, y, vector(b, [0]))
    elif not is_first:
        y = b(Transpose, y, perm=(1, 0, 2))
    if b.count == 1:
        return y
    seen = b(ReduceMean, scores, vector(b, [1]), keepdims=0) if number(average_attn_weights) else scores
    return y, b(Squeeze, seen, vector(b, [0])) if is_alone else seen


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


def _headed(b: Builder, x: Value, heads: int) -> Value:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    return b(Transpose, b(Reshape, x, vector(b, [0, 0, heads, -1])), perm=(0, 2, 1, 3))


def _mask(b: Builder, mask: Value | None, heads: int) -> Value | None:
    """A mask for each head of each item, or for all; where a logical one is true, nothing is seen."""
    if mask is None:
        return None
    if dtype_of(mask) is DType.BOOL:
        mask = b(Not, mask)
    if len(b.dims(mask)) != 3:
        return mask
    return b(Reshape, mask, b(Concat, vector(b, [-1, heads]), b(Shape, mask, start=1), axis=0))


@says("aten::_transformer_encoder_layer_fwd")
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
    """Attention and two projections, each added to what went in; normalized before them or behind the sums."""
    if mask is not None or mask_type is not None:
        message = "an encoder layer with a mask"
        raise UnsupportedError(message)
    epsilon = float(number(eps))
    is_before = bool(number(norm_first))
    weights = {
        "in_proj_weight": qkv_weight,
        "in_proj_bias": qkv_bias,
        "out_proj_weight": proj_weight,
        "out_proj_bias": proj_bias,
    }
    del embed_dim

    def first(x: Value) -> Value:
        return b(LayerNormalization, x, norm_weight_1, norm_bias_1, epsilon=epsilon)

    def second(x: Value) -> Value:
        return b(LayerNormalization, x, norm_weight_2, norm_bias_2, epsilon=epsilon)

    seen = multihead_attention(b, first(src) if is_before else src, num_heads=num_heads, batch_first=True, **weights)
    x = b(Add, src, seen if isinstance(seen, Value) else seen[0])
    x = x if is_before else first(x)
    hidden = _linear(b, second(x) if is_before else x, ffn_weight_1, ffn_bias_1)
    active = b(Gelu, hidden) if number(use_gelu) else b(Relu, hidden)
    y = b(Add, x, _linear(b, active, ffn_weight_2, ffn_bias_2))
    return y if is_before else second(y)

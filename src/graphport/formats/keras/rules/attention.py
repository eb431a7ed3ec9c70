"""Attention layers of Keras."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.keras.rules.activation import masked_number
from graphport.formats.keras.rules.binding import Layer, layer
from graphport.formats.keras.rules.tensors import binary, reduced, reshape_to, unsqueezed
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.activation import Sigmoid, Softmax, Tanh
from graphport.ops.definitions.arithmetic import Abs, Add, Mul, Sub
from graphport.ops.definitions.comparison import And, GreaterOrEqual, Less, Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.lowering.extents import counted, extent
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _count(options: Mapping[str, Any]) -> int:
    return 1 + bool(options.get("return_attention_scores"))


# Attention and AdditiveAttention

_CALL = "x mask training return_attention_scores use_causal_mask"


@layer(
    "Attention",
    weights="scale:use_scale concat_score_weight:score_mode=concat",
    call=_CALL,
    mask="keep",
    takes_mask=True,
    count=_count,
)
def attention(
    at: Layer,
    *,
    use_scale: bool = False,
    score_mode: str = "dot",
    causal: bool = False,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
    given_masks: Any = None,
) -> list[Value]:
    """Attention of `[query, value, key]`: scores are products, or sums under tanh."""
    del use_scale
    b, (query, _, key), scale = at.b, _query_value_key(at), at.get("scale")
    if score_mode == "dot":
        scores = b(MatMul, query, transposed(b, key, (0, 2, 1)))
        scores = scores if scale is None else b(Mul, scores, scale)
    else:
        total = _pairwise_sum(b, query, key)
        total = b(Tanh, total if scale is None else b(Mul, total, scale))
        scores = b(Mul, reduced(b, ReduceSum, total, [3]), at.need("concat_score_weight"))
    return _attended(at, scores, causal or use_causal_mask, return_attention_scores, given_masks)


@layer("AdditiveAttention", weights="scale:use_scale", call=_CALL, mask="keep", takes_mask=True, count=_count)
def additive_attention(
    at: Layer,
    *,
    use_scale: bool = True,
    score_mode: str = "dot",
    causal: bool = False,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
    given_masks: Any = None,
) -> list[Value]:
    """Attention whose scores are weighted sums of `tanh(query + key)`."""
    del use_scale, score_mode
    b, (query, _, key), scale = at.b, _query_value_key(at), at.get("scale")
    total = b(Tanh, _pairwise_sum(b, query, key))
    scores = reduced(b, ReduceSum, total if scale is None else b(Mul, total, scale), [3])
    return _attended(at, scores, causal or use_causal_mask, return_attention_scores, given_masks)


def _query_value_key(at: Layer) -> tuple[Value, Value, Value]:
    if len(at.inputs) not in (2, 3):
        message = f"{len(at.inputs)} inputs, expected query, value and optionally key"
        raise ShapeError(message)
    return at.inputs[0], at.inputs[1], at.inputs[-1]


def _pairwise_sum(b: Builder, query: Value, key: Value) -> Value:
    """query [B, T, 1, D] + key [B, 1, S, D]."""
    return b(Add, unsqueezed(b, query, [2]), unsqueezed(b, key, [1]))


def _attended(at: Layer, scores: Value, is_causal: bool, returns_scores: bool, given_masks: Any) -> list[Value]:
    """The values weighted by the softmax of the scores; masks are of the query and of the value."""
    b = at.b
    query_mask, value_mask = _query_value_masks(at, given_masks)
    mask = None if value_mask is None else unsqueezed(b, cast(b, value_mask, DType.BOOL), [1])
    if is_causal:
        causal = _causal(b, scores)
        mask = causal if mask is None else b(And, mask, causal)
    if mask is not None:
        least = 65504.0 if dtype_of(scores) is DType.FLOAT16 else 1e9
        scores = b(Where, mask, scores, binary(b, Sub, scores, least))
    weights = b(Softmax, scores, axis=-1)
    y = b(MatMul, weights, at.inputs[1])
    if query_mask is not None:
        y = b(Where, unsqueezed(b, cast(b, query_mask, DType.BOOL), [2]), y, 0.0)
    return [y, weights] if returns_scores else [y]


def _query_value_masks(at: Layer, given_masks: Any) -> tuple[Value | None, Value | None]:
    """The masks of query and value: from the inputs, or from the call in the order of `given_masks`."""
    if given_masks is None:
        return at.get("mask"), at.get("mask:1")
    masks = iter(at.operands.get("mask", ()))
    found = [next(masks) if is_given else None for is_given in given_masks]
    return found[0], found[1] if len(found) > 1 else None


def _causal(b: Builder, scores: Value, window: int | None = None, *, is_causal: bool = True) -> Value:
    """The pairs [T, S] of a query and a key that is not after it, and nearer than `window`."""
    rank = len(b.dims(scores))
    rows = unsqueezed(b, counted(b, extent(b, scores, rank - 2)), [1])
    columns = unsqueezed(b, counted(b, extent(b, scores, rank - 1)), [0])
    found: list[Value] = [b(GreaterOrEqual, rows, columns)] if is_causal else []
    if window is not None:
        found.append(b(Less, b(Abs, b(Sub, rows, columns)), window))
    return found[0] if len(found) == 1 else b(And, *found)


# Attention of several heads

_HEADS = " ".join(
    f"{each}_dense/kernel{gate} {each}_dense/bias:{use_bias}"
    for each, gate, use_bias in (
        ("query", "", "use_bias"),
        ("key", "", "use_bias"),
        ("gate", ":use_gate", "use_gate&use_bias"),
        ("value", "", "use_bias"),
        ("output", "", "use_bias"),
    )
)
_HEADS_CALL = (
    "query value key query_mask value_mask key_mask attention_mask return_attention_scores training use_causal_mask"
)


@layer("MultiHeadAttention", weights=_HEADS, call=_HEADS_CALL, mask="keep", takes_mask=True, count=_count)
def multi_head_attention(
    at: Layer,
    *,
    num_heads: int = 1,
    key_dim: int = 1,
    value_dim: int | None = None,
    dropout: float = 0.0,
    use_bias: bool = True,
    use_gate: bool = False,
    output_shape: Any = None,
    attention_axes: Any = None,
    sliding_window: int | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
    query_shape: Any = None,
    key_shape: Any = None,
    value_shape: Any = None,
) -> list[Value]:
    """Attention of several heads over one axis, or over all axes between the batch and the features."""
    del num_heads, value_dim, use_bias, use_gate, query_shape, key_shape, value_shape
    rank = len(at.b.dims(at.need("query")))
    middle = tuple(range(1, rank - 1))
    if attention_axes is not None and tuple(axis % rank for axis in attention_axes) != middle:
        message = f"attention over the axes {tuple(attention_axes)} of rank {rank}"
        raise UnsupportedError(message)
    del output_shape
    is_explicit = bool(dropout) or return_attention_scores or rank != 3
    scale = 1.0 / sqrt(key_dim)
    return _heads(at, scale, sliding_window, is_explicit, return_attention_scores, use_causal_mask)


@layer(
    "GroupQueryAttention",
    "GroupedQueryAttention",
    weights=_HEADS,
    call=_HEADS_CALL,
    mask="keep",
    takes_mask=True,
    count=_count,
)
def grouped_query_attention(
    at: Layer,
    *,
    head_dim: int = 1,
    num_query_heads: int = 1,
    num_key_value_heads: int = 1,
    dropout: float = 0.0,
    use_bias: bool = True,
    use_gate: bool = False,
    sliding_window: int | None = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> list[Value]:
    """Attention of several heads, of which groups share keys and values."""
    del num_query_heads, num_key_value_heads, use_bias, use_gate
    is_explicit = bool(dropout) or return_attention_scores
    return _heads(at, 1.0 / sqrt(head_dim), sliding_window, is_explicit, return_attention_scores, use_causal_mask)


def _heads(
    at: Layer, scale: float, window: int | None, is_explicit: bool, returns_scores: bool, is_causal: bool
) -> list[Value]:
    """softmax(scale * Q Kᵀ) V for each head; Q, K and V are projections [B, T, N, H]."""
    b, given, value = at.b, at.need("query"), at.need("value")
    rank = len(b.dims(given))
    if rank > 3 and returns_scores:
        message = f"scores of attention over rank {rank}"
        raise UnsupportedError(message)
    query = _flattened(b, given)
    q = _split_heads(at, "query", query)
    k = _split_heads(at, "key", _flattened(b, at.get("key") or value))
    v = _split_heads(at, "value", _flattened(b, value))
    heads = sizes(b.dims(q)[1:2], "the heads")[0]
    k, v = (_repeated(b, each, heads) for each in (k, v))
    scores = b(MatMul, binary(b, Mul, q, scale), transposed(b, k, (0, 1, 3, 2)))
    mask = _attention_mask(at, scores, window, is_causal)
    if mask is not None:
        least = masked_number(dtype_of(scores)) if is_explicit else -0.7 * float(np.finfo(np.float32).max)
        least = max(least, -65504.0) if dtype_of(scores) is DType.FLOAT16 else least
        scores = b(Where, mask, scores, b.like(scores, least))
    weights = b(Softmax, scores, axis=-1)
    if mask is not None and is_explicit:
        weights = b(Where, mask, weights, 0.0)
    y = transposed(b, b(MatMul, weights, v), (0, 2, 1, 3))
    if at.get("gate_dense/kernel") is not None:
        gate = transposed(b, _split_heads(at, "gate", query), (0, 2, 1, 3))
        y = b(Mul, y, b(Sigmoid, gate))
    y = _output(at, y)
    if rank > 3:
        last = sizes(b.dims(y)[-1:], "the features")
        y = reshape_to(b, y, [(given, axis) for axis in range(rank - 1)] + list(last))
    return [y, weights] if returns_scores else [y]


def _flattened(b: Builder, x: Value) -> Value:
    """The axes between the batch and the features joined."""
    rank = len(b.dims(x))
    if rank == 3:
        return x
    middle = sizes(b.dims(x)[1:-1], "the axes of attention")
    return reshape_to(b, x, [(x, 0), int(np.prod(middle)), (x, rank - 1)])


def _split_heads(at: Layer, name: str, x: Value) -> Value:
    """A projection of `x` as [B, N, T, H]; kernel [features, N, H]."""
    b, kernel, bias = at.b, at.need(f"{name}_dense/kernel"), at.get(f"{name}_dense/bias")
    features, heads, size = sizes(b.dims(kernel, 3), "the kernel")
    y = b(MatMul, x, reshaped(b, kernel, (features, heads * size)))
    if bias is not None:
        y = b(Add, y, reshaped(b, bias, (heads * size,)))
    return transposed(b, reshape_to(b, y, [(y, 0), (y, 1), heads, size]), (0, 2, 1, 3))


def _output(at: Layer, y: Value) -> Value:
    """The projection of all heads [B, T, N, H] to the features."""
    b, kernel, bias = at.b, at.need("output_dense/kernel"), at.get("output_dense/bias")
    heads, size, *features = sizes(b.dims(kernel, at_least=2), "the kernel")
    joined = reshape_to(b, y, [(y, 0), (y, 1), heads * size])
    width = int(np.prod(features))
    y = b(MatMul, joined, reshaped(b, kernel, (heads * size, width)))
    y = y if bias is None else b(Add, y, reshaped(b, bias, (width,)))
    return y if len(features) == 1 else reshape_to(b, y, [(y, 0), (y, 1), *features])


def _repeated(b: Builder, x: Value, heads: int) -> Value:
    """Keys or values [B, N, S, H] of fewer heads, each one for a group of queries."""
    own = sizes(b.dims(x)[1:2], "the heads")[0]
    return x if own == heads else b(Gather, x, np.repeat(np.arange(own), heads // own).tolist(), axis=1)


def _attention_mask(at: Layer, scores: Value, window: int | None, is_causal: bool) -> Value | None:
    """All masks of a call, joined; each is broadcast to [B, N, T, S]."""
    b = at.b
    found: list[Value] = []
    roles = (("query_mask", [1, 3]), ("value_mask", [1, 2]), ("key_mask", [1, 2]))
    for role, axes in roles:
        mask = at.get(role)
        if mask is not None:
            found.append(unsqueezed(b, cast(b, mask, DType.BOOL), axes))
    if is_causal or window is not None:
        found.append(_causal(b, scores, window, is_causal=is_causal))
    given = at.get("attention_mask")
    if given is not None:
        rank = len(b.dims(given))
        given = cast(b, given, DType.BOOL)
        found.append(given if rank in (2, 4) else unsqueezed(b, given, [rank - 2]))
    if not found:
        return None
    mask = found[0]
    for each in found[1:]:
        mask = b(And, mask, each)
    return mask

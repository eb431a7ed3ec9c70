"""Scaled dot-product attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from graphport.core.dims import Dim, decide_less, product
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import keys_of_sample
from graphport.ops.shapes import broadcast, decided_equal_shapes, same_dim
from graphport.ops.special_functions import softmax_rounded, widened
from graphport.ops.types import BOOL, FLOATS, INT64, NUMBERS_4, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.attention import AttentionView

T1 = Annotated[Tensor, Types("T1", FLOATS)]
T2 = Annotated[Tensor, Types("T2", FLOATS)]
U = Annotated[Tensor, Types("U", NUMBERS_4 | BOOL)]
Lengths = Annotated[Tensor, Types("tensor(int64)", INT64)]

PRECISIONS = {1: DType.FLOAT32, 10: DType.FLOAT16, 11: DType.FLOAT64, 16: DType.BFLOAT16}
"""Element types by the value of `softmax_precision`."""

_Shape = tuple[Dim, Dim, Dim, Dim]


@viewed
def _attention_shape(op: AttentionView[TensorFact]) -> tuple[TensorFact, ...]:
    _check_attributes(op.left_window_size, op.right_window_size, op.qk_matmul_output_mode, op.softmax_precision)
    has_past = op.past_key is not None
    if has_past != (op.past_value is not None) or (has_past and op.nonpad_kv_seqlen is not None):
        message = "invalid combination of past_key, past_value and nonpad_kv_seqlen"
        raise ShapeError(message, "pass past_key and past_value, or nonpad_kv_seqlen alone")
    heads = _by_heads(op.q, op.q_num_heads, "Q", "q_num_heads")
    keys = _by_heads(op.k, op.kv_num_heads, "K", "kv_num_heads")
    values = _by_heads(op.v, op.kv_num_heads, "V", "kv_num_heads")
    batch = same_dim(same_dim(heads[0], keys[0], "batch of Q and K"), values[0], "batch of Q and V")
    same_dim(keys[1], values[1], "heads of K and V")
    same_dim(heads[3], keys[3], "head size of Q and K")
    _check_groups(heads[1], keys[1])
    length = same_dim(keys[2], values[2], "length of K and V")
    total = length + _cached(op.past_key, op.past_value, keys, values)
    scores = (batch, heads[1], heads[2], total)
    _check_mask(op.attn_mask, scores)
    y = (batch, heads[2], heads[1] * values[3]) if op.q.rank == 3 else (batch, heads[1], heads[2], values[3])
    return (
        op.q.with_shape(y),
        op.k.with_shape((batch, keys[1], total, keys[3])),
        op.v.with_shape((batch, keys[1], total, values[3])),
        op.q.with_shape(scores),
    )


def _check_attributes(left: int, right: int, mode: int, precision: int | None) -> None:
    if left < -1 or right < -1:
        message = f"left_window_size is {left}, right_window_size is {right}"
        raise ShapeError(message, "expected a number of positions, or -1 for no limit")
    if mode not in range(4):
        message = f"qk_matmul_output_mode is {mode}"
        raise ShapeError(message, "expected 0 to 3")
    if precision is not None and precision not in PRECISIONS:
        message = f"softmax_precision is {precision}"
        raise ShapeError(message, "1 (float32), 10 (float16), 11 (float64) or 16 (bfloat16)")


def _by_heads(x: TensorFact, heads: int | None, name: str, attribute: str) -> _Shape:
    """Return (batch, heads, length, head size) of queries, keys or values of rank 3 or 4."""
    if x.rank == 4:
        batch, count, length, size = x.dims
        return batch, count if heads is None else same_dim(heads, count, f"heads of {name}"), length, size
    if x.rank != 3:
        message = f"{name} has rank {x.rank}"
        raise ShapeError(message, "expected rank 3 [batch, length, heads * size] or 4 [batch, heads, length, size]")
    if heads is None or heads < 1:
        message = f"{name} has rank 3, and {attribute} is {heads}"
        raise ShapeError(message, f"set {attribute} to the head count")
    batch, length, width = x.dims
    if isinstance(width, int) and width % heads:
        message = f"{name} has {width} columns, expected a multiple of {heads} (heads)"
        raise ShapeError(message)
    return batch, heads, length, width // heads


def _check_groups(queries: Dim, keys: Dim) -> None:
    if isinstance(queries, int) and isinstance(keys, int) and (keys < 1 or queries % keys):
        message = f"{queries} heads of Q are not a multiple of {keys} heads of K and V"
        raise ShapeError(message)


def _cached(past_key: TensorFact | None, past_value: TensorFact | None, keys: _Shape, values: _Shape) -> Dim:
    """Return the length of the key/value cache."""
    if past_key is None or past_value is None:
        return 0
    length: Dim = OPEN
    for name, fact, own in (("past_key", past_key, keys), ("past_value", past_value, values)):
        if fact.shape is None:
            continue
        if fact.rank != 4:
            message = f"{name} has rank {fact.rank}, 4 is needed"
            raise ShapeError(message, "batch, heads, length, size of a head")
        for axis, what in ((0, "batch"), (1, "heads"), (3, "head size")):
            same_dim(fact.dims[axis], own[axis], f"{what} of {name}")
        length = fact.dims[2] if length is OPEN else same_dim(length, fact.dims[2], "length of past_value")
    return length


def _check_mask(mask: TensorFact | None, scores: _Shape) -> None:
    if mask is None or mask.shape is None:
        return
    if not 1 <= mask.rank <= 4:
        message = f"attn_mask has rank {mask.rank}"
        raise ShapeError(message, "expected a shape that broadcasts to (batch, heads, length of Q, length of K)")
    # The last axis may be shorter than the keys.
    found = broadcast(mask.dims[:-1], scores[:-1])
    decided_equal_shapes(found, scores[:-1], "attn_mask does not broadcast to the scores")
    if decide_less(scores[-1], mask.dims[-1]):
        message = f"attn_mask has {mask.dims[-1]} columns for {scores[-1]} keys"
        raise ShapeError(message)


def _attention_macs(
    _y: TensorFact, q: TensorFact, k: TensorFact, v: TensorFact, *operands: TensorFact | None, **attributes: Any
) -> Dim:
    """Return the multiply-accumulates of Q Kᵀ and of the product with V."""
    _, keys, values, scores = _attention_shape(q, k, v, *operands, **attributes)
    return product(scores.dims) * (keys.dims[3] + values.dims[3])


@op(
    shape=_attention_shape,
    since=23,
    outputs=("y", "present_key", "present_value", "qk_matmul_output"),
    exactness="accumulation",
    role="pointwise",
    index_operands=("nonpad_kv_seqlen",),
    holds={"nonpad_kv_seqlen": keys_of_sample},
    macs=_attention_macs,
    ranks={"q": (3, 4), "k": (3, 4), "v": (3, 4), "past_key": 4, "past_value": 4, "nonpad_kv_seqlen": 1},
)
def Attention(
    q: T1,
    k: T1,
    v: T2,
    attn_mask: U | None = None,
    past_key: T1 | None = None,
    past_value: T2 | None = None,
    nonpad_kv_seqlen: Lengths | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[T1, T1, T2, T1]:
    """Scaled dot-product attention: `softmax(scale * Q Kᵀ + bias) V` for each head.

    Query `i` has position `offset + i`, after the cache or at the end of the `nonpad_kv_seqlen` valid keys. With
    `is_causal` it attends to keys up to its position; window sizes limit the distance to either side. A boolean mask
    selects keys, a float mask is added; keys beyond the mask are excluded. A query without keys yields 0. In
    grouped-query attention consecutive query heads share a key/value head.

    The fourth result is the scores: raw (mode 0), after softcap (1), with bias (2), or after softmax (3).

    Shapes: q [B, N, L, H], k [B, M, S, H], v [B, M, S, W], past_key [B, M, P, H], past_value [B, M, P, W],
    nonpad_kv_seqlen [B], attn_mask broadcasts to [B, N, L, P + S] → [B, N, L, W], [B, M, P + S, H], [B, M, P + S, W],
    [B, N, L, P + S]. With rank 3, heads are concatenated along the last axis: q [B, L, N * H], and so on.

    Raises:
        ShapeError: batch, heads or head sizes do not agree, or only one of the two caches is present.

    Source: ONNX Attention-25.
    """
    narrow = q.dtype
    heads, key, value = _split(q, q_num_heads), _split(k, kv_num_heads), _split(v, kv_num_heads)
    key = key if past_key is None else np.concatenate((past_key, key), 2)
    value = value if past_value is None else np.concatenate((past_value, value), 2)
    groups = heads.shape[1] // key.shape[1]
    root = np.sqrt(1 / np.sqrt(heads.shape[3]) if scale is None else scale)
    factor = np.asarray(root).astype(narrow)
    spread = np.repeat(key, groups, 1)
    # Half types are rounded where the specification's decomposition has a result.
    raw = _product(heads * factor, np.swapaxes(spread * factor, 2, 3), narrow)
    capped = _capped(raw, softcap) if softcap else raw
    offset = _offset(heads, past_key, nonpad_kv_seqlen)
    seen = _visible_keys(raw.shape, offset, nonpad_kv_seqlen, (left_window_size, 0 if is_causal else right_window_size))
    bias = _bias(attn_mask, seen, narrow)
    biased = (capped + bias).astype(narrow)
    precision = narrow if softmax_precision is None else PRECISIONS[softmax_precision].numpy
    portions = _portions(biased.astype(precision), bias).astype(narrow)
    y = _product(portions, np.repeat(value, groups, 1), narrow)
    if q.ndim == 3:
        y = np.swapaxes(y, 1, 2).reshape(*q.shape[:2], -1)
    return y, key, value, (raw, capped, biased, portions)[qk_matmul_output_mode]


def _split(x: Tensor, heads: int | None) -> Tensor:
    """Reshape `x` to [batch, heads, length, head size]."""
    if x.ndim == 4:
        return x
    return np.swapaxes(x.reshape(*x.shape[:2], heads or 1, -1), 1, 2)


def _product(a: Tensor, b: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    return np.matmul(widened(a), widened(b)).astype(dtype)


def _capped(x: Tensor, softcap: float) -> Tensor:
    wide = widened(x)
    limit = wide.dtype.type(softcap)
    return (np.tanh(wide / limit) * limit).astype(x.dtype)


def _offset(heads: Tensor, past_key: Tensor | None, lengths: Tensor | None) -> Tensor:
    """Return the number of keys before the first query: a scalar, or one per sample."""
    if lengths is not None:
        return lengths.reshape(-1, 1, 1, 1) - heads.shape[2]
    return np.array(0 if past_key is None else past_key.shape[2])


def _visible_keys(shape: tuple[int, ...], offset: Tensor, lengths: Tensor | None, window: tuple[int, int]) -> Tensor:
    """Return which keys each query attends to by position, window and valid length, ignoring `attn_mask`."""
    ahead = np.arange(shape[3]) - (np.arange(shape[2])[:, None] + offset)
    left, right = window
    seen = np.ones(ahead.shape, np.bool_)
    if left >= 0:
        seen &= -ahead <= left
    if right >= 0:
        seen &= ahead <= right
    if lengths is not None:
        seen = seen & (np.arange(shape[3]) < lengths.reshape(-1, 1, 1, 1))
    return seen


def _bias(mask: Tensor | None, seen: Tensor, dtype: np.dtype[np.generic]) -> Tensor:
    """Return the bias of the scores: -inf for excluded keys."""
    if mask is None:
        return np.where(seen, 0, -np.inf).astype(dtype)
    missing = seen.shape[-1] - mask.shape[-1]
    edges = [*[(0, 0)] * (mask.ndim - 1), (0, max(missing, 0))]
    if mask.dtype == np.bool_:
        return np.where(seen & np.pad(mask, edges), 0, -np.inf).astype(dtype)
    wide = mask.astype(np.float64 if dtype == np.float64 else np.float32)
    return np.where(seen, np.pad(wide, edges, constant_values=-np.inf), -np.inf).astype(dtype)


def _portions(scores: Tensor, bias: Tensor) -> Tensor:
    """Return the attention weights: softmax along the keys; 0 for a query whose bias is -inf for all keys."""
    hidden = np.max(widened(bias), -1, keepdims=True, initial=-np.inf) == -np.inf
    if not scores.shape[-1]:
        return scores
    seen = softmax_rounded(np.where(hidden, 0, widened(scores)).astype(scores.dtype))
    return np.where(hidden, 0, widened(seen)).astype(scores.dtype)

"""Scaled dot-product attention in canonical operators: softmax(scale * Q Kᵀ + bias) V."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import sqrt
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Softmax, Tanh
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sub
from graphport.ops.definitions.attention.attention import PRECISIONS
from graphport.ops.definitions.comparison import Greater, GreaterOrEqual, Less, Or, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMin
from graphport.ops.definitions.reshape import Concat, Reshape, Shape, Squeeze, Tile, Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of, sizes, transposed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.views.attention import AttentionView

    Array: TypeAlias = np.ndarray[Any, Any]

Exported: TypeAlias = "tuple[Value, ...] | None"

_LOWEST = {
    DType.FLOAT16: float(np.finfo(np.float16).min),
    DType.BFLOAT16: -(2 - 2.0**-7) * 2.0**127,
    DType.FLOAT32: float(np.finfo(np.float32).min),
}


def attention(b: Builder, op: AttentionView) -> Exported:
    """Compute softmax(scale * Q Kᵀ + bias) V, and 0 for queries that attend to no key."""
    heads, keys, values = (
        _with_heads(b, operand, count)
        for operand, count in ((op.q, op.q_num_heads), (op.k, op.kv_num_heads), (op.v, op.kv_num_heads))
    )
    keys = keys if op.past_key is None else b(Concat, op.past_key, keys, axis=2)
    values = values if op.past_value is None else b(Concat, op.past_value, values, axis=2)
    count, size = sizes(b.dims(heads)[1::2], "the heads")
    factor = 1 / sqrt(size) if op.scale is None else op.scale
    swapped = transposed(b, _repeat_heads(b, keys, count), (0, 1, 3, 2))
    raw = b(MatMul, b(Mul, heads, b.like(op.q, factor)), swapped)
    capped = b(Mul, b(Tanh, b(Div, raw, b.like(raw, op.softcap))), b.like(raw, op.softcap)) if op.softcap else raw
    bias = _bias(b, raw, op)
    biased, shares = _softmax_of_scores(b, capped, bias, PRECISIONS.get(op.softmax_precision or 0))
    y = b(MatMul, shares, _repeat_heads(b, values, count))
    if len(b.dims(op.q)) == 3:
        y = b(Reshape, transposed(b, y, (0, 2, 1, 3)), (*_static_dims(b.dims(op.q)[:2]), -1))
    return (y, keys, values, (raw, capped, biased, shares)[op.qk_matmul_output_mode])[: b.count]


def _with_heads(b: Builder, x: Value, count: int | None) -> Value:
    dims = b.dims(x)
    if len(dims) == 4:
        return x
    (width,) = sizes(dims[2:], "the widths of queries, keys and values")
    heads = count or 1
    parted = b(Reshape, x, (*_static_dims(dims[:2]), heads, width // heads))
    return transposed(b, parted, (0, 2, 1, 3))


def _static_dims(dims: Sequence[Dim]) -> tuple[int, ...]:
    """Return the first `count` dims for `Reshape`, with 0 (copy) for dynamic dims."""
    return tuple(dim if isinstance(dim, int) else 0 for dim in dims)


def _repeat_heads(b: Builder, x: Value, count: int) -> Value:
    """Repeat each key/value head for the query heads that share it."""
    batch, _, length, _ = b.dims(x, 4)
    heads, size = sizes(b.dims(x)[1::2], "the heads of keys and values")
    if heads == count:
        return x
    (items,), rows = _static_dims([batch]), length if isinstance(length, int) else -1
    split = b(Reshape, x, (items, heads, 1, rows, size))
    return b(Reshape, b(Tile, split, (1, 1, count // heads, 1, 1)), (items, count, rows, size))


def _window(op: AttentionView) -> tuple[int, int]:
    """Return the window size before and after a query's position, in keys; a negative size means no limit."""
    return op.left_window_size, 0 if op.is_causal else op.right_window_size


def _visible_keys(queries: int, keys: int, past: int, window: tuple[int, int]) -> Array:
    """Return which keys each query attends to, without the mask: [queries, keys]."""
    reserve(keys, queries)
    ahead = np.arange(keys) - (np.arange(queries)[:, None] + past)
    left, right = window
    seen = np.ones(ahead.shape, np.bool_)
    if left >= 0:
        seen &= -ahead <= left
    if right >= 0:
        seen &= ahead <= right
    return seen


@dataclass(frozen=True, slots=True)
class _Bias:
    """The bias added to the scores, -inf for masked keys; `may_blind` if a query may attend to no key."""

    value: Value
    may_blind: bool


def _bias(b: Builder, scores: Value, op: AttentionView) -> _Bias | None:
    mask = op.attn_mask
    queries, length = b.dims(scores)[2:]
    past = 0 if op.past_key is None else b.dims(op.past_key, at_least=3)[2]
    if op.nonpad_kv_seqlen is not None:
        return _open_bias(b, scores, op)
    if not (isinstance(queries, int) and isinstance(length, int) and isinstance(past, int)):
        return _open_bias(b, scores, op)
    seen = _visible_keys(queries, length, past, _window(op))
    hidden = np.where(seen, 0, -np.inf)
    if mask is None:
        return None if seen.all() else _Bias(b.like(scores, hidden), may_blind=not seen.any(1).all())
    wide = _additive_mask(b, scores, mask)
    total = wide if seen.all() else b(Add, wide, b.like(scores, hidden))
    return _Bias(total, may_blind=True)


def _open_bias(b: Builder, scores: Value, op: AttentionView) -> _Bias | None:
    """Return the bias for dynamic lengths: the visible keys are computed from positions.

    Before  y = Attention(q, k, v, is_causal=1)
    After   hidden = Range(0, keys) - Range(past, past + queries) > 0;  bias = Where(hidden, -inf, 0) + mask

    With `nonpad_kv_seqlen`, `past` is its difference to the number of queries, and keys from it on are hidden.
    """
    mask = None if op.attn_mask is None else _additive_mask(b, scores, op.attn_mask)
    left, right = _window(op)
    if left < 0 and right < 0 and op.nonpad_kv_seqlen is None:
        return None if mask is None else _Bias(mask, may_blind=True)
    queries, keys = _dim_as_scalar(b, scores, 2), _dim_as_scalar(b, scores, 3)
    zero, one = (b.constant(np.array(number, np.int64)) for number in (0, 1))
    columns = b(Unsqueeze, b(Range, zero, keys, one), (0,))
    parts: list[Value] = []
    if op.nonpad_kv_seqlen is not None:
        lengths = b(Reshape, op.nonpad_kv_seqlen, (-1, 1, 1, 1))
        parts = [b(GreaterOrEqual, columns, lengths)]
        rows = b(Add, b(Unsqueeze, b(Range, zero, queries, one), (1,)), b(Sub, lengths, queries))
    else:
        past = zero if op.past_key is None else _dim_as_scalar(b, op.past_key, 2)
        rows = b(Unsqueeze, b(Range, past, b(Add, past, queries), one), (1,))
    ahead = b(Sub, columns, rows)
    parts += [b(Greater, ahead, right)] if right >= 0 else []
    parts += [b(Less, ahead, -left)] if left >= 0 else []
    is_hidden = reduce(lambda x, y: b(Or, x, y), parts)
    bias = b(Where, is_hidden, b.like(scores, -np.inf), b.like(scores, 0.0))
    # The offset of the positions is 0 if there are as many keys as queries.
    sees_itself = (
        mask is None
        and op.past_key is None
        and op.nonpad_kv_seqlen is None
        and b.dims(scores, at_least=3)[2] == b.dims(scores, at_least=4)[3]
    )
    return _Bias(bias if mask is None else b(Add, mask, bias), may_blind=not sees_itself)


def _dim_as_scalar(b: Builder, x: Value, axis: int) -> Value:
    """Return a dynamic dim as a scalar."""
    return b(Squeeze, b(Shape, x, start=axis, end=axis + 1), (0,))


def _additive_mask(b: Builder, scores: Value, mask: Value) -> Value:
    """Return the mask as one to add, with a column for each key: 0 for true, -inf for false and for missing columns."""
    dtype = dtype_of(mask)
    if dtype is not DType.BOOL and dtype is not dtype_of(scores):
        message = f"the mask is {dtype.name.lower()}, expected the element type of the scores"
        raise UnsupportedError(message)
    wide = b(Where, mask, b.like(scores, 0.0), b.like(scores, -np.inf)) if dtype is DType.BOOL else mask
    keys, columns = b.dims(scores, at_least=4)[3], b.dims(mask, at_least=1)[-1]
    if keys == columns:
        return wide
    if not (isinstance(keys, int) and isinstance(columns, int)):
        message = "the number of mask columns is dynamic, expected a static number"
        raise UnsupportedError(message)
    rows = sizes(b.dims(mask)[:-1], "the rows of the mask")
    return b(Concat, wide, b.like(scores, np.full((*rows, keys - columns), -np.inf)), axis=-1)


def _softmax_of_scores(b: Builder, scores: Value, bias: _Bias | None, precision: DType | None) -> tuple[Value, Value]:
    """Return softmax(scores + bias), computed in the element type `precision`."""
    own = dtype_of(scores)
    biased = scores if bias is None else b(Add, scores, bias.value)
    shares = cast(b, b(Softmax, cast(b, biased, precision or own), axis=-1), own)
    if bias is None:
        return scores, shares
    if not bias.may_blind:
        return biased, shares
    # Each limit is tested by itself: tract 0.23.9 computes the wrong maximum if all elements are below -FLT_MAX.
    lowest = b.like(scores, _LOWEST.get(dtype_of(scores), _LOWEST[DType.FLOAT32]))
    is_blind = b(ReduceMin, b(Less, bias.value, lowest), (-1,), keepdims=1)
    return biased, b(Where, is_blind, 0.0, shares)

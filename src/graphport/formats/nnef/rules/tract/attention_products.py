"""Scaled dot-product attention in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import decide_equal
from graphport.formats.nnef.rules.tract.binding import import_rule
from graphport.ops.declare import ShapeError
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_HIDDEN = -1e30


@import_rule("tract_transformers_sdpa")
def sdpa(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    *,
    scale: float = 0.0,
    datum_type: str = "f32",
    acc_datum_type: str = "f32",
    is_causal: bool = False,
) -> Value:
    """Scaled dot-product attention of rank 3 or 4; masks are added; in causal mode the last query sees all keys."""
    del datum_type, acc_datum_type
    emit = OpBuilder(b)
    rank = len(b.dims(q))
    keys, values = (_repeated(b, each, q) for each in (k, v))
    transposed = emit("Transpose", keys, perm=(*range(rank - 2), rank - 1, rank - 2))
    scores = emit("Mul", emit("MatMul", q, transposed), _factor(b, q, scale))
    if mask is not None:
        scores = emit("Add", scores, mask if mask.dtype is q.dtype else emit("CastLike", mask, q))
    if is_causal:
        scores = _causal(b, scores)
    return emit("MatMul", emit("Softmax", scores, axis=-1), values)


def _factor(b: Builder, q: Value, scale: float) -> Value:
    """Return `scale`, by default 1 / sqrt(query length)."""
    depth = b.dims(q, at_least=1)[-1]
    if scale or isinstance(depth, int):
        return b.like(q, scale or 1.0 / float(np.sqrt(depth if isinstance(depth, int) else 1)))
    emit = OpBuilder(b)
    return emit("Reciprocal", emit("Sqrt", emit("CastLike", emit("Shape", q, start=-1), q)))


def _causal(b: Builder, scores: Value) -> Value:
    """Mask the scores above the diagonal that ends in the last row and column."""
    emit = OpBuilder(b)
    zero = b.constant(np.array([0], np.int64))
    rows, columns = (emit("Squeeze", emit("Shape", scores, start=at, end=at + 1 or None), zero) for at in (-2, -1))
    last = emit("Unsqueeze", emit("Range", 0, rows, 1), [1])
    seen = emit("LessOrEqual", emit("Range", 0, columns, 1), emit("Add", last, emit("Sub", columns, rows)))
    return emit("Where", seen, scores, _HIDDEN)


def _repeated(b: Builder, x: Value, q: Value) -> Value:
    """Repeat key and value heads for grouped queries."""
    own, wanted = b.dims(x), b.dims(q, at_least=2)
    if len(own) != 4 or decide_equal(own[1], wanted[1]) is not False:
        return x
    if own[1] == 0:
        message = f"keys and values have no heads, queries have {wanted[1]}"
        raise ShapeError(message)
    times = wanted[1] // own[1]
    if not isinstance(times, int):
        return x
    emit = OpBuilder(b)
    split = emit("Unsqueeze", x, [2])
    tiled = emit("Tile", split, [1, 1, times, 1, 1])
    front = b.constant(np.array([0, wanted[1]], np.int64))
    return emit("Reshape", tiled, emit("Concat", front, emit("Shape", x, start=2), axis=0))

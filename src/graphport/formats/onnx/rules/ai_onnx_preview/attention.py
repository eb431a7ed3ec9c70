"""Attention whose scores and weights are changed by graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx.rules.ai_onnx_preview import DIALECT, JUDGED
from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.activation import Softmax
from graphport.ops.definitions.arithmetic import Mul
from graphport.ops.definitions.attention.attention import PRECISIONS
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Expand, Transpose, Unsqueeze
from graphport.ops.lowering.inlining import inlined
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value
    from graphport.ops.builder import Builder

_RANK = 4


@lower(DIALECT, "FlexAttention", until=JUDGED)
def flex_attention(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    *,
    scale: float | None = None,
    score_mod: Graph | None = None,
    prob_mod: Graph | None = None,
    softmax_precision: int | None = None,
) -> Value:
    """`prob_mod(softmax(score_mod(scale q k^T))) v`; each head of keys serves a group of heads of queries.

    Shapes: q [batch, heads, time, w]; k [batch, groups, keys, w]; v [batch, groups, keys, u].
    """
    for name, x in (("Q", q), ("K", k), ("V", v)):
        if len(b.dims(x)) != _RANK:
            message = f"{name} has rank {len(b.dims(x))}"
            raise ShapeError(message, "rank 4: batch, heads, time, size")
    own = dtype_of(q)
    if softmax_precision is not None and softmax_precision not in PRECISIONS:
        message = f"softmax_precision is {softmax_precision}"
        raise ShapeError(message, f"one of {', '.join(map(str, PRECISIONS))}")
    default = DType.FLOAT64 if own is DType.FLOAT64 else DType.FLOAT32
    wide = default if softmax_precision is None else PRECISIONS[softmax_precision]
    heads, width = sizes((b.dims(q, at_least=2)[1], b.dims(q, at_least=4)[3]), "query heads and their sizes")
    k, v = (_for_each_head(b, x, heads) for x in (k, v))
    # As the standard counts it: both operands are scaled, in their own type.
    root = b.like(q, np.sqrt(np.float32(1 / np.sqrt(width) if scale is None else scale)))
    scores = b(MatMul, b(Mul, q, root), b(Transpose, b(Mul, k, root), perm=(0, 1, 3, 2)))
    scores = _changed(b, cast(b, scores, wide), score_mod, "score_mod")
    weights = _changed(b, b(Softmax, scores, axis=-1), prob_mod, "prob_mod")
    return cast(b, b(MatMul, weights, cast(b, v, wide)), own)


def _for_each_head(b: Builder, x: Value, heads: int) -> Value:
    groups, width = sizes((b.dims(x, at_least=2)[1], b.dims(x, at_least=4)[3]), "key heads and their sizes")
    if groups == heads:
        return x
    if groups <= 0 or heads % groups:
        message = f"{heads} query heads are not a multiple of {groups} key heads"
        raise ShapeError(message)
    split = b(Unsqueeze, x, [2])
    spread = b(Expand, split, [1, 1, heads // groups, 1, 1])
    return reshaped(b, spread, (0, heads, -1, width))


def _changed(b: Builder, x: Value, body: Graph | None, name: str) -> Value:
    if body is None:
        return x
    if len(body.inputs) != 1 or len(body.outputs) != 1:
        message = f"{name} has {len(body.inputs)} inputs and {len(body.outputs)} outputs"
        raise ShapeError(message, "one of each")
    (y,) = inlined(b, body, [x])
    # The body must preserve shape and type, whether its graph declares them or not.
    if not isinstance(y.fact, TensorFact) or y.fact.shape is None or y.fact.dtype is None:
        y.fact = x.fact
    return y

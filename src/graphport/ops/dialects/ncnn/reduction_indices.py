"""Places of extremes on the way to ncnn, which has no layers for them: comparisons, weights and sums tell them."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import Page
from graphport.ops.dialects.einsum import products_under_mask
from graphport.ops.dialects.ncnn.binding import refuse_constants
from graphport.ops.dialects.ncnn.indices import affordable, along, as_indices, elements_of
from graphport.ops.dialects.operands import needed, sizes, transposed, vector
from graphport.ops.pages.arithmetic import Cast, Max, Mul, Sub
from graphport.ops.pages.comparison import And, Equal, Greater, Less, Not, Or
from graphport.ops.pages.reduction import ArgMax, ArgMin, CumProd, ReduceMax, ReduceMin, ReduceSum, TopK
from graphport.ops.pages.reshape import Unsqueeze

CumProd.lift("ncnn")(products_under_mask)


def _searched(
    page: Page, b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Value:
    """Of the entries that are the extreme, the one of the largest weight, which tells its place."""
    refuse_constants(data)
    dims = b.dims(data)
    at = axis % len(dims)
    (n,) = sizes(dims[at : at + 1], "the axis that is searched")
    best = b(ReduceMax if page is ArgMax else ReduceMin, data, vector(b, [at]))
    others = b(Less, data, best) if page is ArgMax else b(Greater, data, best)
    reserve(n)
    weights = np.arange(1, n + 1) if select_last_index else np.arange(n, 0, -1)
    score = b(Mul, b(Cast, b(Not, others), to=DType.FLOAT32), along(b, weights, at, len(dims), DType.FLOAT32))
    found = b(ReduceMax, score, vector(b, [at]), keepdims=keepdims)
    # The extreme of nothing but infinite ones is the largest finite one there, which none of them is.
    found = b(Max, found, b(Sub, b.like(found, float(n)), b(Mul, found, b.like(found, float(n)))))
    one, last = (b.constant(np.float32(number)) for number in (1, n))
    return as_indices(b, b(Sub, found, one) if select_last_index else b(Sub, last, found), n)


ArgMax.lift("ncnn")(partial(_searched, ArgMax))
ArgMin.lift("ncnn")(partial(_searched, ArgMin))


@TopK.lift("ncnn")
def lift_top_k(
    b: Builder, x: Value, k: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Value, Value]:
    """Each entry is compared with all others: as many as are before it, so far behind it comes to stand."""
    del sorted
    refuse_constants(x)
    dims = sizes(b.dims(x), "what is sorted")
    rank, at, (count,) = len(dims), axis % len(dims), needed(k, "how many there are")
    n = dims[at]
    affordable(prod(dims) * n)
    order = [*(each for each in range(rank) if each != at), at]
    moved = transposed(b, x, order)
    one, other = b(Unsqueeze, moved, vector(b, [rank])), b(Unsqueeze, moved, vector(b, [rank - 1]))
    # [.., i, j]: whether j comes before i.
    ahead = b(Greater if largest else Less, other, one)
    behind = b(Greater if largest else Less, one, other)
    first = b.constant(np.tril(np.ones((n, n), bool), -1).reshape(*[1] * (rank - 1), n, n))
    before = b(Or, ahead, b(And, b(Not, b(Or, ahead, behind)), first))
    standing = b(ReduceSum, b(Cast, before, to=DType.FLOAT32), vector(b, [rank]), keepdims=0)
    wanted = along(b, np.arange(count), rank - 1, rank + 1, DType.FLOAT32)
    rows = b(Cast, b(Equal, b(Unsqueeze, standing, vector(b, [rank - 1])), wanted), to=DType.FLOAT32)
    weighted = b(Mul, rows, along(b, np.arange(n), rank, rank + 1, DType.FLOAT32))
    numbers = b(ReduceSum, weighted, vector(b, [rank]), keepdims=0)
    back = [order.index(each) for each in range(rank)]
    values = elements_of(b, moved, numbers, rank - 1)
    return transposed(b, values, back), as_indices(b, transposed(b, numbers, back), n)

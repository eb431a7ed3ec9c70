"""EmbeddingBag in both dialects of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import emits, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_slices import sliced
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Div, Max, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Not, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Size, Unsqueeze
from graphport.ops.lowering.operands import dtype_of


@emits("aten::embedding_bag", "torch.embedding_bag")
def embedding_bag(
    b: Builder,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: Any = False,
    mode: Any = 0,
    sparse: Any = False,
    per_sample_weights: Value | None = None,
    include_last_offset: Any = False,
    padding_idx: Any = None,
) -> Any:
    """Sum, mean or maximum of the table rows in each bag; `offsets` are the starts of the bags."""
    del scale_grad_by_freq, sparse
    if any(b.wants(place) for place in range(1, b.count)):
        message = "the results 1 to 3 of embedding_bag, which only the backward pass needs, are used"
        raise UnsupportedError(message)
    begins = cast(b, offsets, DType.INT64)
    if scalar_of(include_last_offset):
        begins = sliced(b, begins, 0, 0, -1)
    one = b.constant(1, DType.INT64)
    positions = b(Range, b.constant(0, DType.INT64), b(Size, indices), one)
    column = b(Unsqueeze, begins, [1])
    # Membership matrix [bags, positions]: offset of the bag <= position < offset of the next bag.
    started = cast(b, b(GreaterOrEqual, positions, column), DType.INT64)
    owner = b(Sub, b(ReduceSum, started, [0], keepdims=0), one)
    numbers = b(Range, b.constant(0, DType.INT64), b(Size, begins), one)
    belongs = b(Equal, b(Unsqueeze, numbers, [1]), owner)
    if padding_idx is not None and int(scalar_of(padding_idx)) >= 0:
        belongs = b(And, belongs, b(Not, b(Equal, indices, b.like(indices, int(scalar_of(padding_idx))))))
    rows = b(Gather, weight, indices)
    if per_sample_weights is not None:
        rows = b(Mul, rows, b(Unsqueeze, per_sample_weights, [1]))
    y = _pooled(b, rows, belongs, int(scalar_of(mode)))
    return y if b.count == 1 else (y, *[None] * (b.count - 1))


def _pooled(b: Builder, rows: Value, belongs: Value, mode: int) -> Value:
    share = cast(b, belongs, dtype_of(rows))
    if mode < 2:
        total = b(MatMul, share, rows)
        if mode == 0:
            return total
        count = b(ReduceSum, share, [1])
        return b(Div, total, b(Max, count, 1))
    wide = b(Unsqueeze, rows, [0])
    low = b.like(rows, float(np.finfo(np.float32).min))
    most = b(ReduceMax, b(Where, b(Unsqueeze, belongs, [2]), wide, low), [1], keepdims=0)
    count = b(ReduceSum, share, [1])
    return b(Where, b(Equal, count, 0), 0, most)

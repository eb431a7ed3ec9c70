"""Decoding of sequences in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.arithmetic import Neg, Sub
from graphport.ops.definitions.comparison import And, Equal, Less, Not, Where
from graphport.ops.definitions.indexing import GatherND, NonZero
from graphport.ops.definitions.reduction import ArgMax, CumSum, ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Transpose, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, extent
from graphport.ops.lowering.operands import as_int64, cast, reshaped, scalar, sizes, transposed, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@operator("CTCGreedyDecoder")
def ctc_greedy_decoder(
    b: Builder, x: Value, lengths: Value, *, merge_repeated: bool = False, blank_index: int = -1
) -> list[Value]:
    """The best class of each step without blanks, as a sparse tensor, and the negated sum of the best logits.

    Operands: logits [time, batch, classes], lengths [batch]. Repeated classes are merged on request.
    """
    (classes,) = sizes(b.dims(x, 3)[2:], "the number of classes")
    best = b(ArgMax, x, axis=2, keepdims=0)
    steps = reshaped(b, counted(b, extent(b, x, 0)), (-1, 1))
    is_inside = b(Less, steps, as_int64(b, lengths))
    blank = scalar(b, blank_index % classes, DType.INT64)
    is_kept = b(And, is_inside, b(Not, b(Equal, best, blank)))
    if merge_repeated:
        first = b(Expand, scalar(b, -1, DType.INT64), b(Concat, vector(b, [1]), extent(b, x, 1), axis=0))
        before = b(Concat, first, cut(b, best, 0, -1, 0), axis=0)
        is_kept = b(And, is_kept, b(Not, b(Equal, best, before)))
    is_kept = transposed(b, is_kept, (1, 0))
    counts = cast(b, is_kept, DType.INT64)
    places = b(Sub, b(CumSum, counts, 1), 1)
    at = b(Transpose, b(NonZero, is_kept), perm=(1, 0))
    columns = b(Unsqueeze, b(GatherND, places, at), [1])
    indices = b(Concat, cut(b, at, 0, 1, 1), columns, axis=1)
    width = b(ReduceMax, b(ReduceSum, counts, [1], keepdims=0), [0], keepdims=1)
    top = b(Where, is_inside, b(ReduceMax, x, [2], keepdims=0), 0)
    score = b(Neg, b(Unsqueeze, b(ReduceSum, top, [0], keepdims=0), [1]))
    values = b(GatherND, transposed(b, best, (1, 0)), at)
    return [indices, values, b(Concat, extent(b, x, 1), width, axis=0), score]

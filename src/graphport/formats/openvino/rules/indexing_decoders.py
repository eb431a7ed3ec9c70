"""Sequence decoders of OpenVINO: greedy CTC decoding and beam search back-tracking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ops.declare import lower
from graphport.ops.definitions.arithmetic import Add, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Less, Not, Where
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.reduction import ArgMax, CumSum, ReduceSum, TopK
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.extents import counted, cut, extent, joined
from graphport.ops.lowering.operands import as_int64, as_scalar, as_vector, cast, dtype_of, index, sizes, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("openvino", "opset1.CTCGreedyDecoder")
def greedy_decoder(b: Builder, scores: Value, mask: Value, *, ctc_merge_repeated: bool = True) -> Value:
    """Greedy CTC decoder: classes [N, T, 1, 1] as floats, padded with -1; the last class is the blank."""
    best = b(Transpose, b(ArgMax, scores, axis=2, keepdims=0), perm=(1, 0))
    classes = b(Shape, scores, start=2)
    is_over = b(Equal, cast(b, mask, DType.FLOAT32), 0)
    # All steps after the first masked one are masked.
    ended = b(CumSum, cast(b, is_over, DType.INT64), 0)
    going = b(Transpose, b(Equal, ended, 0), perm=(1, 0))
    blank = b(Sub, classes, [1])
    found, _ = _collapse_classes(b, best, going, blank, merges=ctc_merge_repeated)
    return b(Unsqueeze, cast(b, found, DType.FLOAT32), [2, 3])


@lower("openvino", "opset6.CTCGreedyDecoderSeqLen")
def greedy_decoder_of_lengths(
    b: Builder,
    scores: Value,
    lengths: Value,
    blank: Value | None = None,
    *,
    merge_repeated: bool = True,
    classes_index_type: DType = DType.INT32,
    sequence_length_type: DType = DType.INT32,
) -> tuple[Value, ...]:
    """Greedy CTC decoder with sequence lengths: classes [N, T], padded with -1, and their number."""
    best = b(ArgMax, scores, axis=2, keepdims=0)
    steps = counted(b, extent(b, best, 1))
    going = b(Less, steps, b(Unsqueeze, as_int64(b, lengths), [1]))
    nothing = as_vector(b, blank) if blank is not None else b(Sub, b(Shape, scores, start=2), [1])
    found, count = _collapse_classes(b, best, going, nothing, merges=merge_repeated)
    return cast(b, found, classes_index_type), cast(b, count, sequence_length_type)


def _collapse_classes(b: Builder, best: Value, going: Value, blank: Value, *, merges: bool) -> tuple[Value, Value]:
    """Remove blanks and repetitions from the best classes; return the sequences, padded with -1, and their lengths."""
    kept = b(And, going, b(Not, b(Equal, best, blank)))
    if merges:
        first = b(Expand, vector(b, [-1]), joined(b, extent(b, best, 0), 1))
        before = b(Concat, first, cut(b, best, 0, -1, 1), axis=1)
        kept = b(And, kept, b(Not, b(Equal, best, before)))
    steps = counted(b, extent(b, best, 1))
    moved, count = packed(b, best, kept, steps)
    is_there = b(Less, steps, b(Unsqueeze, count, [1]))
    return b(Where, is_there, moved, index(b, -1)), count


def packed(b: Builder, x: Value, kept: Value, steps: Value) -> tuple[Value, Value]:
    """Move the kept entries [N, T] to the front, in order; also return their number [N]."""
    length = b(Shape, x, start=1)
    # Discarded entries sort after all others.
    late = b(Mul, cast(b, b(Not, kept), DType.INT64), length)
    _, order = b.results(TopK, 2, b(Add, late, steps), length, axis=1, largest=0)
    count = b(ReduceSum, cast(b, kept, DType.INT64), [1], keepdims=0)
    return b(GatherElements, x, order, axis=1), count


@lower("openvino", "opset1.GatherTree")
def gather_tree(b: Builder, steps: Value, parents: Value, lengths: Value, end_token: Value) -> Value:
    """Trace beams [T, B, W] from their last step to the first; steps after the end are filled with the end token."""
    (count,) = sizes(b.dims(steps, 3)[:1], "the number of steps")
    dtype = dtype_of(steps)
    ids, owners = as_int64(b, steps), as_int64(b, parents)
    token = as_scalar(b, as_int64(b, end_token))
    ends = b(Unsqueeze, as_int64(b, lengths), [1])
    beams = counted(b, b(Shape, ids, start=2))
    current = b(Expand, beams, b(Shape, ids, start=1))
    found: list[Value] = []
    for step in reversed(range(count)):
        place = index(b, step)
        is_inside = b(Less, place, ends)
        own = b(GatherElements, b(Gather, ids, place), current, axis=1)
        found.append(b(Where, is_inside, own, token))
        current = b(Where, is_inside, b(GatherElements, b(Gather, owners, place), current, axis=1), current)
    lines = [b(Unsqueeze, line, [0]) for line in reversed(found)]
    whole = b(Concat, *lines, axis=0)
    # All steps after the first end token are end tokens.
    is_end = cast(b, b(Equal, whole, token), DType.INT64)
    seen = b(CumSum, is_end, 0)
    return cast(b, b(Where, b(Equal, seen, 0), whole, token), dtype)

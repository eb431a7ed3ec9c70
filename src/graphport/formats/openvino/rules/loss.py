"""CTC loss, the only loss function of OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.indexing_decoders import packed
from graphport.ops.declare import lower
from graphport.ops.decompositions.log_likelihood import register
from graphport.ops.definitions.activation import LogSoftmax
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Log, Max, Mod, Mul, Neg, Sub
from graphport.ops.definitions.comparison import And, Equal, Less, LessOrEqual, Not, Or, Where
from graphport.ops.definitions.control.loops import Scan
from graphport.ops.definitions.indexing import Gather, GatherElements, Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.captures import step_body
from graphport.ops.lowering.extents import counted
from graphport.ops.lowering.operands import as_int64, as_vector, cast, dtype_of, index, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


register("openvino")


_NEVER = float("-inf")


@lower("openvino", "opset4.CTCLoss")
def ctc_loss(
    b: Builder,
    logits: Value,
    logit_lengths: Value,
    labels: Value,
    label_lengths: Value,
    blank: Value | None = None,
    *,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    unique: bool = False,
) -> Value:
    """CTC loss [N]: -log of the probability of labels [N, T] with blanks in between.

    Shapes: logits [N, T, C], lengths [N], labels [N, T]. With `ctc_merge_repeated` repeated labels are merged;
    `preprocess_collapse_repeated` drops labels equal to the previous one, `unique` labels equal to any previous one.
    """
    dtype = dtype_of(logits)
    if blank is None:
        blank = b(Sub, b(Shape, logits, start=2), [1])
    nothing = as_vector(b, blank)
    targets, count = _targets(
        b, as_int64(b, labels), as_int64(b, label_lengths), is_collapsed=preprocess_collapse_repeated, is_unique=unique
    )
    stated = _with_blanks(b, targets, nothing)
    likely = b(LogSoftmax, cast(b, logits, DType.FLOAT32), axis=2)
    indices = b(Unsqueeze, stated, [1])
    times = b(Shape, logits, start=1, end=2)
    each = b(Concat, b(Shape, stated, start=0, end=1), times, b(Shape, stated, start=1), axis=0)
    likely = b(Transpose, b(GatherElements, likely, b(Expand, indices, each), axis=2), perm=(1, 0, 2))
    steps = counted(b, times)
    may_stay, may_skip = _moves(b, stated, nothing, merges=ctc_merge_repeated)
    last = b(Unsqueeze, b(Mul, count, index(b, 2)), [1])
    lengths = b(Unsqueeze, as_int64(b, logit_lengths), [1])
    total = _walked(b, likely, steps, may_stay, may_skip, last, lengths)
    every = counted(b, b(Shape, stated, start=1))
    is_end = b(And, b(LessOrEqual, every, last), b(LessOrEqual, b(Sub, last, index(b, 1)), every))
    ends = b(Where, is_end, total, _NEVER)
    worst = b(ReduceMax, ends, [1])
    spread = b(ReduceSum, b(Exp, b(Sub, ends, _finite(b, worst))), [1])
    found = b(Neg, b(Add, b(Log, spread), _finite(b, worst)))
    return cast(b, b(Gather, found, 0, axis=1), dtype)


def _finite(b: Builder, x: Value) -> Value:
    """Replace the logarithm of 0 by 0: it is subtracted from others, which must stay -inf."""
    return b(Where, b(Equal, x, _NEVER), 0, x)


def _targets(b: Builder, labels: Value, lengths: Value, *, is_collapsed: bool, is_unique: bool) -> tuple[Value, Value]:
    """Drop padding and repeated labels (all duplicates if `is_unique`) of [N, T]; return also the lengths [N]."""
    length = b(Shape, labels, start=1)
    every = counted(b, length)
    kept = b(Less, every, b(Unsqueeze, lengths, [1]))
    if not is_unique and not is_collapsed:
        return labels, lengths
    if is_unique:
        pairs = b(Equal, b(Unsqueeze, labels, [2]), b(Unsqueeze, labels, [1]))
        is_earlier = b(Less, every, b(Unsqueeze, every, [1]))
        seen = b(ReduceMax, cast(b, b(And, pairs, is_earlier), DType.INT32), [2], keepdims=0)
        kept = b(And, kept, b(Equal, seen, 0))
    else:
        is_first = b(Equal, every, index(b, 0))
        before = b(Slice, b(Pad, labels, [0, 1, 0, 0]), [0], length, [1])
        kept = b(And, kept, b(Or, is_first, b(Not, b(Equal, labels, before))))
    return packed(b, labels, kept, every)


def _with_blanks(b: Builder, targets: Value, blank: Value) -> Value:
    """Insert blanks: labels [N, T] to [N, 2 * T + 1]."""
    length = b(Shape, targets, start=1)
    whole = b(Add, b(Mul, length, [2]), [1])
    every = counted(b, whole)
    padded = b(Pad, targets, [0, 0, 0, 1])
    own = b(Gather, padded, b(Div, every, index(b, 2)), axis=1)
    is_label = b(Equal, b(Mod, every, index(b, 2)), index(b, 1))
    return b(Where, is_label, own, blank)


def _moves(b: Builder, stated: Value, blank: Value, *, merges: bool) -> tuple[Value, Value]:
    """Return whether a state [N, S] may repeat, and whether it may follow the state two before it."""
    is_blank = b(Equal, stated, blank)
    may_stay = b(Or, is_blank, b(Equal, stated, stated)) if merges else is_blank
    far = b(Slice, b(Pad, stated, [0, 2, 0, 0]), vector(b, [0]), b(Shape, stated, start=1), [1])
    may_skip = b(Not, b(Equal, far, blank))
    if merges:
        may_skip = b(And, may_skip, b(Not, b(Equal, far, stated)))
    return may_stay, may_skip


def _walked(
    b: Builder, likely: Value, steps: Value, may_stay: Value, may_skip: Value, last: Value, lengths: Value
) -> Value:
    """CTC forward pass: log probabilities [N, S] of the states after the last time step of each sequence."""
    fact = TensorFact(DType.FLOAT32, b.dims(may_stay))
    inner, body, given = step_body(b, (fact, fact, TensorFact(DType.INT64, ())))
    every = counted(b, b(Shape, may_stay, start=1))
    nowhere = b(Expand, b.constant(np.float32(_NEVER)), b(Shape, may_stay))
    body.set_outputs([_step(inner, given, every, (may_stay, may_skip), last, lengths)])
    return b.results(Scan, 1, nowhere, likely, steps, body=body, num_scan_inputs=2)[0]


def _step(
    b: Builder, given: Sequence[Value], every: Value, moves: tuple[Value, Value], last: Value, lengths: Value
) -> Value:
    """Compute the log probabilities of one time step from the previous ones."""
    (own, here, step), (may_stay, may_skip) = given, moves
    nothing = b.like(own, _NEVER)
    ways = [b(Where, may_stay, own, nothing), _moved(b, own, 1), b(Where, may_skip, _moved(b, own, 2), nothing)]
    worst = _finite(b, b(Max, *ways))
    parts = [b(Exp, b(Sub, way, worst)) for way in ways]
    gone = b(Add, b(Log, b(Add, b(Add, parts[0], parts[1]), parts[2])), worst)
    begun = b(Where, b(Less, every, index(b, 2)), 0, nothing)
    gone = b(Where, b(Equal, step, index(b, 0)), begun, gone)
    new = b(Where, b(LessOrEqual, every, last), b(Add, gone, here), nothing)
    return b(Where, b(Less, step, lengths), new, own)


def _moved(b: Builder, x: Value, by: int) -> Value:
    """Shift entries by `by` states; the first ones get probability 0."""
    wider = b(Pad, x, [0, by, 0, 0], _NEVER)
    return b(Slice, wider, vector(b, [0]), b(Shape, x, start=1), [1])

"""Constants of ncnn, and constants of computed shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.ncnn.rules.binding import AXES, Layer, layer
from graphport.formats.ncnn.rules.emitting import KEYS, MOST_AXES, emitted, remembered, restored
from graphport.formats.ncnn.rules.integers import LIMIT, counted
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Sub
from graphport.ops.definitions.generate import ConstantOfShape, Range
from graphport.ops.definitions.reduction import CumSum, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape
from graphport.ops.lowering.operands import sizes, vector
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from graphport.core.storage import Storage


@layer("MemoryData")
def memory_data(at: Layer) -> Value:
    """MemoryData: a constant blob."""
    shape = [n for n in (at.integer(KEYS[name]) for name in AXES[MOST_AXES]) if n]
    return at.weight(0, [1, *(shape or [1])])


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@ConstantOfShape.export_rule("ncnn")
def export_constant_of_shape(b: Builder, input: Value, *, value: Storage | None = None) -> Value | None:
    """Export ConstantOfShape of floats: one element, expanded."""
    (rank,) = sizes(b.dims(input, 1), "the rank")
    if value is not None and value.dtype is not DType.FLOAT32:
        return None
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    return b(Expand, remembered(b, b.constant(number.reshape([1] * rank))), input)


@Range.export_rule("ncnn")
def export_range(b: Builder, start: Value, limit: Value, delta: Value) -> Value | None:
    """Export Range of an open length in steps of 1 as running sums.

    Before  y = Range(start, limit, 1)
    After   y = CumSum(Expand(1, [limit - start])) + (start - 1)
    """
    first, step = (constant_numbers(each) for each in (start, delta))
    if not first or not step or step[0] != 1:
        return None
    sums = b(CumSum, _ones(b, b(Sub, limit, start)), [1])
    y = emitted(b, "BinaryOp", sums, p0=0, p1=1, p2=first[0] - 1)
    y = restored(b, y, TensorFact(start.dtype, b.outcome.dims), None)
    return counted(y, LIMIT - 1) if start.dtype is not None and start.dtype.is_integer else y


def _ones(b: Builder, length: Value) -> Value:
    """Return ones [1, n]; the length n is a tensor of one element that depends on input sizes."""
    one = remembered(b, b.constant(np.ones((1, 1), np.float32)))
    return b(Expand, one, b(Concat, vector(b, [1]), b(Reshape, length, [1]), axis=0))


def float_size(b: Builder, x: Value, fact: TensorFact) -> Value | None:
    """Return a size of one element as a float; `None` if it is not known from the sizes of inputs."""
    known = x.fact.elements if isinstance(x.fact, TensorFact) else None
    if known is None or len(known) != 1 or not isinstance(known[0], Symbolic):
        return None
    return restored(b, b(ReduceSum, _ones(b, x), [1]), fact, None)

"""Reduction and ArgMax layers of Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer, reshaped_in_caffe
from graphport.formats.caffe.rules.rule_table import RULES
from graphport.ops import pattern
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Mul
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.reduction import (
    ArgMax,
    ReduceL1,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    ReduceSumSquare,
    TopK,
)
from graphport.ops.definitions.reshape import Flatten, Unsqueeze
from graphport.ops.definitions.reshape.pieces import Concat
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@layer("Reduction", "reduction_param")
def reduction(at: Layer, *, operation: str = "SUM", axis: int = 0, coeff: float = 1.0) -> Value:
    """Reduce all axes from `axis` on."""
    op_defs = {"SUM": ReduceSum, "ASUM": ReduceL1, "SUMSQ": ReduceSumSquare, "MEAN": ReduceMean}
    if operation not in op_defs:
        message = f"unknown operation {operation!r}, expected one of {', '.join(op_defs)}"
        raise UnsupportedError(message)
    axes = at.integers(*range(at.axis(axis), len(at.dims())))
    y = at.b(op_defs[operation], at.x, axes, keepdims=0)
    return y if coeff == 1 else at.b(Mul, y, at.float_scalar(coeff))


@layer("ArgMax", "argmax_param")
def arg_max(at: Layer, *, out_max_val: bool = False, top_k: int = 1, axis: int | None = None) -> Value:
    """Indices or values of the largest elements; without an axis, both for each image."""
    if axis is None:
        indices, largest = _largest(at, at.b(Flatten, at.x), 1, top_k)
        rows = [at.b(Unsqueeze, value, at.integers(1)) for value in (indices, largest)]
        y = at.b(Concat, *rows, axis=1) if out_max_val else rows[0]
        # The result has the rank of the bottom, at least 3.
        rank = len(at.dims())
        return at.b(Unsqueeze, y, at.integers(*range(3, rank))) if rank > 3 else y
    indices, largest = _largest(at, at.x, at.axis(axis), top_k)
    return largest if out_max_val else indices


def _largest(at: Layer, x: Value, axis: int, count: int) -> tuple[Value, Value]:
    if count == 1:
        # Caffe selects the last of equal elements.
        indices = at.b(ArgMax, x, axis=axis, select_last_index=1)
        largest = at.b(ReduceMax, x, at.integers(axis))
    else:
        largest, indices = at.b.results(TopK, 2, x, at.integers(count), axis=axis)
    return at.b(Cast, indices, to=DType.FLOAT32), largest


def _emitted(
    b: Builder, operation: str, pool: str, x: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int
) -> Value | None:
    """Export a reduction of the last axes; over spatial axes as pooling if possible."""
    dims = b.dims(x)
    numbers = tuple(range(len(dims))) if axes is None else pattern.constant_numbers(axes)
    if numbers is None or (noop_with_empty_axes and not numbers):
        return None
    indices = sorted(axis_index(axis, len(dims)) for axis in numbers or range(len(dims)))
    if pool and indices == [2, 3] and len(dims) == 4:
        facts = [TensorFact(DType.FLOAT32, (*dims[:2], 1, 1))]
        (y,) = in_caffe(b, "Pooling", x, facts=facts, pool=pool, global_pooling=True)
        return y if keepdims else reshaped_in_caffe(b, y)[0]
    if not operation or not indices or indices != list(range(indices[0], len(dims))):
        return None
    facts = [TensorFact(DType.FLOAT32, dims[: indices[0]])]
    (y,) = in_caffe(b, "Reduction", x, facts=facts, operation=operation, axis=indices[0])
    return reshaped_in_caffe(b, y)[0] if keepdims else y


RULES.having(reduced=_emitted).export_rules("""
ReduceSum -> reduced("SUM", "", data, axes, keepdims, noop_with_empty_axes)
ReduceMean -> reduced("MEAN", "AVE", data, axes, keepdims, noop_with_empty_axes)
ReduceL1 -> reduced("ASUM", "", data, axes, keepdims, noop_with_empty_axes)
ReduceSumSquare -> reduced("SUMSQ", "", data, axes, keepdims, noop_with_empty_axes)
ReduceMax -> reduced("", "MAX", data, axes, keepdims, noop_with_empty_axes)
""")

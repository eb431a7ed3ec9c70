"""NegativeLogLikelihoodLoss as Gather and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.core.dtypes import DType
from graphport.ops.definitions.arithmetic import Div, Mul, Neg
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.reduction.reduce import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.lowering.operands import cast, dtype_of, vector
from graphport.ops.views.loss import NegativeLogLikelihoodLossView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Exported: TypeAlias = "tuple[Value, ...] | None"


def register(dialect: str) -> None:
    """Register the decomposition as the export rule of `dialect`."""

    @NegativeLogLikelihoodLossView.export_rule(dialect)
    def exported(b: Builder, op: NegativeLogLikelihoodLossView) -> Exported:
        return (_negative_log_likelihood(b, op.input, op.target, op.weight, op.ignore_index, op.reduction),)


def _negative_log_likelihood(
    b: Builder, logarithms: Value, target: Value, weight: Value | None, ignore_index: int | None, reduction: str
) -> Value:
    """Gather the negated input at each target and multiply it by the class weight; an ignored target has weight 0."""
    target = cast(b, target, DType.INT64)
    ignored = None if ignore_index is None else b(Equal, target, b.like(target, ignore_index))
    place = target if ignored is None else b(Where, ignored, 0, target)
    one = vector(b, [1])
    found = b(Squeeze, b(GatherElements, logarithms, b(Unsqueeze, place, one), axis=1), one)
    factor = _factor(b, logarithms, place, weight, ignored, reduction)
    loss = b(Neg, found)
    loss = loss if factor is None else b(Mul, loss, factor)
    loss = loss if ignored is None else b(Where, ignored, 0, loss)
    if reduction == "none":
        return loss
    every = vector(b, range(len(b.dims(loss))))
    if reduction == "mean" and factor is None:
        return b(ReduceMean, loss, every, keepdims=0)
    total = b(ReduceSum, loss, every, keepdims=0)
    if reduction == "sum" or factor is None:
        return total
    return b(Div, total, b(ReduceSum, factor, every, keepdims=0))


def _factor(
    b: Builder, logarithms: Value, place: Value, weight: Value | None, ignored: Value | None, reduction: str
) -> Value | None:
    """Return the loss weight of each target, 0 for ignored ones; `None` if neither factor nor mean needs weights."""
    zero = b.like(logarithms, 0)
    if weight is not None:
        factor = b(Gather, cast(b, weight, dtype_of(logarithms)), place, axis=0)
        return factor if ignored is None else b(Where, ignored, zero, factor)
    if ignored is None or reduction != "mean":
        return None
    return b(Where, ignored, zero, 1)

"""Export rules of reductions and norms to PNNX."""

from __future__ import annotations

from typing import Any

from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, called, static
from graphport.formats.pytorch.rules.functions.arithmetic_export import expressed
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.normalization import MeanVarianceNormalization
from graphport.ops.definitions.pooling import GlobalLpPool
from graphport.ops.definitions.reduction import CumProd, ReduceLogSum, ReduceSumSquare
from graphport.ops.lowering.operands import dtype_of


def _summed(b: Builder, x: Value, axes: Value | None, keepdims: int, is_idle: int) -> Value | None:
    known_axes = () if axes is None else static(axes)
    if known_axes is None or (is_idle and not known_axes):
        return None
    fact = TensorFact(dtype_of(x), None)
    return called(b, "torch.sum", fact, input=x, dim=known_axes or tuple(range(len(b.dims(x)))), keepdim=bool(keepdims))


@ReduceSumSquare.export_rule(DIALECT)
def export_sum_square(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Value | None:
    if not dtype_of(data).is_floating or not b.dims(data):
        return None
    return _summed(b, expressed(b, "square(@0)", data), axes, keepdims, noop_with_empty_axes)


@ReduceLogSum.export_rule(DIALECT)
def export_log_sum(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Value | None:
    total = _summed(b, data, axes, keepdims, noop_with_empty_axes) if dtype_of(data).is_floating else None
    if total is None or not b.dims(data):
        return None
    return b.emit("Expression", total, expr="log(@0)")[0]


@CumProd.export_rule(DIALECT)
def export_cumprod(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value | None:
    place = static(axis)
    if exclusive or reverse or place is None or not dtype_of(x).is_floating:
        return None
    return called(b, "torch.cumprod", input=x, dim=place[0])


PNNX.export_rules("""
# Rows of zeros stay such.
LpNormalization -> rank(input) > 0: F.normalize(input=input, p=1.0 * p, dim=axis, eps=1e-12)
""")


@GlobalLpPool.export_rule(DIALECT)
def export_global_lp_pool(b: Builder, x: Value, *, p: int = 2) -> Value | None:
    axes = tuple(range(2, len(b.dims(x))))
    return called(b, "torch.norm", input=x, p=float(p), dim=axes, keepdim=True) if axes else None


@MeanVarianceNormalization.export_rule(DIALECT)
def export_mean_variance(b: Builder, x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> Value:
    """Export MeanVarianceNormalization.  Source: ONNX's function body, which adds 1e-9 to the standard deviation."""

    def mean(y: Value) -> Value:
        dims = b.dims(y)
        reduced_axes = {axis % len(dims) for axis in axes}
        fact = TensorFact(dtype_of(x), tuple(1 if axis in reduced_axes else dim for axis, dim in enumerate(dims)))
        return called(b, "torch.mean", fact, input=y, dim=tuple(axes), keepdim=True)

    centered = expressed(b, "sub(@0,@1)", x, mean(x))
    squares: Any = mean(expressed(b, "square(@0)", centered))
    return expressed(b, "div(@0,add(sqrt(@1),1e-9))", centered, squares)

"""Export rules of reductions to ATen."""

from __future__ import annotations

from typing import Any

from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN
from graphport.formats.pytorch.rules.emitting import (
    DIALECT,
    aten,
    aten_results,
    element_of,
    elements_of,
    size_of,
    with_fact,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.definitions.reduction import ArgMax, ArgMin, CumProd, CumSum, Einsum
from graphport.ops.lowering.operands import cast, dtype_of, ends_of, integers
from graphport.ops.views.reduction import TopKView

_UNSIGNED = (DType.UINT16, DType.UINT32, DType.UINT64)


def _reduced_axes(b: Builder, data: Value, axes: Value | None, noop_with_empty_axes: int) -> tuple[Any, ...] | None:
    """Return the reduced axes, which may be run-time values; `None` if nothing is reduced."""
    rank = len(b.dims(data))
    known = () if axes is None else integers(axes)
    if known is None and axes is not None:
        found = elements_of(b, axes)
        if not found:
            return None if noop_with_empty_axes else tuple(range(rank))
        return found
    if not known:
        return None if noop_with_empty_axes else tuple(range(rank))
    return tuple(sorted({axis % rank for axis in known}))


def _dims(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> tuple[Dim, ...]:
    """Return the shape of a reduced tensor; with run-time axes, all dims are unknown."""
    dims = b.dims(x)
    if any(isinstance(axis, Value) for axis in places):
        return (OPEN,) * (len(dims) if keeps else len(dims) - len(places))
    return tuple(1 if axis in places else dim for axis, dim in enumerate(dims) if keeps or axis not in places)


def _reduced(
    b: Builder, name: str, x: Value, places: tuple[Any, ...], *arguments: Any, keeps: bool, wide: DType, **named: Any
) -> Value:
    """Emit a reduction in the element type `wide`, and cast the result to that of `x`."""
    own = dtype_of(x)
    y = aten(b, name, cast(b, x, wide), *arguments, places, keeps, **named)
    y = with_fact(y, wide, _dims(b, x, places, keeps=keeps))
    return cast(b, y, own)


def _integer_type(x: Value) -> DType:
    own = dtype_of(x)
    return DType.INT64 if own in _UNSIGNED else own


def _floating(x: Value) -> DType:
    own = dtype_of(x)
    return own if own.is_floating else DType.FLOAT64


def _sum(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    wide = _integer_type(x)
    return _reduced(b, "sum.dim_IntList", x, places, keeps=keeps, wide=wide, dtype=wide)


def _mean(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    return _reduced(b, "mean.dim", x, places, keeps=keeps, wide=_floating(x))


def _product(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    own, wide = dtype_of(x), _integer_type(x)
    y = cast(b, x, wide)
    for axis in places:
        y = with_fact(aten(b, "prod.dim_int", y, axis, True, dtype=wide), wide, _dims(b, y, (axis,), keeps=True))
    if not keeps:
        y = with_fact(aten(b, "squeeze.dims", y, places), wide, _dims(b, x, places, keeps=False))
    return cast(b, y, own)


def _extreme(name: str) -> Any:
    def emit(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
        if any(isinstance(axis, Value) for axis in places):
            if 0 in b.dims(x):
                message = "the axes are not constant, and the tensor may be empty"
                raise UnsupportedError(message)
        elif any(b.dims(x)[axis] == 0 for axis in places):
            return _of_nothing(b, x, places, keeps=keeps, is_largest=name == "amax")
        return _reduced(b, name, x, places, keeps=keeps, wide=_integer_type(x))

    return emit


def _of_nothing(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool, is_largest: bool) -> Value:
    """Return the maximum or minimum of an empty set: the limit of the element type."""
    own = dtype_of(x)
    if own is DType.BOOL:
        number: Any = not is_largest
    else:
        number = ends_of(own)[0 if is_largest else 1]
    sizes = [
        1 if axis in places else size_of(b, x, axis) for axis in range(len(b.dims(x))) if keeps or axis not in places
    ]
    return aten(b, "full", tuple(sizes), number, dtype=own)


def _absolute(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    return _sum(b, aten(b, "abs", x), places, keeps=keeps)


def _norm(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    return _reduced(b, "linalg_vector_norm", x, places, 2, keeps=keeps, wide=_floating(x))


def _log_sum(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    return aten(b, "log", _sum(b, x, places, keeps=keeps))


def _log_sum_exp(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    return _reduced(b, "logsumexp", x, places, keeps=keeps, wide=_floating(x))


def _square_sum(b: Builder, x: Value, places: tuple[Any, ...], *, keeps: bool) -> Value:
    return _sum(b, aten(b, "mul.Tensor", x, x), places, keeps=keeps)


_REDUCTIONS = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _extreme("amax"),
    "ReduceMin": _extreme("amin"),
    "ReduceL1": _absolute,
    "ReduceL2": _norm,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _square_sum,
}
_ELEMENT = {"ReduceL1": "abs", "ReduceL2": "abs", "ReduceLogSum": "log", "ReduceSumSquare": "square"}
"""The element-wise function that replaces a reduction without axes."""


def _register(operator: str, emit: Any) -> None:
    @export_rule(DIALECT, operator)
    def export_reduction(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        places = _reduced_axes(b, data, axes, noop_with_empty_axes)
        if not places:
            return aten(b, _ELEMENT.get(operator, "clone"), data)
        return emit(b, data, places, keeps=bool(keepdims))


for _operator, _emit in _REDUCTIONS.items():
    _register(_operator, _emit)


def _arg(b: Builder, name: str, data: Value, axis: int, keepdims: int, *, selects_last: int) -> Value:
    place = axis % max(len(b.dims(data)), 1)
    x = data if not selects_last else aten(b, "flip", data, (place,))
    found = aten(b, name, x, place, bool(keepdims))
    if not selects_last:
        return found
    size = size_of(b, data, place)
    last = aten(b, "sub.Scalar", aten(b, "full", (), size, dtype=DType.INT64), 1)
    return aten(b, "sub.Tensor", last, found)


@ArgMax.export_rule(DIALECT)
def export_argmax(b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    return _arg(b, "argmax", data, axis, keepdims, selects_last=select_last_index)


@ArgMin.export_rule(DIALECT)
def export_argmin(b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    return _arg(b, "argmin", data, axis, keepdims, selects_last=select_last_index)


@TopKView.export_rule(DIALECT)
def export_topk(b: Builder, op: TopKView) -> tuple[Value, ...]:
    """Export TopK as a stable sort: equal elements keep their order."""
    place = op.axis % len(b.dims(op.x))
    (count,) = elements_of(b, op.k, op.x)
    own = dtype_of(op.x)
    x = cast(b, op.x, DType.INT64) if own in _UNSIGNED else op.x
    values, indices = aten_results(b, "sort.stable", 2, x, stable=True, dim=place, descending=bool(op.largest))
    values, indices = (aten(b, "slice.Tensor", each, place, 0, count) for each in (values, indices))
    return cast(b, values, own), indices


def _running(b: Builder, name: str, x: Value, axis: Value, exclusive: int, reverse: int) -> Value:
    """Accumulate along one axis; an exclusive result is shifted by the neutral element."""
    known = element_of(b, axis)
    place = known if isinstance(known, Value) else int(known) % len(b.dims(x))
    own = dtype_of(x)
    y = with_fact(aten(b, "flip", x, (place,)), own, b.dims(x)) if reverse else x
    if exclusive:
        open_dims = (OPEN,) * len(b.dims(x))
        first = with_fact(aten(b, "slice.Tensor", y, place, 0, 1), own, open_dims)
        start = with_fact(aten(b, "zeros_like" if name == "cumsum" else "ones_like", first), own, open_dims)
        rest = with_fact(aten(b, "slice.Tensor", y, place, 0, -1), own, open_dims)
        y = with_fact(aten(b, "cat", [start, rest], place), own, b.dims(x))
    y = with_fact(aten(b, name, y, place, dtype=own), own, b.dims(x))
    return with_fact(aten(b, "flip", y, (place,)), own, b.dims(x)) if reverse else y


@CumSum.export_rule(DIALECT)
def export_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return _running(b, "cumsum", x, axis, exclusive, reverse)


@CumProd.export_rule(DIALECT)
def export_cumprod(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    return _running(b, "cumprod", x, axis, exclusive, reverse)


@Einsum.export_rule(DIALECT)
def export_einsum(b: Builder, *inputs: Value, equation: str) -> Value:
    return aten(b, "einsum", equation.replace(" ", ""), list(inputs))

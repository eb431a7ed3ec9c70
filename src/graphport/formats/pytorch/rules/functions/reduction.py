"""Reductions of PyTorch."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    axes_of,
    axis_of,
    called,
    emits,
    length,
    named_dtype,
    scalar_of,
    static,
)
from graphport.formats.pytorch.rules.functions.arithmetic_export import NAMES
from graphport.formats.pytorch.rules.functions.reduction_reduced import named, reduced, widen_narrow
from graphport.formats.pytorch.rules.promotion import cast, promoted
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import OpDef
from graphport.ops.definitions.arithmetic import Div, Max, Min, Mul, Sub
from graphport.ops.definitions.comparison import Greater
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reduction import (
    ArgMax,
    ArgMin,
    CumSum,
    Einsum,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)
from graphport.ops.definitions.reshape import Concat, Reshape
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.views.reduction import TopKView

Answer = Value | tuple[Value, ...]


def _summed(b: Builder, x: Value, dtype: Any) -> Value:
    """Cast the summands: to the given dtype, or integers to int64."""
    wanted = named_dtype(dtype)
    if wanted is not None:
        return cast(b, x, wanted)
    return x if dtype_of(x).kind in "fc" else cast(b, x, DType.INT64)


PNNX.having(reduced=named, summed=_summed).lower("""
torch.sum, aten::sum, Tensor.sum(input, dim=None, keepdim=False, dtype=None)
    -> reduced("ReduceSum", summed(input, dtype), dim, keepdim=keepdim)
torch.mean, aten::mean, Tensor.mean(input, dim=None, keepdim=False, dtype=None)
    -> reduced("ReduceMean", typed(input, dtype), dim, keepdim=keepdim)
torch.prod, aten::prod(input, dim=None, keepdim=False, dtype=None)
    -> reduced("ReduceProd", summed(input, dtype), dim, keepdim=keepdim)
torch.amax, aten::amax(input, dim=None, keepdim=False) -> reduced("ReduceMax", input, dim, keepdim=keepdim)
torch.amin, aten::amin(input, dim=None, keepdim=False) -> reduced("ReduceMin", input, dim, keepdim=keepdim)
torch.aminmax, aten::aminmax(input, dim=None, keepdim=False)
    -> (torch.amin(input, dim, keepdim), torch.amax(input, dim, keepdim))
torch.logsumexp, aten::logsumexp(input, dim, keepdim=False) -> reduced("ReduceLogSumExp", input, dim, keepdim=keepdim)
torch.std, aten::std(input, dim=None, unbiased=None, keepdim=False, correction=None)
    -> Sqrt(torch.var(input, dim, unbiased, keepdim, correction))
torch.var_mean, aten::var_mean(input, dim=None, unbiased=None, keepdim=False, correction=None)
    -> (torch.var(input, dim, unbiased, keepdim, correction), torch.mean(input, dim, keepdim))
torch.std_mean, aten::std_mean(input, dim=None, unbiased=None, keepdim=False, correction=None)
    -> (torch.std(input, dim, unbiased, keepdim, correction), torch.mean(input, dim, keepdim))
# From the largest of all, which nothing overflows above; what is far below it is lost.
torch.logcumsumexp, aten::logcumsumexp(input, dim)
    -> Add(Log(CumSum(Exp(Sub(input, top := ReduceMax(input, [place := axis(dim, input)]))), place)), top)
""")


@emits("torch.var", "aten::var")
def var(
    b: Builder, input: Value, dim: Any = None, unbiased: Any = None, keepdim: Any = False, correction: Any = None
) -> Value:
    """Variance with the divisor n - correction."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    dims = b.dims(input)
    axes = axes_of(dim, len(dims))
    center = b(ReduceMean, input, axes)
    gap = b(Sub, input, center)
    squares = b(Mul, gap, gap)
    fewer = _correction(unbiased, correction)
    if not fewer:
        return reduced(b, ReduceMean, squares, axes, keepdim=keepdim)
    total = reduced(b, ReduceSum, squares, axes, keepdim=keepdim)
    count = math.prod(length(dims, axis) for axis in axes)
    return b(Div, total, b.like(total, max(count - fewer, 0)))


def _correction(unbiased: Any, correction: Any) -> float:
    if correction is not None:
        return scalar_of(correction)
    return 0 if unbiased is not None and not scalar_of(unbiased) else 1


# ── argmax and argmin ─────────────────────────────────────────────────────────────────────────────────────────────────


def _emit_arg_extreme(b: Builder, operator: str, x: Value, dim: Any, keepdim: Any) -> Value:
    """Index of the extreme along an axis, or in the flattened tensor."""
    op_def, rank = registry.op_defs()[operator], len(b.dims(x))
    if dim is not None:
        return b(op_def, x, axis=axis_of(scalar_of(dim), rank), keepdims=None if scalar_of(keepdim) else 0)
    found = b(op_def, b(Reshape, x, [-1]), axis=0, keepdims=0)
    return b(Reshape, found, [1] * rank) if scalar_of(keepdim) else found


def _extreme(
    op_defs: tuple[OpDef, OpDef, OpDef],
    b: Builder,
    input: Value,
    dim: Any = None,
    keepdim: Any = False,
    other: Any = None,
) -> Answer:
    """Maximum or minimum of all elements; along an axis, with indices; or of two tensors."""
    values, indices, pair = op_defs
    if isinstance(dim, Value) and b.dims(dim) and dim.producer is not None:
        other = dim
    if other is not None:
        return b(pair, *promoted(b, input, other))
    if dim is None:
        return reduced(b, values, input, None, keepdim=False)
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    found = reduced(b, values, input, axis, keepdim=keepdim)
    if b.count == 1:
        return found
    return found, b(indices, widen_narrow(b, input), axis=axis, keepdims=None if scalar_of(keepdim) else 0)


emits("torch.max", "aten::max")(partial(_extreme, (ReduceMax, ArgMax, Max)))
emits("torch.min", "aten::min")(partial(_extreme, (ReduceMin, ArgMin, Min)))


def _count(b: Builder, k: Any) -> Value:
    return b(Reshape, k, [1]) if isinstance(k, Value) and k.storage is None else vector(b, [int(scalar_of(k))])


PNNX.having(place=_emit_arg_extreme, count=_count).lower("""
torch.argmax, aten::argmax(input, dim=None, keepdim: any = False) -> place("ArgMax", input, dim, keepdim)
torch.argmin, aten::argmin(input, dim=None, keepdim: any = False) -> place("ArgMin", input, dim, keepdim)
# Sorted results are unsorted ones, too.
torch.topk, aten::topk(input, k, dim=-1, largest=True, sorted: ignored = True)
    -> values, places = TopK(input, count(k), axis=dim, largest=None if largest else 0); (values, places)
torch.sort, aten::sort(input, dim=-1, descending=False, stable: ignored = None)
    -> place = axis(dim, input); count = Shape(input, start=place, end=place + 1);
       values, places = TopK(input, count, axis=place, largest=None if descending else 0); (values, places)
torch.argsort, aten::argsort(input, dim=-1, descending=False, stable: ignored = None)
    -> place = axis(dim, input); count = Shape(input, start=place, end=place + 1);
       _, places = TopK(input, count, axis=place, largest=None if descending else 0); places
""")


def _bits(b: Builder, x: Value) -> Value:
    return cast(b, cast(b, x, DType.BOOL), DType.INT32)


def _is_any(b: Builder, input: Value, dim: Any, keepdim: Any) -> Value:
    """Whether any element is nonzero; false for an empty tensor."""
    found = reduced(b, ReduceMax, _bits(b, input), dim, keepdim=keepdim)
    # The maximum of no elements is the lowest integer.
    return b(Greater, found, 0) if 0 in b.dims(input) else cast(b, found, DType.BOOL)


PNNX.having(reduced=named, bits=_bits, is_any=_is_any).lower("""
torch.all, aten::all(input, dim=None, keepdim=False)
    -> cast(reduced("ReduceMin", bits(input), dim, keepdim=keepdim), bool)
torch.any, aten::any(input, dim=None, keepdim=False)
    -> is_any(input, dim, keepdim)
torch.count_nonzero, aten::count_nonzero(input, dim=None)
    -> reduced("ReduceSum", cast(cast(input, bool), int64), dim, keepdim=False)
""")


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────────────────


PNNX.having(summed=_summed).lower("""
torch.cumsum, aten::cumsum(input, dim, dtype=None)
    -> x = summed(input, dtype); rank(x) == 0 and axis(dim, x) == 0: x
    -> CumSum(x, index(axis(dim, x)))
torch.cumprod, aten::cumprod(input, dim, dtype=None)
    -> x = summed(input, dtype); rank(x) == 0 and axis(dim, x) == 0: x
    -> CumProd(x, index(axis(dim, x)))
""")


@emits("torch.diff", "aten::diff")
def diff(b: Builder, input: Value, n: Any = 1, dim: Any = -1, prepend: Any = None, append: Any = None) -> Value:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    x = input
    if isinstance(prepend, Value) or isinstance(append, Value):
        x = b(Concat, *(each for each in (prepend, x, append) if isinstance(each, Value)), axis=axis)
    place, far = vector(b, [axis]), vector(b, [2**63 - 1])
    for _ in range(int(scalar_of(n))):
        later = b(Slice, x, [1], far, place)
        earlier = b(Slice, x, [0], [-1], place)
        x = b(Sub, later, earlier)
    return x


@emits("torch.einsum", "aten::einsum")
def einsum(b: Builder, *operands: Value, equation: str) -> Value:
    """Einsum; pnnx drops the ellipsis for leading axes, which is restored."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    lacks = [len(term) < len(b.dims(each)) for term, each in zip(terms, operands, strict=False)]
    if "." not in equation and any(lacks):
        terms = [f"...{term}" if lack else term for term, lack in zip(terms, lacks, strict=False)]
        equation = ",".join(terms) + (f"{arrow}...{result}" if arrow else "")
    return b(Einsum, *operands, equation=equation)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _own_type(dtype: DType) -> dict[str, Any] | None:
    """Return the argument that keeps PyTorch from reducing narrow integers in int64; `None` without such a dtype."""
    if dtype.is_floating or dtype is DType.INT64:
        return {}
    return {"dtype": NAMES[dtype]} if dtype in NAMES else None


def _emitted(
    b: Builder, op_type: str, data: Value, axes: Value | None, keepdims: int, noop_with_empty_axes: int, **more: Any
) -> Value | None:
    """Emit a reduction over the static axes."""
    chosen = static(axes)
    rank = len(b.dims(data))
    if (axes is not None and not chosen) or (axes is None and noop_with_empty_axes):
        return None
    if op_type == "torch.sum":
        stated = _own_type(dtype_of(data))
        if stated is None:
            return None
        more |= stated
    dim = tuple(range(rank)) if chosen is None else chosen
    return called(b, op_type, input=data, dim=dim, keepdim=bool(keepdims), **more)


def _placed(b: Builder, op_type: str, data: Value, axis: int, keepdims: int) -> Value:
    return called(b, op_type, input=data, dim=axis, keepdim=bool(keepdims))


PNNX.having(reduced=_emitted, place=_placed).export_rules("""
ReduceSum -> reduced("torch.sum", data, axes, keepdims, noop_with_empty_axes)
ReduceMean -> reduced("torch.mean", data, axes, keepdims, noop_with_empty_axes)
ReduceMax -> reduced("torch.amax", data, axes, keepdims, noop_with_empty_axes)
ReduceMin -> reduced("torch.amin", data, axes, keepdims, noop_with_empty_axes)
ReduceLogSumExp -> reduced("torch.logsumexp", data, axes, keepdims, noop_with_empty_axes)
ReduceL1 -> reduced("torch.norm", data, axes, keepdims, noop_with_empty_axes, p=1)
ReduceL2 -> reduced("torch.norm", data, axes, keepdims, noop_with_empty_axes, p=2)
# The first of equal entries.
ArgMax -> place("torch.argmax", data, axis, keepdims)
ArgMin -> place("torch.argmin", data, axis, keepdims)
""")


@ReduceProd.export_rule(DIALECT)
def export_prod(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Value | None:
    """Export ReduceProd along one axis."""
    chosen, stated = static(axes), _own_type(dtype_of(data))
    if chosen is None or len(chosen) != 1 or stated is None:
        return None
    return called(b, "torch.prod", input=data, dim=chosen[0], keepdim=bool(keepdims), **stated)


@CumSum.export_rule(DIALECT)
def export_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value | None:
    """Export CumSum; `reverse` by flipping before and after."""
    place, stated = static(axis), _own_type(dtype_of(x))
    if place is None or exclusive or stated is None:
        return None

    def flipped(value: Value) -> Value:
        return called(b, "torch.flip", input=value, dims=(place[0],)) if reverse else value

    return flipped(called(b, "torch.cumsum", input=flipped(x), dim=place[0], **stated))


@TopKView.export_rule(DIALECT)
def export_topk(b: Builder, op: TopKView) -> tuple[Value, ...] | None:
    count = static(op.k)
    if count is None:
        return None
    options: dict[str, Any] = {"k": count[0], "dim": op.axis, "largest": bool(op.largest), "sorted": bool(op.sorted)}
    return b.emit("torch.topk", op.x, facts=[UNKNOWN, UNKNOWN], **options)

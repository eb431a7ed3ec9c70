"""Reductions, products and orders among the operations of Keras 3 and TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.keras.rules.matmul import batch_dot
from graphport.formats.keras.rules.normalization import unit_length
from graphport.formats.keras.rules.operation import axes_of, floating, named_dtype, operation, promoted, two_results
from graphport.formats.keras.rules.tensors import binary, reduced
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Div, Max, Mul, Pow, Reciprocal, Sqrt, Sub
from graphport.ops.definitions.comparison import Equal, Not
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import (
    ArgMax,
    ArgMin,
    CumProd,
    CumSum,
    Einsum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    TopK,
)
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import cast, dtype_of, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

_REDUCTIONS: Mapping[str, OpDef] = MappingProxyType(
    {"Max": ReduceMax, "Min": ReduceMin, "Amax": ReduceMax, "Amin": ReduceMin}
)
_SUMS: Mapping[str, OpDef] = MappingProxyType({"Sum": ReduceSum, "Prod": ReduceProd})


def _register() -> None:
    for name, op_def in _REDUCTIONS.items():

        @operation(name)
        def extreme(
            b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False, initial: Any = None, op_def: Any = op_def
        ) -> Value:
            if initial is not None:
                message = "a reduction with an initial value"
                raise UnsupportedError(message)
            return reduced(b, op_def, x, axes_of(b, x, axis), keepdims=keepdims)

    for name, op_def in _SUMS.items():

        @operation(name)
        def total(
            b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False, dtype: Any = None, op_def: Any = op_def
        ) -> Value:
            del dtype
            wide = cast(b, x, DType.INT32) if dtype_of(x) in _NARROW else x
            return reduced(b, op_def, wide, axes_of(b, x, axis), keepdims=keepdims)


_NARROW = (DType.BOOL, DType.INT8, DType.INT16)
_register()


@operation("Mean")
def mean(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The mean; integers are cast to float32."""
    return reduced(b, ReduceMean, floating(b, x), axes_of(b, x, axis), keepdims=keepdims)


@operation("Var")
def variance(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The mean of the squared distances from the mean."""
    x, axes = floating(b, x), axes_of(b, x, axis)
    gap = b(Sub, x, reduced(b, ReduceMean, x, axes, keepdims=True))
    return reduced(b, ReduceMean, b(Mul, gap, gap), axes, keepdims=keepdims)


@operation("Std")
def deviation(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The root of the variance."""
    return b(Sqrt, variance(b, x, axis=axis, keepdims=keepdims))


@operation("Ptp")
def peak_to_peak(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The distance of the largest from the smallest element."""
    axes = axes_of(b, x, axis)
    high, low = (reduced(b, op_def, x, axes, keepdims=keepdims) for op_def in (ReduceMax, ReduceMin))
    return b(Sub, high, low)


@operation("Logsumexp")
def logsumexp(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The logarithm of the sum of exponentials."""
    return reduced(b, ReduceLogSumExp, floating(b, x), axes_of(b, x, axis), keepdims=keepdims)


@operation("All")
def all_true(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """Whether all elements are true."""
    y = reduced(b, ReduceMin, _as_int32(b, x), axes_of(b, x, axis), keepdims=keepdims)
    return cast(b, y, DType.BOOL)


@operation("Any")
def any_true(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """Whether any element is true."""
    y = reduced(b, ReduceMax, _as_int32(b, x), axes_of(b, x, axis), keepdims=keepdims)
    return cast(b, y, DType.BOOL)


def _as_int32(b: Builder, x: Value) -> Value:
    """1 for true elements, 0 for others, as int32."""
    return cast(b, cast(b, x, DType.BOOL), DType.INT32)


@operation("CountNonzero")
def count_nonzero(b: Builder, x: Value, *, axis: Any = None) -> Value:
    """The number of elements that are not 0."""
    is_set = b(Not, b(Equal, x, 0))
    return reduced(b, ReduceSum, cast(b, is_set, DType.INT32), axes_of(b, x, axis))


def _arg(b: Builder, op_def: OpDef, x: Value, axis: int | None, *, keepdims: bool) -> Value:
    if axis is None:
        if keepdims:
            message = "keepdims with the index over all elements"
            raise UnsupportedError(message)
        x, axis = b(Reshape, x, [-1]), 0
    return cast(b, b(op_def, x, axis=axis, keepdims=int(keepdims)), DType.INT32)


@operation("Argmax")
def argmax(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False, output_type: str = "int32") -> Value:
    """The index of the largest element."""
    return cast(b, _arg(b, ArgMax, x, axis, keepdims=keepdims), named_dtype(output_type))


@operation("Argmin")
def argmin(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False, output_type: str = "int32") -> Value:
    """The index of the smallest element."""
    return cast(b, _arg(b, ArgMin, x, axis, keepdims=keepdims), named_dtype(output_type))


@operation("Cumsum")
def cumsum(b: Builder, x: Value, *, axis: Any = None, dtype: Any = None) -> Value:
    """Cumulative sums; of the flattened tensor without `axis`."""
    x = x if dtype is None else cast(b, x, named_dtype(dtype))
    x = x if axis is not None else b(Reshape, x, [-1])
    return b(CumSum, x, axis or 0)


@operation("Cumprod")
def cumprod(b: Builder, x: Value, *, axis: Any = None, dtype: Any = None) -> Value:
    """Cumulative products; of the flattened tensor without `axis`."""
    x = x if dtype is None else cast(b, x, named_dtype(dtype))
    x = x if axis is not None else b(Reshape, x, [-1])
    return b(CumProd, x, axis or 0)


@operation("TopK", count=two_results)
def top_k(b: Builder, x: Value, *, k: int = 1, sorted: bool = True) -> tuple[Value, ...]:
    """The largest elements of the last axis, and their indices."""
    values, indices = b.results(TopK, 2, x, [k], axis=-1, sorted=int(sorted))
    return values, cast(b, indices, DType.INT32)


@operation("Sort")
def sort_elements(b: Builder, x: Value, *, axis: int = -1) -> Value:
    """Elements in ascending order."""
    return b.results(TopK, 2, x, extent(b, x, axes_of(b, x, axis)[0]), axis=axis, largest=0)[0]


@operation("Argsort")
def argsort(b: Builder, x: Value, *, axis: int = -1) -> Value:
    """The indices of elements in ascending order."""
    found = b.results(TopK, 2, x, extent(b, x, axes_of(b, x, axis)[0]), axis=axis, largest=0)[1]
    return cast(b, found, DType.INT32)


@operation("Matmul")
def matmul(b: Builder, x1: Any, x2: Any, *, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """Products of matrices."""
    x, y = promoted(b, x1, x2)
    x, y = (_swapped(b, each) if swap else each for each, swap in ((x, transpose_a), (y, transpose_b)))
    return b(MatMul, x, y)


def _swapped(b: Builder, x: Value) -> Value:
    rank = len(b.dims(x))
    return transposed(b, x, (*range(rank - 2), rank - 1, rank - 2))


@operation("Einsum")
def einsum(b: Builder, *operands: Any, subscripts: str = "") -> Value:
    """A sum of products."""
    return b(Einsum, *promoted(b, *operands), equation=subscripts.replace(" ", ""))


@operation("Dot")
def dot(b: Builder, x1: Any, x2: Any) -> Value:
    """A product over the last axis of `x1` and the last but one of `x2`."""
    x, y = promoted(b, x1, x2)
    one, other = len(b.dims(x)), len(b.dims(y))
    if one == 0 or other == 0:
        return b(Mul, x, y)
    if other <= 2:
        return b(MatMul, x, y)
    left = "abcdefgh"[: one - 1]
    right = "mnopqrst"[:other]
    terms = right[: other - 2] + "z" + right[-1]
    return b(Einsum, x, y, equation=f"{left}z,{terms}->{left}{terms.replace('z', '')}")


@operation("Tensordot")
def tensordot(b: Builder, x1: Any, x2: Any, *, axes: Any = 2) -> Value:
    """A sum of products over pairs of axes."""
    x, y = promoted(b, x1, x2)
    one, other = len(b.dims(x)), len(b.dims(y))
    if isinstance(axes, int):
        left, right = list(range(one - axes, one)), list(range(axes))
    else:
        left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
    terms_x, terms_y = list("abcdefgh"[:one]), list("mnopqrst"[:other])
    for i, j in zip(left, right, strict=True):
        terms_y[j] = terms_x[i]
    shared = set(terms_x) & set(terms_y)
    result = "".join(c for c in (*terms_x, *terms_y) if c not in shared)
    return b(Einsum, x, y, equation=f"{''.join(terms_x)},{''.join(terms_y)}->{result}")


@operation("Outer")
def outer(b: Builder, x1: Any, x2: Any) -> Value:
    """All products of elements of two tensors."""
    x, y = promoted(b, x1, x2)
    return b(Mul, b(Reshape, x, [-1, 1]), b(Reshape, y, [1, -1]))


@operation("BatchDot")
def batch_dot_of(b: Builder, x: Value, y: Value, *, axes: Any = None) -> Value:
    """Products for each item of the batch, as `keras.backend.batch_dot`."""
    one, other = len(b.dims(x)), len(b.dims(y))
    if axes is None:
        axes = (one - 1, 1 if other == 2 else other - 2)
    left, right = (axes, axes) if isinstance(axes, int) else axes
    return batch_dot(b, x, y, left % one, right % other)


@operation("Normalize")
def normalize(b: Builder, x: Value, *, axis: Any = -1, order: Any = 2, epsilon: Any = None) -> Value:
    """Division by the norm over an axis."""
    axes, least = axes_of(b, x, axis), 1e-7 if epsilon is None else float(epsilon)
    x = floating(b, x)
    if order == 2:
        return unit_length(b, x, axes, least)
    if order == 1:
        norm = reduced(b, ReduceSum, b(Abs, x), axes, keepdims=True)
    else:
        powers = b(Pow, b(Abs, x), b.like(x, float(order)))
        norm = b(Pow, reduced(b, ReduceSum, powers, axes, keepdims=True), b.like(x, 1.0 / order))
    return b(Div, x, binary(b, Max, norm, least))


@operation("L2Normalize")
def l2_normalize(b: Builder, x: Value, *, axis: Any = None, epsilon: float = 1e-12) -> Value:
    """Division by sqrt(max(sum of squares, `epsilon`))."""
    total = reduced(b, ReduceSum, b(Mul, x, x), axes_of(b, x, axis), keepdims=True)
    return b(Mul, x, b(Reciprocal, b(Sqrt, binary(b, Max, total, epsilon))))


@operation("Norm")
def norm(b: Builder, x: Value, *, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    """The length of vectors."""
    if ord not in (None, 2, "euclidean", "fro"):
        message = f"the norm of order {ord!r}"
        raise UnsupportedError(message)
    x = floating(b, x)
    return b(Sqrt, reduced(b, ReduceSum, b(Mul, x, x), axes_of(b, x, axis), keepdims=keepdims))


@operation("Moments", count=two_results)
def moments(b: Builder, x: Value, *, axes: Any = None, keepdims: bool = False, synchronized: bool = False) -> Any:
    """The mean and the variance."""
    del synchronized
    return mean(b, x, axis=axes, keepdims=keepdims), variance(b, x, axis=axes, keepdims=keepdims)


@operation("Average")
def average(b: Builder, x: Any, weights: Any = None, *, axis: Any = None) -> Value:
    """The mean, weighted if there are weights."""
    if weights is None:
        return mean(b, promoted(b, x)[0], axis=axis)
    x, weights = promoted(b, x, weights, is_float=True)
    axes = axes_of(b, x, axis)
    if len(b.dims(weights)) != len(b.dims(x)):
        message = "weights of another rank"
        raise UnsupportedError(message)
    return b(Div, reduced(b, ReduceSum, b(Mul, x, weights), axes), reduced(b, ReduceSum, weights, axes))

"""Quantiles, differences, diagonals and products of vectors among the operations of Keras 3."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.keras.rules.binding import checked_axis
from graphport.formats.keras.rules.operation import axes_of, floating, operation, promoted
from graphport.formats.keras.rules.tensors import reduced, unsqueezed
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, Div, Mul, Sub
from graphport.ops.definitions.comparison import And, Equal, Less, LessOrEqual, Not, Or
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceSum, TopK
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.extents import cut
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_SMALLEST = np.iinfo(np.int64).min


@operation("Diff")
def diff(b: Builder, a: Value, *, n: int = 1, axis: int = -1) -> Value:
    """The differences of neighbors along an axis, `n` times."""
    axis = checked_axis(axis, len(b.dims(a)))
    for _ in range(n):
        a = b(Sub, cut(b, a, 1, np.iinfo(np.int64).max, axis), cut(b, a, 0, -1, axis))
    return a


@operation("Median")
def median(b: Builder, x: Value, *, axis: Any = None, keepdims: bool = False) -> Value:
    """The median over axes, the mean of the two middle elements of an even number."""
    return _quantile(b, floating(b, x), 0.5, axis, keepdims=keepdims)


@operation("Quantile")
def quantile(
    b: Builder, x: Value, q: Any = 0.5, *, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Value:
    """The quantile over axes, interpolated linearly.

    Raises:
        UnsupportedError: the probability is computed, or the interpolation is not linear.
    """
    if not isinstance(q, int | float) or method != "linear":
        message = f"quantiles {q!r:.40} of the method {method!r}"
        raise UnsupportedError(message)
    return _quantile(b, floating(b, x), float(q), axis, keepdims=keepdims)


def _quantile(b: Builder, x: Value, q: float, axis: Any, *, keepdims: bool) -> Value:
    rank, axes = len(b.dims(x)), axes_of(b, x, axis)
    rest = [each for each in range(rank) if each not in axes]
    count = int(np.prod(sizes([b.dims(x)[each] for each in axes], "the reduced dims")))
    last = transposed(b, x, [*rest, *axes])
    flat = reshaped(b, last, (*(0 for _ in rest), count))
    ordered, _ = b.results(TopK, 2, flat, [count], largest=0)
    place = q * (count - 1)
    low = floor(place)
    high = min(low + 1, count - 1)
    ends = [b(Gather, ordered, each, axis=-1) for each in (low, high)]
    share = b.like(x, place - low)
    y = b(Add, ends[0], b(Mul, b(Sub, ends[1], ends[0]), share))
    return unsqueezed(b, y, sorted(axes)) if keepdims else y


@operation("Diagonal")
def diagonal(b: Builder, x: Value, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The elements of a diagonal of two axes, as the last axis."""
    rank = len(b.dims(x))
    one, two = (checked_axis(axis, rank) for axis in (axis1, axis2))
    rest = [axis for axis in range(rank) if axis not in (one, two)]
    rows, columns = sizes([b.dims(x)[axis] for axis in (one, two)], "the dims of a diagonal")
    flat = reshaped(b, transposed(b, x, [*rest, one, two]), (*(0 for _ in rest), rows * columns))
    places = [row * columns + row + offset for row in range(rows) if 0 <= row + offset < columns]
    return b(Gather, flat, places, axis=-1)


@operation("Trace")
def trace(b: Builder, x: Value, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    """The sum of a diagonal of two axes."""
    return reduced(b, ReduceSum, diagonal(b, x, offset=offset, axis1=axis1, axis2=axis2), [len(b.dims(x)) - 2])


@operation("Vdot")
def vdot(b: Builder, x1: Any, x2: Any) -> Value:
    """The sum of the products of all elements."""
    x, y = (reshaped(b, each, (-1,)) for each in promoted(b, x1, x2))
    return b(MatMul, x, y)


@operation("Inner")
def inner(b: Builder, x1: Any, x2: Any) -> Value:
    """The sums of products along the last axes of both operands."""
    x, y = promoted(b, x1, x2)
    ranks = len(b.dims(x)), len(b.dims(y))
    if 0 in ranks:
        return b(Mul, x, y)
    if ranks[1] > 2:
        message = f"products of vectors of rank {ranks[1]}"
        raise UnsupportedError(message)
    return b(MatMul, x, transposed(b, y, (1, 0)) if ranks[1] == 2 else y)


@operation("Cross")
def cross(
    b: Builder, x1: Any, x2: Any, *, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Value:
    """The cross product of vectors of three elements along the last axis.

    Raises:
        UnsupportedError: the vectors are along another axis, or have two elements.
    """
    x, y = promoted(b, x1, x2)
    rank = len(b.dims(x))
    axes = [axis] * 3 if axis is not None else [axisa, axisb, axisc]
    lengths = sizes((b.dims(x)[-1], b.dims(y)[-1]), "the vectors")
    if any(each % rank != rank - 1 for each in axes) or lengths != (3, 3):
        message = f"cross products of {lengths} elements along the axes {tuple(axes)}"
        raise UnsupportedError(message)
    rolled = [[b(Gather, each, order, axis=-1) for order in ((1, 2, 0), (2, 0, 1))] for each in (x, y)]
    return b(Sub, b(Mul, rolled[0][0], rolled[1][1]), b(Mul, rolled[0][1], rolled[1][0]))


@operation("Kron")
def kron(b: Builder, x1: Any, x2: Any) -> Value:
    """The Kronecker product of two matrices."""
    x, y = promoted(b, x1, x2)
    (rows, columns), (height, width) = (sizes(b.dims(each, 2), "the matrices") for each in (x, y))
    product = b(Mul, reshaped(b, x, (rows, 1, columns, 1)), reshaped(b, y, (1, height, 1, width)))
    return reshaped(b, product, (rows * height, columns * width))


@operation("SearchSorted")
def search_sorted(b: Builder, sorted_sequence: Any, values: Value, *, side: str = "left") -> Value:
    """The indices at which values keep a sorted vector in order."""
    sequence, found = promoted(b, sorted_sequence, values)
    column = unsqueezed(b, found, [len(b.dims(found))])
    is_before = b(Less, sequence, column) if side == "left" else b(LessOrEqual, sequence, column)
    return b(ReduceSum, cast(b, is_before, DType.INT32), [-1], keepdims=0)


@operation("Isclose")
def is_close(b: Builder, x1: Any, x2: Any, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Value:
    """Whether |x1 - x2| <= atol + rtol * |x2|, or both are equal."""
    if equal_nan:
        message = "equal_nan"
        raise UnsupportedError(message)
    x, y = promoted(b, x1, x2, is_float=True)
    room = b(Add, b.like(x, atol), b(Mul, b.like(x, rtol), b(Abs, y)))
    is_infinite = b(Equal, b(Abs, y), np.inf)
    is_near = b(LessOrEqual, b(Abs, b(Sub, x, y)), room)
    return b(Or, b(Equal, x, y), b(And, is_near, b(Not, is_infinite)))


@operation("Rot90")
def rotate(b: Builder, array: Value, *, k: int = 1, axes: Any = (0, 1)) -> Value:
    """`array` rotated `k` times from the first axis to the second one.

    Raises:
        UnsupportedError: it is rotated twice and the dims are not equal: the backends of Keras disagree.
    """
    dims = b.dims(array)
    rank = len(dims)
    one, two = (checked_axis(each, rank) for each in axes)
    if k % 4 == 2 and dims[one] != dims[two]:
        message = f"two rotations of the dims {dims[one]} and {dims[two]}, on which the backends of Keras disagree"
        raise UnsupportedError(message)
    order = list(range(rank))
    order[one], order[two] = two, one
    flipped = {0: (), 1: (two,), 2: (one, two), 3: (one,)}[k % 4]
    y = array
    if flipped:
        starts, ends, steps = ([each] * len(flipped) for each in (-1, _SMALLEST, -1))
        y = b(Slice, y, starts, ends, flipped, steps)
    return transposed(b, y, order) if k % 2 else y if flipped else b(Identity, y)


@operation("Signbit")
def signbit(b: Builder, x: Value) -> Value:
    """Whether the sign is negative; that of -0.0 is."""
    zero = b.like(x, 0)
    if not dtype_of(x).is_floating:
        return b(Less, x, zero)
    is_negative_zero = b(And, b(Equal, x, zero), b(Less, b(Div, 1, x), zero))
    return b(Or, b(Less, x, zero), is_negative_zero)

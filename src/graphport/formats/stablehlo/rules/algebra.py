"""Linear algebra and normalization by formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.complex_numbers import divide
from graphport.formats.stablehlo.rules.elementwise import wide_type
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, rule
from graphport.formats.stablehlo.rules.linear import bilinear
from graphport.formats.stablehlo.rules.shapes import checked_axes, reversed_axes
from graphport.formats.stablehlo.rules.values import Held, Pair, flattened
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.stablehlo.program import Operation

Tensor: TypeAlias = Value | Pair

MAX_UNROLLED = 32
"""Rows of a matrix whose decomposition is written out."""


class _Matrices:
    """Arithmetic of real matrices (`Value`) or complex ones (`Pair`), not of both in one operation."""

    def __init__(self, e: Emitter, op: Operation, a: Tensor) -> None:
        self.e = e
        self.rank = e.rank(_real_component(a))
        if self.rank < 2:
            refuse("SH0007", f"{op.shown()}: an operand of rank {self.rank}, expected matrices")
        self.rows, self.columns = (e.static(_real_component(a), self.rank - k) for k in (2, 1))
        if min(self.rows, self.columns) > MAX_UNROLLED:
            refuse("SH0006", f"unsupported: {op.shown()} of matrices of {self.rows} rows")
        self._swap = [*range(self.rank - 2), self.rank - 1, self.rank - 2]

    def require_square(self, op: Operation) -> None:
        """Refuse other matrices.

        Raises:
            RefusedError: SH0007.
        """
        if self.rows != self.columns:
            refuse("SH0007", f"{op.shown()}: matrices of {self.rows} rows and {self.columns} columns")

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        return _by_component(x, lambda v: self.e.cast(v, dtype))

    def transpose(self, x: Tensor, *, conjugate: bool = False) -> Tensor:
        found = _by_component(x, lambda v: self.e.transpose(v, self._swap))
        return Pair(found.real, self.e("Neg", found.imaginary)) if conjugate and isinstance(found, Pair) else found

    def reverse(self, x: Tensor, *axes: int) -> Tensor:
        return _by_component(x, lambda v: reversed_axes(self.e, v, [self.rank + axis for axis in axes]))

    def block(self, x: Tensor, rows: tuple[int, int] | None = None, columns: tuple[int, int] | None = None) -> Tensor:
        """The elements in ranges of rows and columns."""
        for axis, limits in ((self.rank - 2, rows), (self.rank - 1, columns)):
            if limits is not None:
                x = _by_component(x, lambda v, axis=axis, limits=limits: self.e.slice(v, axis, *limits))
        return x

    def join(self, axis: int, *xs: Tensor) -> Tensor:
        """Concatenate along the rows (-2) or the columns (-1)."""
        if len(xs) == 1:
            return xs[0]
        components = list(zip(*(flattened(x) for x in xs), strict=True))
        return _tensor([self.e("Concat", *each, axis=self.rank + axis) for each in components])

    def subtract(self, x: Tensor, y: Tensor) -> Tensor:
        return _tensor([self.e("Sub", a, b) for a, b in zip(flattened(x), flattened(y), strict=True)])

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        e = self.e
        if isinstance(x, Pair) and isinstance(y, Pair):
            return bilinear(e, x, y, lambda a, b: e("MatMul", a, b))
        return e("MatMul", _real_component(x), _real_component(y))

    def divide(self, x: Tensor, y: Tensor) -> Tensor:
        return (
            divide(self.e, x, y)
            if isinstance(x, Pair) and isinstance(y, Pair)
            else self.e("Div", _real_component(x), _real_component(y))
        )


def _real_component(x: Tensor) -> Value:
    return x.real if isinstance(x, Pair) else x


def _by_component(x: Tensor, function: Callable[[Value], Value]) -> Tensor:
    return _tensor([function(v) for v in flattened(x)])


def _tensor(components: Sequence[Value]) -> Tensor:
    return components[0] if len(components) == 1 else Pair(*components)


@rule("cholesky")
@complex_rule("cholesky")
def cholesky(e: Emitter, op: Operation, a: Tensor) -> Tensor:
    """The lower (or upper) triangular factor, column by column."""
    m = _Matrices(e, op, a)
    m.require_square(op)
    size, rank, dtype = m.rows, m.rank, e.dtype(_real_component(a))
    is_lower = bool(op.attributes.get("lower", False))
    matrix = m.cast(a if is_lower else m.transpose(a, conjugate=True), wide_type(dtype))
    factor: Tensor | None = None
    for column in range(size):
        column_block = m.block(matrix, (column, size), (column, column + 1))
        if factor is not None:
            row = m.transpose(m.block(factor, (column, column + 1)), conjugate=True)
            column_block = m.subtract(column_block, m.product(m.block(factor, (column, size)), row))
        root = e("Sqrt", _real_component(m.block(column_block, (0, 1))))
        column_factor = _by_component(column_block, lambda v, root=root: e("Div", v, root))
        if column:
            pads = e.ints(*[0] * (rank - 2), column, *[0] * (rank + 1))
            column_factor = _by_component(column_factor, lambda v, pads=pads: e("Pad", v, pads))
        factor = column_factor if factor is None else m.join(-1, factor, column_factor)
    if factor is None:
        return a
    found = m.cast(factor, dtype)
    return found if is_lower else m.transpose(found, conjugate=True)


@rule("triangular_solve")
@complex_rule("triangular_solve")
def triangular_solve(e: Emitter, op: Operation, a: Tensor, b: Tensor) -> Tensor:
    """Solve a triangular system row by row."""
    m = _Matrices(e, op, a)
    m.require_square(op)
    if e.rank(_real_component(b)) != m.rank:
        refuse("SH0007", f"triangular_solve: operands of rank {m.rank} and {e.rank(_real_component(b))}")
    is_lower = bool(op.attributes.get("lower", False))
    kind = op.attributes.get("transpose_a", "NO_TRANSPOSE")
    if kind in ("TRANSPOSE", "ADJOINT"):
        a, is_lower = m.transpose(a, conjugate=kind == "ADJOINT"), not is_lower
    is_left = bool(op.attributes.get("left_side", True))
    if not is_left:
        a, b, is_lower = m.transpose(a), m.transpose(b), not is_lower
    if not is_lower:
        a, b = m.reverse(a, -2, -1), m.reverse(b, -2)
    dtype = e.dtype(_real_component(b))
    a, b = m.cast(a, wide_type(dtype)), m.cast(b, wide_type(dtype))
    found: Tensor | None = None
    for row in range(m.rows):
        residual, line = m.block(b, (row, row + 1)), m.block(a, (row, row + 1))
        if found is not None:
            residual = m.subtract(residual, m.product(m.block(line, columns=(0, row)), found))
        if not op.attributes.get("unit_diagonal", False):
            residual = m.divide(residual, m.block(line, columns=(row, row + 1)))
        found = residual if found is None else m.join(-2, found, residual)
    if found is None:
        return b
    found = m.cast(found, dtype)
    if not is_lower:
        found = m.reverse(found, -2)
    return found if is_left else m.transpose(found)


def lu_factors(e: Emitter, op: Operation, a: Tensor) -> tuple[Tensor, Value, Value]:
    """Factor P A = L U with partial pivoting, as LAPACK's getrf does, column by column.

    Returns:
        L below the diagonal (its diagonal is 1) and U above; for each column k, the row (from 1) that was exchanged
        with row k; and the first k (from 1) with a pivot of 0, or 0. The last two are int32: [*batch, k] and [*batch].
    """
    m = _Matrices(e, op, a)
    count, rank, dtype = min(m.rows, m.columns), m.rank, e.dtype(_real_component(a))
    trailing: Tensor = m.cast(a, wide_type(dtype))
    upper: list[Tensor] = []
    lower: Tensor | None = None
    pivot_rows, zeros = list[Value](), list[Value]()
    for k in range(count):
        column = m.block(trailing, columns=(0, 1))
        sizes = [e("Abs", v) for v in flattened(column)]
        best = e("ArgMax", sizes[0] if len(sizes) == 1 else e("Add", *sizes), axis=rank - 2, keepdims=1)
        pivot_rows.append(e("Squeeze", e("Add", best, k + 1), e.ints(rank - 2)))
        # LAPACK exchanges all columns of a row, also the columns of L.
        rows = trailing if lower is None else m.join(-1, lower, trailing)
        rows = _exchanged(m, rows, best, m.rows - k)
        pivot = m.block(rows, (0, 1))
        upper.append(pivot)
        below = m.block(rows, (1, m.rows - k))
        head, diagonal = m.block(below, columns=(k, k + 1)), m.block(pivot, columns=(k, k + 1))
        flags = [e("Equal", v, 0.0) for v in flattened(diagonal)]
        is_zero = flags[0] if len(flags) == 1 else e("And", *flags)
        zeros.append(e("Squeeze", e.cast(is_zero, DType.INT32), e.ints(rank - 2)))
        divisor = [e("Where", is_zero, e.constant(1.0, v.dtype), v) for v in flattened(diagonal)]
        factors = m.divide(head, _tensor(divisor))
        right_block = m.block(below, columns=(k + 1, m.columns))
        trailing = m.subtract(right_block, m.product(factors, m.block(pivot, columns=(k + 1, m.columns))))
        lower = factors if k == 0 else m.join(-1, m.block(below, columns=(0, k)), factors)
    if lower is not None and m.rows > count:
        upper.append(lower)
    if not upper or lower is None:
        refuse("SH0006", f"unsupported: {op.shown()} of empty matrices")
    pivots = e.cast(e("Concat", *pivot_rows, axis=rank - 2) if count > 1 else pivot_rows[0], DType.INT32)
    singular = e("Concat", *zeros, axis=rank - 2) if count > 1 else zeros[0]
    first_zero = e("Add", e("ArgMax", singular, axis=rank - 2, keepdims=0), 1)
    info = e("Mul", e.cast(first_zero, DType.INT32), e("ReduceMax", singular, e.ints(rank - 2), keepdims=0))
    return m.cast(m.join(-2, *upper), dtype), pivots, info


def _exchanged(m: _Matrices, x: Tensor, best: Value, rows: int) -> Tensor:
    """`x` with its first row and the row `best` [*batch, 1, 1] exchanged."""
    e, rank = m.e, m.rank
    if rows == 1:
        return x
    index = e.constant(np.arange(rows).reshape([1] * (rank - 2) + [rows, 1]), DType.INT64)
    is_first, is_pivot = e("Equal", index, 0), e("Equal", index, best)
    order = e("Where", is_first, best, e("Where", is_pivot, e.constant(0, DType.INT64), index))
    indices = e.expand(order, e.sizes(_real_component(x)))
    return _by_component(x, lambda v: e("GatherElements", v, indices, axis=rank - 2))


# Batch normalization


def _feature_shape(e: Emitter, op: Operation, x: Value) -> tuple[list[int], list[int]]:
    """The shape that broadcasts a per-feature value to x, and the axes of all other dims."""
    axis = int(op.attribute("feature_index"))
    checked_axes(e, [axis], e.rank(x), op)
    rank = e.rank(x)
    return [-1 if k == axis else 1 for k in range(rank)], [k for k in range(rank) if k != axis]


def _normalized(e: Emitter, op: Operation, x: Value, mean: Value, variance: Value) -> Value:
    epsilon = float(op.attribute("epsilon"))
    return e("Div", e("Sub", x, mean), e("Sqrt", e("Add", variance, epsilon)))


@rule("batch_norm_inference")
def batch_norm_inference(
    e: Emitter, op: Operation, x: Value, scale: Value, offset: Value, mean: Value, variance: Value
) -> Value:
    """scale * (x - mean) / sqrt(variance + epsilon) + offset for each feature."""
    axis = int(op.attribute("feature_index"))
    checked_axes(e, [axis], e.rank(x), op)
    dtype = e.dtype(x)
    wide = wide_type(dtype)
    given = [e.cast(v, wide) for v in (x, scale, offset, mean, variance)]
    if e.rank(x) >= 2:
        order = [k for k in range(e.rank(x)) if k != axis]
        order.insert(1, axis)
        back = sorted(range(len(order)), key=lambda k: order[k])
        moved = e.transpose(given[0], order)
        found = e("BatchNormalization", moved, *given[1:], epsilon=float(op.attribute("epsilon")))
        return e.cast(e.transpose(found, back), dtype)
    return e.cast(e("Add", e("Mul", _normalized(e, op, given[0], given[3], given[4]), given[1]), given[2]), dtype)


@rule("batch_norm_training")
def batch_norm_training(e: Emitter, op: Operation, x: Value, scale: Value, offset: Value) -> list[Held]:
    """Normalize with the mean and the (biased) variance of the batch; return both, too."""
    shape, axes = _feature_shape(e, op, x)
    dtype = e.dtype(x)
    wide = wide_type(dtype)
    x, scale, offset = e.cast(x, wide), e.cast(scale, wide), e.cast(offset, wide)
    mean = e("ReduceMean", x, e.ints(*axes), keepdims=1)
    apart = e("Sub", x, mean)
    variance = e("ReduceMean", e("Mul", apart, apart), e.ints(*axes), keepdims=1)
    found = e("Mul", _normalized(e, op, x, mean, variance), e.reshape(scale, shape))
    found = e("Add", found, e.reshape(offset, shape))
    flat = [e("Squeeze", value, e.ints(*axes)) for value in (mean, variance)]
    return [e.cast(value, dtype) for value in (found, *flat)]


@rule("batch_norm_grad")
def batch_norm_grad(
    e: Emitter, op: Operation, x: Value, scale: Value, mean: Value, variance: Value, gradient: Value
) -> list[Held]:
    """The gradients of batch normalization with respect to its operands."""
    shape, axes = _feature_shape(e, op, x)
    dtype = e.dtype(x)
    wide = wide_type(dtype)
    x, scale, mean, variance, gradient = (e.cast(v, wide) for v in (x, scale, mean, variance, gradient))
    scale, mean, variance = (e.reshape(v, shape) for v in (scale, mean, variance))
    epsilon = float(op.attribute("epsilon"))
    root = e("Sqrt", e("Add", variance, epsilon))
    normal = e("Div", e("Sub", x, mean), root)
    by_offset = e("ReduceSum", gradient, e.ints(*axes), keepdims=1)
    by_scale = e("ReduceSum", e("Mul", gradient, normal), e.ints(*axes), keepdims=1)
    mean_offset = e("ReduceMean", gradient, e.ints(*axes), keepdims=1)
    mean_scale = e("ReduceMean", e("Mul", gradient, normal), e.ints(*axes), keepdims=1)
    inner = e("Sub", e("Sub", gradient, mean_offset), e("Mul", normal, mean_scale))
    found = e("Mul", e("Div", scale, root), inner)
    flat = [e("Squeeze", value, e.ints(*axes)) for value in (by_scale, by_offset)]
    return [e.cast(value, dtype) for value in (found, *flat)]


# Quantized types


@rule("uniform_quantize")
def uniform_quantize(e: Emitter, op: Operation, x: Value) -> Value:
    """Quantize: the emitter rounds results whose type is quantized."""
    del e, op
    return x


@rule("uniform_dequantize")
def uniform_dequantize(e: Emitter, op: Operation, x: Value) -> Value:
    """Dequantize: the emitter turns quantized operands into floats."""
    del e, op
    return x

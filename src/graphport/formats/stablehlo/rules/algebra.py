"""Linear algebra and normalization by formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.elementwise import wide_type
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, rule
from graphport.formats.stablehlo.rules.shapes import checked_axes, reversed_axes
from graphport.formats.stablehlo.rules.values import Held, Pair
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from graphport.formats.stablehlo.program import Operation

MAX_UNROLLED = 32
"""Rows of a matrix whose decomposition is written out."""


def _matrix_size(e: Emitter, op: Operation, a: Value) -> int:
    """The number of rows and columns of square matrices.

    Raises:
        RefusedError: SH0007 they are not square, SH0006 they are too large.
    """
    if e.rank(a) < 2:
        refuse("SH0007", f"{op.shown()}: an operand of rank {e.rank(a)}, expected matrices")
    rows, columns = e.static(a, e.rank(a) - 2), e.static(a, e.rank(a) - 1)
    if rows != columns:
        refuse("SH0007", f"{op.shown()}: matrices of {rows} rows and {columns} columns")
    if rows > MAX_UNROLLED:
        refuse("SH0006", f"unsupported: {op.shown()} of matrices of {rows} rows")
    return rows


@rule("cholesky")
def cholesky(e: Emitter, op: Operation, a: Value) -> Value:
    """The lower (or upper) triangular factor, column by column."""
    rank, size = e.rank(a), _matrix_size(e, op, a)
    is_lower = bool(op.attributes.get("lower", False))
    dtype = e.dtype(a)
    given = a if is_lower else e.transpose(a, [*range(rank - 2), rank - 1, rank - 2])
    given = e.cast(given, wide_type(dtype))
    factor: Value | None = None
    for column in range(size):
        rest = e.slice(e.slice(given, rank - 2, column, size), rank - 1, column, column + 1)
        if factor is not None:
            rows = e.slice(factor, rank - 2, column, size)
            own = e.slice(factor, rank - 2, column, column + 1)
            rest = e("Sub", rest, e("MatMul", rows, e.transpose(own, [*range(rank - 2), rank - 1, rank - 2])))
        root = e("Sqrt", e.slice(rest, rank - 2, 0, 1))
        made = e("Div", rest, root)
        if column:
            made = e("Pad", made, e.ints(*[0] * (rank - 2), column, *[0] * (rank + 1)))
        factor = made if factor is None else e("Concat", factor, made, axis=rank - 1)
    if factor is None:
        return a
    found = e.cast(factor, dtype)
    return found if is_lower else e.transpose(found, [*range(rank - 2), rank - 1, rank - 2])


@rule("triangular_solve")
def triangular_solve(e: Emitter, op: Operation, a: Value, b: Value) -> Value:
    """Solve a triangular system row by row."""
    rank, size = e.rank(a), _matrix_size(e, op, a)
    if e.rank(b) != rank:
        refuse("SH0007", f"triangular_solve: operands of rank {rank} and {e.rank(b)}")
    swap = [*range(rank - 2), rank - 1, rank - 2]
    is_lower = bool(op.attributes.get("lower", False))
    if op.attributes.get("transpose_a", "NO_TRANSPOSE") in ("TRANSPOSE", "ADJOINT"):
        a, is_lower = e.transpose(a, swap), not is_lower
    is_left = bool(op.attributes.get("left_side", True))
    if not is_left:
        a, b, is_lower = e.transpose(a, swap), e.transpose(b, swap), not is_lower
    if not is_lower:
        a, b = reversed_axes(e, a, [rank - 2, rank - 1]), reversed_axes(e, b, [rank - 2])
    dtype = e.dtype(b)
    a, b = e.cast(a, wide_type(dtype)), e.cast(b, wide_type(dtype))
    found: Value | None = None
    for row in range(size):
        rest = e.slice(b, rank - 2, row, row + 1)
        line = e.slice(a, rank - 2, row, row + 1)
        if found is not None:
            rest = e("Sub", rest, e("MatMul", e.slice(line, rank - 1, 0, row), found))
        if not op.attributes.get("unit_diagonal", False):
            rest = e("Div", rest, e.slice(line, rank - 1, row, row + 1))
        found = rest if found is None else e("Concat", found, rest, axis=rank - 2)
    if found is None:
        return b
    found = e.cast(found, dtype)
    if not is_lower:
        found = reversed_axes(e, found, [rank - 2])
    return found if is_left else e.transpose(found, swap)


@complex_rule("cholesky", "triangular_solve")
def complex_factors(e: Emitter, op: Operation, *xs: Pair) -> Held:
    """Refuse complex matrices."""
    del e, xs
    return refuse("SH0006", f"unsupported: {op.shown()} of complex matrices")


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

"""Products of matrices of ncnn."""

from __future__ import annotations

from typing import Any

from graphport.core.dims import Dim, product, settle_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.formats.ncnn.rules.activation import activated
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.arithmetic import aligned
from graphport.formats.ncnn.rules.binding import Layer, layer
from graphport.formats.ncnn.rules.emitting import (
    blob_dims,
    constant_float32,
    emitted,
    placed,
    rearranged,
    refuse_constants,
    reshaped,
    restore_leading_batch,
    restored,
    stretched,
)
from graphport.formats.ncnn.rules.functions import both
from graphport.formats.ncnn.rules.quantization import TERM, Integers, integers_of, rounded_operands, rounded_rows
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mul
from graphport.ops.definitions.matmul import Gemm, MatMul
from graphport.ops.definitions.reshape import Flatten, Squeeze, Transpose, Unsqueeze
from graphport.ops.views.matmul import GemmView


@layer("InnerProduct")
def inner_product(at: Layer) -> Value:
    """InnerProduct: multiply each row of a matrix, or any other blob as one vector, by the weight; add a bias."""
    b, outputs = at.b, at.integer(0)
    inputs, has_bias = at.count(0) // max(outputs, 1), bool(at.integer(1))
    bias = at.weight(1, [outputs]) if has_bias else None
    dims = b.dims(at.x)
    has_rows = len(dims) == 3 and settle_equal(dims[2], inputs)
    if at.integer(TERM):
        given, weight = rounded_operands(at, [outputs, inputs], 1 + has_bias, is_transposed=has_rows)
    else:
        given, weight = at.x, at.weight(0, [outputs, inputs])
    if has_rows:
        y = b(MatMul, given, weight if at.integer(TERM) else b(Transpose, weight, perm=(1, 0)))
        return activated(at, y if bias is None else b(Add, y, bias))
    x = given if len(dims) == 2 else b(Flatten, given)
    return activated(at, b(Gemm, x, weight, bias, transB=1))


def _transposed(at: Layer, x: Value) -> Value:
    rank = len(at.b.dims(x))
    return at.b(Transpose, x, perm=(*range(rank - 2), rank - 1, rank - 2))


@layer("MatMul")
def matmul(at: Layer) -> Value:
    """MatMul of batched matrices; a vector operand is a row (left) or a column (right), whose axis is dropped."""
    b, (left, right) = at.b, at.inputs[:2]
    ranks = [len(b.dims(x)) - 1 for x in (left, right)]
    row = b(Unsqueeze, left, [1]) if ranks[0] == 1 else left
    right_transposed = _transposed(at, right) if at.integer(0) and ranks[1] > 1 else right
    column = b(Unsqueeze, right, [2]) if ranks[1] == 1 else right_transposed
    y = b(MatMul, row, column)
    if 1 not in ranks:
        return y
    rank = len(b.dims(y))
    gone = [axis for axis, own in ((rank - 2, ranks[0]), (rank - 1, ranks[1])) if own == 1]
    # A blob has an axis at least.
    return b(Squeeze, y, gone[: rank - 2])


_GEMM_TERM = 18
"""Parameter of Gemm that enables integer computation."""


@layer("Gemm")
def gemm(at: Layer) -> Value:
    """Gemm: alpha * (A B + beta * C); A, B and C are operands or weights."""
    b = at.b
    at.refuse(11)
    is_int8 = at.choice(_GEMM_TERM, {0: False, 2: True}, "quantization of Gemm")
    m, n, k = (at.integer(key) for key in (7, 8, 9))
    blobs, weights = list(at.inputs), 0
    turns_a, turns_b = at.integer(2), at.integer(3)
    matrices: list[Value] = []
    for key, shape in ((4, [k, m] if turns_a else [m, k]), (5, [n, k] if turns_b else [k, n])):
        if at.integer(key):
            matrices.append(at.weight(weights, [1, *shape]))
            weights += 1
        else:
            matrices.append(blobs.pop(0))
    left = _transposed(at, matrices[0]) if turns_a else matrices[0]
    right = _transposed(at, matrices[1]) if turns_b else matrices[1]
    if is_int8:
        place = weights + bool(at.integer(6) and at.integer(10) != -1)
        if at.integer(4):
            left = b(Div, left, b.constant(at.stored(place).reshaped([1, m, 1])))
            place += 1
        else:
            left = rounded_rows(b, left)
        right = b(Div, right, b.constant(at.stored(place))) if at.integer(5) else rounded_rows(b, right, (-2, -1))
    y = b(MatMul, left, right)
    alpha, beta = at.float_value(0, 1.0), at.float_value(1, 1.0)
    rows, columns = (b.dims(y)[axis] for axis in (-2, -1))
    offset = _offset(at, weights, blobs, m, n, (rows, columns))
    if offset is not None:
        y = b(Add, *aligned(b, y, offset if beta == 1 else b(Mul, offset, b.like(y, beta))))
    y = y if alpha == 1 else b(Mul, y, b.like(y, alpha))
    return _transposed(at, y) if at.integer(14) else y


def _offset(at: Layer, index: int, blobs: list[Value], m: int, n: int, result: tuple[Dim, Dim]) -> Value | None:
    if at.integer(6):
        shapes = {0: [1, 1, 1], 1: [1, m, 1], 2: [1, m, 1], 3: [1, m, n], 4: [1, 1, n]}
        kind = at.integer(10)
        if kind == -1:
            return None
        if kind not in shapes:
            message = f"unsupported constant_broadcast_type_C {kind}"
            raise UnsupportedError(message)
        return at.weight(index, shapes[kind])
    return _align_addend(at, blobs[0], *result) if blobs else None


def _align_addend(at: Layer, x: Value, m: Dim, n: Dim) -> Value:
    """Align an added blob: a vector is along the columns if it has the length of a row, else along the rows."""
    dims = at.b.dims(x)
    if len(dims) != 2:
        return x
    if settle_equal(dims[1], n):
        return at.b(Unsqueeze, x, [1])
    return at.b(Unsqueeze, x, [2]) if settle_equal(dims[1], m) else x


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@GemmView.export_rule("ncnn")
def export_gemm(b: Builder, op: GemmView) -> Value:
    """Export Gemm: InnerProduct; the addend is a bias or another blob."""
    a, b_, c, alpha, beta = op.a, op.b, op.c, op.alpha, op.beta
    if op.transA or folded(b_) is None or folded(a) is not None:
        left = b(Transpose, a, perm=(1, 0)) if op.transA else a
        product_ = b(MatMul, left, b(Transpose, b_, perm=(1, 0)) if op.transB else b_)
        scaled = product_ if alpha == 1 else b(Mul, product_, b.like(product_, alpha))
        if c is None:
            return scaled
        return b(Add, scaled, c if beta == 1 else b(Mul, c, b.like(c, beta)))
    b.looks_around = True
    found = integers_of(a, b_, axis=0 if op.transB else 1) if alpha == 1 else None
    x = a if found is None else found.x
    blob_dims(b, x)
    weight = _matrix(b_, is_transposed=bool(op.transB), factor=alpha)
    bias, outputs = None, weight.shape[0]
    if c is not None and folded(c) is not None and b.dims(c) in ((outputs,), (1, outputs)):
        bias = rearranged(c, lambda array: array.reshape(-1) * beta, [outputs])
    y = _product(b, x, weight, bias, found)
    if c is None or bias is not None:
        return y
    return both(b, "add", y, c if beta == 1 else both(b, "mul", c, b.like(c, beta)))


def _matrix(value: Value, *, is_transposed: bool, factor: float = 1.0) -> Storage:
    """Return a constant matrix times `factor` as [outputs, inputs]; transpose it unless `is_transposed`."""
    numbers = constant_float32(value)
    if is_transposed and factor == 1:
        return numbers
    shape = numbers.shape if is_transposed else numbers.shape[::-1]
    return rearranged(value, lambda array: (array if is_transposed else array.T) * factor, shape)


def _product(
    b: Builder,
    x: Value,
    weight: Storage,
    bias: Storage | None = None,
    found: Integers | None = None,
) -> Value:
    fact = TensorFact(DType.FLOAT32, (*b.dims(x)[:-1], weight.shape[0]))
    has_bias = bias is not None
    stated: dict[str, Any] = {"p0": weight.shape[0], "p1": int(has_bias), "p2": weight.count, "w0": weight, "w1": bias}
    if found is not None:
        stated = {**stated, "w0": found.codes, **found.parameters(1 + has_bias)}
    return placed(emitted(b, "InnerProduct", x, fact=fact, **stated), batch_of(x))


@MatMul.export_rule("ncnn")
def export_matmul(b: Builder, a: Value, b_: Value) -> Value:
    """Export MatMul: InnerProduct for a constant second matrix, else a MatMul layer."""
    ranks = len(b.dims(a)), len(b.dims(b_))
    if min(ranks) < _MATRIX:
        row = b(Unsqueeze, a, [0]) if ranks[0] < _MATRIX else a
        column = b(Unsqueeze, b_, [1]) if ranks[1] < _MATRIX else b_
        y = b(MatMul, row, column)
        rank = len(b.dims(y))
        gone = [axis for axis, own in ((rank - 2, ranks[0]), (rank - 1, ranks[1])) if own < _MATRIX]
        return b(Squeeze, y, gone)
    if folded(a) is None and folded(b_) is not None and ranks[1] == 2:
        b.looks_around = True
        found = integers_of(a, b_, axis=1)
        x = a if found is None else found.x
        lengths, batch = blob_dims(b, x), batch_of(x)
        weight = _matrix(b_, is_transposed=False)
        if len(lengths) < 3 and batch != ranks[0] - 1:
            return _product(b, x, weight, found=found)
        if found is not None and batch != ranks[0] - 1:
            rows = reshaped(b, x, [product(lengths[:-1]), lengths[-1]])
            return restored(b, _product(b, rows, weight, found=found), b.outcome, batch)
    blobs, batch = _stacked(b, a, b_)
    return restore_leading_batch(b, emitted(b, "MatMul", *blobs, fact=b.outcome), batch)


_MATRIX = 2
"""Axes of a matrix."""


def _stacked(b: Builder, x: Value, y: Value) -> tuple[list[Value], int | None]:
    """Return the operands of a MatMul as blobs of equal rank, and the batch axis of length 1 that they lack."""
    refuse_constants(x, y)
    rank = max(len(b.dims(x)), len(b.dims(y)))
    padded = [[1] * (rank - len(b.dims(each))) + list(b.dims(each)) for each in (x, y)]
    batch = next((axis for axis in range(rank - 2) if all(own[axis] == 1 for own in padded)), None)
    return [stretched(b, each, own, batch) for each, own in zip((x, y), padded, strict=True)], batch

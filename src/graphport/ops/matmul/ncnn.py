"""Products of matrices of ncnn."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.ir.graph import Value
from graphport.ops.activation.ncnn import activated
from graphport.ops.arithmetic import Add, Mul
from graphport.ops.arithmetic.ncnn import aligned, both
from graphport.ops.blobs import Layer, blob, folded, layer, lengths_of, numbers_of, rearranged, said
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.matmul import Gemm, MatMul
from graphport.ops.reshape import Flatten, Transpose


@layer("InnerProduct")
def inner_product(at: Layer) -> Value:
    """Of a matrix, each row; of other blobs, all elements."""
    b, outputs = at.b, at.integer(0)
    at.refuse(8)
    inputs = at.count(0) // max(outputs, 1)
    weight = at.weight(0, [outputs, inputs])
    bias = at.weight(1, [outputs]) if at.integer(1) else None
    dims = b.dims(at.x)
    if len(dims) == 3 and dims[2] == inputs:
        y = b(MatMul, at.x, b(Transpose, weight, perm=(1, 0)))
        return activated(at, y if bias is None else b(Add, y, bias))
    x = at.x if len(dims) == 2 else b(Flatten, at.x)
    return activated(at, b(Gemm, x, weight, bias, transB=1))


def _turned(at: Layer, x: Value) -> Value:
    rank = len(at.b.dims(x))
    return at.b(Transpose, x, perm=(*range(rank - 2), rank - 1, rank - 2))


@layer("MatMul")
def matmul(at: Layer) -> Value:
    left, right = at.inputs[:2]
    return at.b(MatMul, left, _turned(at, right) if at.integer(0) else right)


@layer("Gemm")
def gemm(at: Layer) -> Value:
    """`alpha * (A B + beta * C)`; each of the three is a blob or a weight."""
    b = at.b
    at.refuse(14, 18)
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
    left = _turned(at, matrices[0]) if turns_a else matrices[0]
    right = _turned(at, matrices[1]) if turns_b else matrices[1]
    y = b(MatMul, left, right)
    alpha, beta = at.real(0, 1.0), at.real(1, 1.0)
    offset = _offset(at, weights, blobs, m, n)
    if offset is not None:
        y = b(Add, *aligned(b, y, offset if beta == 1 else b(Mul, offset, b.like(y, beta))))
    return y if alpha == 1 else b(Mul, y, b.like(y, alpha))


def _offset(at: Layer, index: int, blobs: list[Value], m: int, n: int) -> Value | None:
    if at.integer(6):
        shapes = {0: [1, 1, 1], 1: [1, m, 1], 2: [1, m, 1], 3: [1, m, n], 4: [1, 1, n]}
        kind = at.integer(10)
        if kind == -1:
            return None
        if kind not in shapes:
            message = f"there is no rule for the broadcast {kind}"
            raise UnsupportedError(message)
        return at.weight(index, shapes[kind])
    return blobs[0] if blobs else None


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Gemm.lift("ncnn")
def lift_gemm(
    b: Builder,
    a: Value,
    b_: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value | None:
    """A vector through a matrix; what is added is one number for each output, or another blob."""
    if transA or len(b.dims(a)) != 2:
        return None
    lengths_of(b, a)
    weight = _matrix(b_, is_turned=bool(transB), factor=alpha)
    bias = None
    if c is not None and folded(c) is not None and numbers_of(c).count == weight[1]:
        bias = rearranged(c, lambda array: array.reshape(-1) * beta, [weight[1]])
    y = _product(b, a, weight[0], weight[1], bias)
    if c is None or bias is not None:
        return y
    return both(b, 0, y, c if beta == 1 else both(b, 2, c, b.like(c, beta)))


def _matrix(value: Value, *, is_turned: bool, factor: float = 1.0) -> tuple[Storage, int]:
    """A constant matrix with a row for each output, and how many these are."""
    numbers = numbers_of(value)
    rows, columns = numbers.shape[::-1] if not is_turned else numbers.shape
    if is_turned and factor == 1:
        return numbers, rows
    return rearranged(value, lambda array: (array if is_turned else array.T) * factor, [rows, columns]), rows


def _product(b: Builder, x: Value, weight: Storage, outputs: int, bias: Storage | None = None) -> Value:
    fact = TensorFact(DType.FLOAT32, (*b.dims(x)[:-1], outputs))
    return said(
        b,
        "InnerProduct",
        x,
        fact=fact,
        p0=outputs,
        p1=int(bias is not None),
        p2=weight.count,
        w0=weight,
        w1=bias,
    )


@MatMul.lift("ncnn")
def lift_matmul(b: Builder, a: Value, b_: Value) -> Value | None:
    """By a constant matrix, a layer with weights; of two blobs, one of their last two axes."""
    if folded(a) is None and folded(b_) is not None and len(b.dims(b_)) == 2 and len(b.dims(a)) in (2, 3):
        lengths_of(b, a)
        return _product(b, a, *_matrix(b_, is_turned=False))
    ranks = len(b.dims(a)), len(b.dims(b_))
    if min(ranks) < 2:
        return None
    rank = max(*ranks) - 1
    return said(b, "MatMul", blob(b, a, rank), blob(b, b_, rank)) if rank > 1 else None

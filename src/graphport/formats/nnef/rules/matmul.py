"""Products of matrices in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import decide_equal
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.convolution import is_zero, literal
from graphport.formats.nnef.rules.convolution_borders import fact_of
from graphport.ops.declare import ShapeError, lower
from graphport.ops.decompositions.inverse import determinant
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.matmul import Det, Gemm, MatMul
from graphport.ops.definitions.matmul.shapes import multiplied
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reshape import Reshape, Squeeze, Transpose, Unsqueeze
from graphport.ops.lowering.leading_broadcast import append_axes, prepend_axes
from graphport.ops.lowering.operands import sizes
from graphport.ops.views.matmul import GemmView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("nnef", "matmul")
def matmul(b: Builder, A: Value, B: Value, *, transposeA: bool = False, transposeB: bool = False) -> Value:
    """Matrix product over the last two axes, with optional transposes."""
    rank = len(b.dims(A))
    if len(b.dims(B)) != rank or rank < 2:
        message = f"the factors have ranks {rank} and {len(b.dims(B))}"
        raise ShapeError(message, "use equal ranks of at least 2")
    if rank == 2 and (transposeA or transposeB):
        return b(Gemm, A, B, transA=int(transposeA) or None, transB=int(transposeB) or None)
    left = _transposed(b, A) if transposeA else A
    return b(MatMul, left, _transposed(b, B) if transposeB else B)


def _transposed(b: Builder, value: Value) -> Value:
    rank = len(b.dims(value))
    return b(Transpose, value, perm=(*range(rank - 2), rank - 1, rank - 2))


@lower("nnef", "linear")
def linear(b: Builder, input: Value, filter: Value, bias: Value | None = None) -> Value:
    """Product with the transposed filter, plus a bias per column."""
    summand = None if bias is None or is_zero(bias) else bias
    dims = b.dims(input)
    if len(dims) == 2 and (summand is None or len(b.dims(summand)) in (0, 2)):
        rows = None if summand is None or not b.dims(summand) else b.dims(summand, at_least=1)[0]
        if rows is None or decide_equal(rows, 1) is True or decide_equal(rows, dims[0]) is True:
            return b(Gemm, input, filter, summand, transB=1)
    y = matmul(b, input, filter, transposeB=True)
    return y if summand is None else b(Add, *append_axes(b, y, summand))


@MatMul.export_rule("nnef")
def export_matmul(b: Builder, left: Value, right: Value) -> tuple[Value, ...] | None:
    """Export MatMul: factors get equal rank, at least 2; vectors become rows or columns."""
    if fact_of(left).shape is None or fact_of(right).shape is None:
        return None
    if _is_integer(left):
        return (_multiply_integers(b, left, right),)
    ranks = len(b.dims(left)), len(b.dims(right))
    split = _before_reshape(b, left) if ranks[1] == 2 else None
    if split is not None:
        lengths = sizes((*b.dims(left)[:-1], b.dims(right, at_least=2)[1]))
        return (b(Reshape, b(MatMul, split, right), lengths),)
    a = left if ranks[0] > 1 else _unsqueezed(b, left, 0)
    c = right if ranks[1] > 1 else _unsqueezed(b, right, 1)
    a, c = prepend_axes(b, a, c)
    fact = TensorFact(fact_of(left).dtype, multiplied(b.dims(a), b.dims(c)))
    y = b.emit("matmul", a, c, facts=[fact], transposeA=False, transposeB=False)
    axes = (*((fact.rank - 2,) if ranks[0] == 1 else ()), *((fact.rank - 1,) if ranks[1] == 1 else ()))
    return b.emit("squeeze", *y, axes=axes) if axes else y


def _is_integer(value: Value) -> bool:
    dtype = fact_of(value).dtype
    return dtype is not None and dtype.is_integer


def _multiply_integers(b: Builder, left: Value, right: Value) -> Value:
    """Multiply integers by broadcasting and summing: NNEF's matmul is real-valued, and tract 0.23.9 aborts."""
    a = left if len(b.dims(left)) > 1 else b(Unsqueeze, left, [0])
    c = right if len(b.dims(right)) > 1 else b(Unsqueeze, right, [1])
    products = b(Mul, b(Unsqueeze, a, [-1]), b(Unsqueeze, c, [-3]))
    total = b(ReduceSum, products, [-2], keepdims=0)
    axes = [axis for axis, x in ((-2, left), (-1, right)) if len(b.dims(x)) == 1]
    return b(Squeeze, total, axes) if axes else total


def _before_reshape(b: Builder, value: Value) -> Value | None:
    """Return the operand of a reshape that merges axes: tract 0.23.9 would split the weight, too, and refuse it."""
    node = value.producer
    if node is None or node.op_type.lower() != "reshape" or len(b.dims(value)) == 2:
        return None
    x = node.inputs[0]
    if x is None or fact_of(x).shape is None:
        return None
    before, after = b.dims(x), b.dims(value)
    is_known = all(isinstance(dim, int) for dim in (*before, *after))
    return x if is_known and len(before) > len(after) and before[-1] == after[-1] else None


def _unsqueezed(b: Builder, value: Value, axis: int) -> Value:
    n = b.dims(value, at_least=1)[0]
    shape = (1, n) if axis == 0 else (n, 1)
    flat = b.reshaped(value, [dim for dim in shape if isinstance(dim, int)]) if isinstance(n, int) else None
    return flat or b.emit("unsqueeze", value, facts=[TensorFact(fact_of(value).dtype, shape)], axes=(axis,))[0]


@GemmView.export_rule("nnef")
def export_gemm(b: Builder, op: GemmView) -> tuple[Value, ...] | None:
    """Export Gemm as `linear` if equivalent, else `matmul` with scaling and addition."""
    if _is_integer(op.a):
        return _whole_gemm(b, op)
    shape = (b.dims(op.a)[1 if op.transA else 0], b.dims(op.b)[0 if op.transB else 1])
    product = TensorFact(fact_of(op.a).dtype, shape)
    summand = None if op.c is None else prepend_axes(b, op.b, op.c)[1]
    if op.transB and not op.transA and op.alpha == op.beta == 1:
        is_row = summand is None or decide_equal((b.dims(summand) or (1,))[0], 1) is True
        if is_row:
            return b.emit("linear", op.a, op.b, literal(b, 0.0) if summand is None else summand)
    y = b.emit("matmul", op.a, op.b, facts=[product], transposeA=bool(op.transA), transposeB=bool(op.transB))
    if op.alpha != 1:
        y = b.emit("mul", *y, literal(b, op.alpha), facts=[product])
    if summand is None:
        return y
    if op.beta != 1:
        summand = b.emit("mul", summand, literal(b, op.beta), facts=[fact_of(summand)])[0]
    return b.emit("add", *y, summand)


def _whole_gemm(b: Builder, op: GemmView) -> tuple[Value, ...] | None:
    if not op.alpha == op.beta == 1:
        return None
    left, right = (
        _transposed(b, x) if is_transposed else x for x, is_transposed in ((op.a, op.transA), (op.b, op.transB))
    )
    y = _multiply_integers(b, left, right)
    return (y if op.c is None else b(Add, y, op.c),)


Det.export_rule("nnef")(determinant)

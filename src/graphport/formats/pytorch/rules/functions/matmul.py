"""Matrix products of PyTorch."""

from __future__ import annotations

from functools import reduce
from typing import Any

from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    axis_of,
    bounded,
    called,
    emits,
    integers,
    length,
    scalar_of,
    weight_of,
)
from graphport.formats.pytorch.rules.promotion import computed
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Mul
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import Einsum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.views.matmul import GemmView

_MOST_FACTORS = 64


def _second_operand(_b: Builder, x: Value, *given: Any) -> Value:
    """Return the first tensor in `given`; `x` if there is none, because pnnx writes `x @ x` with one operand."""
    return next((each for each in given if isinstance(each, Value)), x)


PNNX.having(other=_second_operand).lower("""
torch.matmul, torch.mm, torch.bmm, torch.mv, torch.dot, aten::matmul, aten::mm, aten::bmm, aten::mv,
    aten::dot(input, other=None, mat2=None, vec=None) -> MatMul(input, other(input, other, mat2, vec))
torch.cross, torch.linalg.cross, aten::cross, aten::linalg_cross(input, other, dim=-1)
    -> place = axis(dim, input);
       Sub(Mul(Gather(input, [1, 2, 0], axis=place), Gather(other, [2, 0, 1], axis=place)),
           Mul(Gather(input, [2, 0, 1], axis=place), Gather(other, [1, 2, 0], axis=place)))
""")
PNNX.lower(
    """
nn.Linear, F.linear, aten::linear(input, weight, bias=None)
    -> rank(input) == 2 and rank(weight) == 2: Gemm(input, weight, bias, transB=1)
    -> y = MatMul(input, Transpose(weight, perm=(1, 0)) if rank(weight) == 2 else weight); bias is None: y
    -> Add(y, bias)
""",
    ignores=("in_features", "out_features"),
)
PNNX.lower(
    """
nn.Bilinear, F.bilinear, aten::bilinear(input1, input2, weight, bias=None)
    -> y = Squeeze(MatMul(MatMul(Unsqueeze(input1, [-2, -3]), weight), Unsqueeze(input2, [-1, -3])), [-1, -2]);
       bias is None: y
    -> Add(y, bias)
""",
    ignores=("in1_features", "in2_features", "out_features"),
)


def _scaled(b: Builder, x: Value, factor: Any) -> Value:
    found = scalar_of(factor)
    return x if found == 1 else b(Mul, x, b.like(x, found))


def _added(b: Builder, input: Value, product: Value, beta: Any, alpha: Any) -> Value:
    scaled = _scaled(b, product, alpha)
    return scaled if scalar_of(beta) == 0 else b(Add, _scaled(b, input, beta), scaled)


PNNX.having(added=_added).lower("""
torch.addmm, aten::addmm(input, mat1, mat2, beta=1, alpha=1) -> added(input, MatMul(mat1, mat2), beta, alpha)
torch.addmv, aten::addmv(input, mat, vec, beta=1, alpha=1) -> added(input, MatMul(mat, vec), beta, alpha)
torch.baddbmm, aten::baddbmm(input, batch1, batch2, beta=1, alpha=1)
    -> added(input, MatMul(batch1, batch2), beta, alpha)
torch.addbmm, aten::addbmm(input, batch1, batch2, beta=1, alpha=1)
    -> added(input, ReduceSum(MatMul(batch1, batch2), [0], keepdims=0), beta, alpha)
torch.addr, aten::addr(input, vec1, vec2, beta=1, alpha=1) -> added(input, torch.outer(vec1, vec2), beta, alpha)
torch.outer, torch.ger, aten::outer, aten::ger(input, vec2)
    -> torch.mul(Unsqueeze(input, [1]), Unsqueeze(vec2, [0]))
torch.det, aten::det, torch.linalg.det, aten::linalg_det(input) -> Det(input)
""")


@emits("torch.linalg.multi_dot", "aten::linalg_multi_dot", "torch.chain_matmul", "aten::chain_matmul")
def multi_dot(b: Builder, *tensors: Value) -> Value:
    """Chain of matrix products, evaluated from the left."""
    return reduce(lambda x, y: b(MatMul, x, y), tensors)


@emits("torch.linalg.matrix_power", "aten::linalg_matrix_power", "torch.matrix_power", "aten::matrix_power")
def matrix_power(b: Builder, input: Value, n: Any) -> Value:
    count = int(scalar_of(n))
    if not 1 <= count <= _MOST_FACTORS:
        message = f"matrix_power with the exponent {count}, expected 1 to {_MOST_FACTORS}"
        raise UnsupportedError(message)
    return reduce(lambda x, _: b(MatMul, x, input), range(count - 1), input)


@emits("torch.inner", "aten::inner")
def inner(b: Builder, input: Value, other: Value) -> Value:
    """Inner products over the last axes of both tensors."""
    if not b.dims(input) or not b.dims(other):
        return b(Mul, input, other)
    return tensordot(b, input, other, (len(b.dims(input)) - 1,), (len(b.dims(other)) - 1,))


@emits("torch.tensordot", "aten::tensordot")
def tensordot(b: Builder, input: Value, other: Value, dims_self: Any, dims_other: Any) -> Value:
    ranks = len(b.dims(input)), len(b.dims(other))
    left, right = integers(dims_self), integers(dims_other)
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    first = [next(letters) for _ in range(ranks[0])]
    second = [next(letters) for _ in range(ranks[1])]
    for i, j in zip(left, right, strict=True):
        second[axis_of(j, ranks[1])] = first[axis_of(i, ranks[0])]
    free = [each for each in [*first, *second] if not (each in first and each in second)]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(free)}"
    return b(Einsum, input, other, equation=equation)


@emits("torch.kron", "aten::kron")
def kron(b: Builder, input: Value, other: Value) -> Value:
    """Kronecker product."""
    rank = max(len(b.dims(input)), len(b.dims(other)))
    left = [1] * (rank - len(b.dims(input))) + [length(b.dims(input), a) for a in range(len(b.dims(input)))]
    right = [1] * (rank - len(b.dims(other))) + [length(b.dims(other), a) for a in range(len(b.dims(other)))]
    x = b(Reshape, input, [n for each in left for n in (each, 1)])
    y = b(Reshape, other, [n for each in right for n in (1, each)])
    return b(Reshape, computed(b, "mul", x, y), [n * m for n, m in zip(left, right, strict=True)])


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


PNNX.export_rules("MatMul -> torch.matmul(input=a, other=b)")


@GemmView.export_rule(DIALECT)
def export_gemm(b: Builder, op: GemmView) -> Value:
    """Export Gemm as a module for a constant weight matrix, else as addmm."""
    weight, bias = weight_of(op.b), weight_of(op.c)
    outputs = length(b.dims(op.b), 0 if op.transB else 1)
    is_vector = op.c is None or (bias is not None and bias.shape == (outputs,))
    if weight is not None and is_vector and op.transB and not op.transA and op.alpha == op.beta == 1:
        weights: dict[str, Any] = {"@weight": weight} | ({} if bias is None else {"@bias": bias})
        sizes = {"in_features": weight.shape[1], "out_features": outputs}
        return called(b, "nn.Linear", input=op.a, bias=op.c is not None, **sizes, **weights)
    left, right = (
        _transposed(b, each) if is_transposed else each
        for each, is_transposed in ((op.a, op.transA), (op.b, op.transB))
    )
    if op.c is None:
        y = called(b, "torch.mm", b.outcome, input=left, mat2=right)
        return y if op.alpha == 1 else b.emit("Expression", y, expr=f"mul(@0,{op.alpha!r})")[0]
    return called(b, "torch.addmm", input=op.c, mat1=left, mat2=right, alpha=op.alpha, beta=op.beta)


def _transposed(b: Builder, x: Value) -> Value:
    dims = b.dims(x)
    return called(b, "torch.t", TensorFact(dtype_of(x), (dims[1], dims[0])), input=x)


@Einsum.export_rule(DIALECT)
def export_einsum(b: Builder, *inputs: Value, equation: str) -> Value:
    return b.emit("torch.einsum", *inputs, equation="".join(equation.split()))[0]


@emits("torch.vander", "aten::vander")
def vander(b: Builder, x: Value, N: Any = None, increasing: Any = False) -> Value:
    """Vandermonde matrix, powers in descending order or `increasing`."""
    count = length(b.dims(x), len(b.dims(x)) - 1) if N is None else int(scalar_of(N))
    if count < 1:
        message = "vander with 0 columns"
        raise UnsupportedError(message)
    column = b(Unsqueeze, x, [-1])
    columns = [b(Expand, b.like(x, 1), b(Shape, column))]
    for _ in range(bounded(count) - 1):
        columns.append(b(Mul, columns[-1], column))
    return b(Concat, *(columns if increasing else reversed(columns)), axis=-1)

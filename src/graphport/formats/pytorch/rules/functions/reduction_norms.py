"""Norms and distances of PyTorch."""

from __future__ import annotations

import math
from typing import Any

from graphport.formats.pytorch.rules.binding import axis_of, emits, integers, scalar_of
from graphport.formats.pytorch.rules.functions.reduction_reduced import reduced
from graphport.formats.pytorch.rules.promotion import cast
from graphport.formats.pytorch.rules.rule_table import PNNX, typed
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Pow
from graphport.ops.definitions.comparison import Equal, Not
from graphport.ops.definitions.reduction import ReduceL1, ReduceL2, ReduceMax, ReduceMin, ReduceSum
from graphport.ops.definitions.reshape import Squeeze
from graphport.ops.lowering.operands import dtype_of


def norm(b: Builder, x: Value, p: Any, dim: Any, keepdim: Any) -> Value:
    """p-norm over axes."""
    if not b.dims(x):
        x = b(Abs, x)  # the complete norm if there is no axis
    power = 2.0 if p is None else scalar_of(p)
    if isinstance(power, str):
        if power not in ("fro", "inf", "-inf"):
            message = f"unsupported norm {power}"
            raise UnsupportedError(message)
        power = 2.0 if power == "fro" else float(power)
    match float(power):
        case 2.0:
            return reduced(b, ReduceL2, x, dim, keepdim=keepdim)
        case 1.0:
            return reduced(b, ReduceL1, x, dim, keepdim=keepdim)
        case math.inf:
            return reduced(b, ReduceMax, b(Abs, x), dim, keepdim=keepdim)
        case n if n == -math.inf:
            return reduced(b, ReduceMin, b(Abs, x), dim, keepdim=keepdim)
        case 0.0:
            nonzero = cast(b, b(Not, b(Equal, x, 0)), dtype_of(x))
            return reduced(b, ReduceSum, nonzero, dim, keepdim=keepdim)
        case n:
            total = reduced(b, ReduceSum, b(Pow, b(Abs, x), b.like(x, n)), dim, keepdim=keepdim)
            return b(Pow, total, b.like(total, 1 / n))


PNNX.having(norm=norm).lower("""
torch.norm, aten::norm, Tensor.norm(input, p: any = 2.0, dim=None, keepdim=False, dtype=None)
    -> norm(typed(input, dtype), p, dim, keepdim)
torch.linalg.vector_norm, aten::linalg_vector_norm(input, ord: any = 2, dim=None, keepdim=False, dtype=None)
    -> norm(typed(input, dtype), ord, dim, keepdim)
torch.dist, aten::dist(input, other, p: any = 2.0) -> norm(Sub(input, other), p, None, False)
torch.cdist, aten::cdist(x1, x2, p: any = 2.0, compute_mode: ignored = None)
    -> norm(Sub(Unsqueeze(x1, [-2]), Unsqueeze(x2, [-3])), p, -1, False)
""")


@emits("torch.linalg.norm", "aten::linalg_norm")
def linalg_norm(
    b: Builder, input: Value, ord: Any = None, dim: Any = None, keepdim: Any = False, dtype: Any = None
) -> Value:
    """Vector norm along one axis, or of all elements without `ord`; else matrix norm."""
    rank = len(b.dims(input))
    axes = tuple(range(rank)) if dim is None else integers(dim)
    if ord is None or len(axes) != 2:
        return norm(b, typed(b, input, dtype), 2.0 if ord is None else ord, dim, keepdim)
    return matrix_norm(b, input, ord, axes, keepdim, dtype)


@emits("torch.linalg.matrix_norm", "aten::linalg_matrix_norm")
def matrix_norm(
    b: Builder, input: Value, ord: Any = "fro", dim: Any = (-2, -1), keepdim: Any = False, dtype: Any = None
) -> Value:
    """Matrix norm: maximum column or row sum, or Frobenius; singular values are not supported."""
    power = ord if isinstance(ord, str) else scalar_of(ord)
    if power == "fro":
        return norm(b, typed(b, input, dtype), 2.0, dim, keepdim)
    if isinstance(power, str) or abs(power) not in (1, math.inf):
        message = f"the matrix norm {power}, which requires singular values"
        raise UnsupportedError(message)
    x = b(Abs, typed(b, input, dtype))
    rows, columns = (axis_of(axis, len(b.dims(x))) for axis in integers(dim, 2))
    summed, chosen = (rows, columns) if abs(power) == 1 else (columns, rows)
    total = reduced(b, ReduceSum, x, (summed,), keepdim=True)
    found = reduced(b, ReduceMax if power > 0 else ReduceMin, total, (chosen,), keepdim=True)
    return found if scalar_of(keepdim) else b(Squeeze, found, sorted((rows, columns)))

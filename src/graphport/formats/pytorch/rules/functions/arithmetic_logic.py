"""Comparisons and logic of PyTorch."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import Tensor
from graphport.formats.pytorch.rules.promotion import cast, floating, promoted
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.comparison import (
    Equal,
    Not,
)
from graphport.ops.lowering.operands import dtype_of


def _cast_to_common_float(b: Builder, x: Tensor, y: Tensor) -> list[Value]:
    return [floating(b, each) for each in promoted(b, x, y)]


def _promote_comparison(b: Builder, x: Tensor, y: Tensor) -> list[Value]:
    """Return both operands in their common type; booleans as integers."""
    found = promoted(b, x, y)
    return [cast(b, each, DType.INT32) for each in found] if dtype_of(found[0]) is DType.BOOL else found


PNNX.having(ordered=_promote_comparison, reals=_cast_to_common_float).lower("""
torch.eq, aten::eq(input, other) <-> Equal(*promoted(input, other))
torch.lt, aten::lt(input, other) <-> Less(*ordered(input, other))
torch.gt, aten::gt(input, other) <-> Greater(*ordered(input, other))
torch.le, aten::le(input, other) <-> LessOrEqual(*ordered(input, other))
torch.ge, aten::ge(input, other) <-> GreaterOrEqual(*ordered(input, other))
# `|x - y| <= atol + rtol |y|`, or both are the same infinity.
torch.isclose, aten::isclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False)
    -> x, y = reals(input, other); gap = Abs(Sub(x, y));
       found = Or(And(LessOrEqual(gap, Add(atol, Mul(Abs(y), rtol))), Not(IsInf(gap))), Equal(x, y));
       equal_nan: Or(found, And(IsNaN(x), IsNaN(y)))
    -> found
""")


def _is_true(b: Builder, x: Tensor) -> Value:
    return cast(b, x, DType.BOOL) if isinstance(x, Value) else b.constant(bool(x), DType.BOOL)


PNNX.having(is_true=_is_true).lower("""
torch.logical_and, aten::logical_and(input, other) <-> And(is_true(input), is_true(other))
torch.logical_or, aten::logical_or(input, other) <-> Or(is_true(input), is_true(other))
torch.logical_xor, aten::logical_xor(input, other) <-> Xor(is_true(input), is_true(other))
torch.bitwise_and, aten::bitwise_and, aten::__and__(input, other) -> computed("and", input, other)
torch.bitwise_or, aten::bitwise_or, aten::__or__(input, other) -> computed("or", input, other)
torch.bitwise_xor, aten::bitwise_xor, aten::__xor__(input, other) -> computed("xor", input, other)
""")


def _never(b: Builder, x: Value) -> Value:
    """Return false for every element: x != x, for element types without NaN."""
    return b(Not, b(Equal, x, x))


PNNX.having(is_true=_is_true, never=_never).lower("""
torch.ne, aten::ne(input, other) -> Not(torch.eq(input, other))
torch.logical_not, aten::logical_not(input) <-> Not(is_true(input))
torch.bitwise_not, aten::bitwise_not(input)
    -> dtype(input) is bool: Not(input)
    -> BitwiseNot(input)
torch.isnan, aten::isnan(input)
    -> is_floating(input): IsNaN(input)
    -> never(input)
torch.isinf, aten::isinf(input)
    -> is_floating(input): IsInf(input)
    -> never(input)
torch.isfinite, aten::isfinite(input) -> Not(Or(torch.isnan(input), torch.isinf(input)))
""")

"""Comparisons and logic of PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import Page
from graphport.ops.dialects.torch_functions import Tensor, dtype_of, emits, number
from graphport.ops.dialects.torch_promotion import cast, floating, promoted
from graphport.ops.dialects.torch_rows import PNNX
from graphport.ops.pages.arithmetic import Abs, Add, Mul, Sub
from graphport.ops.pages.comparison import (
    And,
    Equal,
    Greater,
    GreaterOrEqual,
    IsInf,
    IsNaN,
    Less,
    LessOrEqual,
    Not,
    Or,
)


def _compared(page: Page, b: Builder, input: Tensor, other: Tensor) -> Value:
    x, y = promoted(b, input, other)
    if dtype_of(x) is DType.BOOL and page is not Equal:
        x, y = cast(b, x, DType.INT32), cast(b, y, DType.INT32)
    return b(page, x, y)


def _register_comparisons() -> None:
    pages = {"eq": Equal, "lt": Less, "gt": Greater, "le": LessOrEqual, "ge": GreaterOrEqual}
    for word, page in pages.items():
        emits(f"torch.{word}", f"aten::{word}")(partial(_compared, page))


_register_comparisons()


@emits("torch.isclose", "aten::isclose")
def isclose(
    b: Builder, input: Value, other: Value, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False
) -> Value:
    """`|x - y| <= atol + rtol |y|`, or both are the same infinity."""
    x, y = promoted(b, input, other)
    if not dtype_of(x).is_floating:
        x, y = (floating(b, each) for each in (x, y))
    room = b(Add, b.like(y, float(number(atol))), b(Mul, b(Abs, y), b.like(y, float(number(rtol)))))
    gap = b(Abs, b(Sub, x, y))
    is_near = b(And, b(LessOrEqual, gap, room), b(Not, b(IsInf, gap)))
    found = b(Or, is_near, b(Equal, x, y))
    return b(Or, found, b(And, b(IsNaN, x), b(IsNaN, y))) if number(equal_nan) else found


def _is_true(b: Builder, x: Tensor) -> Value:
    return cast(b, x, DType.BOOL) if isinstance(x, Value) else b.constant(bool(x), DType.BOOL)


PNNX.having(is_true=_is_true).lower("""
torch.logical_and, aten::logical_and(input, other) -> And(is_true(input), is_true(other))
torch.logical_or, aten::logical_or(input, other) -> Or(is_true(input), is_true(other))
torch.logical_xor, aten::logical_xor(input, other) -> Xor(is_true(input), is_true(other))
torch.bitwise_and, aten::bitwise_and, aten::__and__(input, other) -> computed("and", input, other)
torch.bitwise_or, aten::bitwise_or, aten::__or__(input, other) -> computed("or", input, other)
torch.bitwise_xor, aten::bitwise_xor, aten::__xor__(input, other) -> computed("xor", input, other)
""")


def _never(b: Builder, x: Value) -> Value:
    """A number is always equal to itself."""
    return b(Not, b(Equal, x, x))


PNNX.having(is_true=_is_true, never=_never).lower("""
torch.ne, aten::ne(input, other) -> Not(torch.eq(input, other))
torch.logical_not, aten::logical_not(input) -> Not(is_true(input))
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

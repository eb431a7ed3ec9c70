"""Arithmetic and logic in the words of PNNX."""

from __future__ import annotations

import re
from functools import partial, reduce
from math import inf

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import lift
from graphport.ops.dialects.torch_functions import DIALECT, DTYPES, called, dtype_of, literal_of
from graphport.ops.dialects.torch_rows import PNNX
from graphport.ops.pages.arithmetic import (
    Abs,
    Acos,
    Acosh,
    Add,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Cast,
    Ceil,
    Cos,
    Cosh,
    Div,
    Erf,
    Exp,
    Floor,
    Log,
    Max,
    Mean,
    Min,
    Mod,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Sub,
    Sum,
    Tan,
)
from graphport.ops.pages.comparison import (
    IsInf,
)
from graphport.ops.shapes import broadcast

_SINGLE = {
    Abs: "abs",
    Acos: "acos",
    Acosh: "acosh",
    Asin: "asin",
    Asinh: "asinh",
    Atan: "atan",
    Atanh: "atanh",
    Ceil: "ceil",
    Cos: "cos",
    Cosh: "cosh",
    Erf: "erf",
    Exp: "exp",
    Floor: "floor",
    Log: "log",
    Neg: "neg",
    Reciprocal: "reciprocal",
    Round: "round",
    Sign: "sign",
    Sin: "sin",
    Sinh: "sinh",
    Sqrt: "sqrt",
    Tan: "tan",
}
_DOUBLE = {Add: "add", Sub: "sub", Mul: "mul", BitwiseAnd: "and", BitwiseOr: "or", BitwiseXor: "xor"}
_MANY = {Max: "maximum", Min: "minimum", Sum: "add"}
NAMES = {dtype: name for name, dtype in reversed(list(DTYPES.items()))}
_REFERENCE = re.compile(r"@(\d+)")


def emitted(b: Builder, function: str, *operands: Value, dtype: DType | None = None) -> Value:
    """A function of the expression language on tensors of one element type."""
    places = ",".join(f"@{index}" for index in range(len(operands)))
    return expressed(b, f"{function}({places})", *operands, dtype=dtype)


def expressed(b: Builder, text: str, *operands: Value, dtype: DType | None = None) -> Value:
    """An expression on tensors of one element type; constants of rank 0 stand in it as numbers."""
    shape = broadcast(*(b.dims(x) for x in operands))
    fact = TensorFact(dtype or dtype_of(operands[0]), shape)
    literals = [literal_of(x) for x in operands]
    if all(literals):
        literals[0] = None
    rest = [x for x, literal in zip(operands, literals, strict=True) if literal is None]
    names = [literal or f"@{rest.index(x)}" for x, literal in zip(operands, literals, strict=True)]
    said_ = _REFERENCE.sub(lambda found: names[int(found[1])], text)
    return b.word("Expression", *rest, facts=[fact], expr=said_)[0]


def _register_liftings() -> None:
    for page, name in {**_SINGLE, **_DOUBLE}.items():
        lift(DIALECT, page.name)(partial(_emitted, name))
    for page, name in _MANY.items():
        lift(DIALECT, page.name)(partial(_chained, name))


def _emitted(name: str, b: Builder, *operands: Value) -> Value:
    return emitted(b, name, *operands)


def _chained(name: str, b: Builder, *operands: Value) -> Value | None:
    if len(operands) < 2:
        return b.word("nn.Identity", operands[0], facts=[operands[0].fact])[0] if operands else None
    return reduce(lambda x, y: emitted(b, name, x, y), operands)


_register_liftings()


@Div.lift(DIALECT)
def lift_div(b: Builder, x: Value, y: Value) -> Value:
    """Integers divide to real numbers there, unless it is said how these are rounded."""
    if dtype_of(x).is_floating:
        return emitted(b, "div", x, y)
    fact = TensorFact(dtype_of(x), broadcast(b.dims(x), b.dims(y)))
    return called(b, "torch.div", fact, input=x, other=y, rounding_mode="trunc")


@Pow.lift(DIALECT)
def lift_pow(b: Builder, x: Value, y: Value) -> Value | None:
    """The result has the type of the base, which PyTorch gives it where both are of one kind and no wider than it."""
    base, exponent = dtype_of(x), dtype_of(y)
    if base is exponent:
        return emitted(b, "pow", x, y)
    fits = base.is_floating and (exponent.is_integer or base is DType.FLOAT64)
    return emitted(b, "pow", x, y) if fits else None


@Mod.lift(DIALECT)
def lift_mod(b: Builder, x: Value, y: Value, *, fmod: int = 0) -> Value:
    return emitted(b, "fmod" if fmod else "remainder", x, y)


@Mean.lift(DIALECT)
def lift_mean(b: Builder, *operands: Value) -> Value | None:
    total = _chained("add", b, *operands)
    return None if total is None else emitted(b, "div", total, b.like(operands[0], len(operands)))


PNNX.lift("""
And -> torch.logical_and(input=a, other=b)
Or -> torch.logical_or(input=a, other=b)
Xor -> torch.logical_xor(input=a, other=b)
Equal -> torch.eq(input=a, other=b)
Less -> torch.lt(input=a, other=b)
Greater -> torch.gt(input=a, other=b)
LessOrEqual -> torch.le(input=a, other=b)
GreaterOrEqual -> torch.ge(input=a, other=b)
Not -> torch.logical_not(input=x)
BitwiseNot -> torch.bitwise_not(input=x)
IsNaN -> torch.isnan(input=x)
Where -> torch.where(condition=condition, input=x, other=y)
""")


@IsInf.lift(DIALECT)
def lift_isinf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value | None:
    """Of one sign, a comparison with it."""
    fact = TensorFact(DType.BOOL, b.dims(x))
    if detect_negative and detect_positive:
        return called(b, "torch.isinf", fact, input=x)
    if not (detect_negative or detect_positive):
        return None
    return called(b, "torch.eq", fact, input=x, other=b.like(x, inf if detect_positive else -inf))


@Cast.lift(DIALECT)
def lift_cast(b: Builder, input: Value, *, to: DType, saturate: int = 1, round_mode: str = "up") -> Value | None:
    name = NAMES.get(to)
    del saturate, round_mode
    return (
        None
        if name is None
        else called(b, "Tensor.to", TensorFact(to, b.dims(input)), input=input, copy=False, dtype=name)
    )

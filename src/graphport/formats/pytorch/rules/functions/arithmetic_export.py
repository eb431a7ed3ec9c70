"""Export rules of arithmetic and logic to PNNX."""

from __future__ import annotations

import re
from functools import reduce
from math import inf

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, DTYPES, called, literal_of
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Div, Mean, Pow
from graphport.ops.definitions.comparison import IsInf
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.shapes import broadcast

NAMES = {dtype: name for name, dtype in reversed(list(DTYPES.items()))}
_REFERENCE = re.compile(r"@(\d+)")


def emitted(b: Builder, function: str, *operands: Value, dtype: DType | None = None) -> Value:
    """Emit a function of the expression language on tensors of one element type."""
    references = ",".join(f"@{index}" for index in range(len(operands)))
    return expressed(b, f"{function}({references})", *operands, dtype=dtype)


def expressed(b: Builder, text: str, *operands: Value, dtype: DType | None = None) -> Value:
    """Emit an expression on tensors of one type; scalar constants are written as numbers."""
    shape = broadcast(*(b.dims(x) for x in operands))
    fact = TensorFact(dtype or dtype_of(operands[0]), shape)
    literals = [literal_of(x) for x in operands]
    if all(literals):
        literals[0] = None
    rest = [x for x, literal in zip(operands, literals, strict=True) if literal is None]
    names = [literal or f"@{rest.index(x)}" for x, literal in zip(operands, literals, strict=True)]
    numbered = _REFERENCE.sub(lambda found: names[int(found[1])], text)
    return b.emit("Expression", *rest, facts=[fact], expr=numbered)[0]


def _chained(b: Builder, name: str, *operands: Value) -> Value | None:
    if len(operands) < 2:
        return called(b, "nn.Identity", input=operands[0]) if operands else None
    return reduce(lambda x, y: emitted(b, name, x, y), operands)


@Div.export_rule(DIALECT)
def export_div(b: Builder, x: Value, y: Value) -> Value:
    """Export Div: integers need a rounding mode, because PyTorch's division of integers returns floats."""
    if dtype_of(x).is_floating:
        return emitted(b, "div", x, y)
    return called(b, "torch.div", input=x, other=y, rounding_mode="trunc")


@Pow.export_rule(DIALECT)
def export_pow(b: Builder, x: Value, y: Value) -> Value | None:
    """Export Pow; the result has the type of the base, which PyTorch promotes unless the exponent's type fits."""
    base, exponent = dtype_of(x), dtype_of(y)
    if base is exponent:
        return emitted(b, "pow", x, y)
    fits = base.is_floating and (exponent.is_integer or base is DType.FLOAT64)
    return emitted(b, "pow", x, y) if fits else None


@Mean.export_rule(DIALECT)
def export_mean(b: Builder, *operands: Value) -> Value | None:
    total = _chained(b, "add", *operands)
    return None if total is None else emitted(b, "div", total, b.like(operands[0], len(operands)))


PNNX.having(expression=emitted, chained=_chained).export_rules("""
# Functions of the expression language, on operands of one type.
Abs -> expression("abs", x)
Acos -> expression("acos", input)
Acosh -> expression("acosh", input)
Asin -> expression("asin", input)
Asinh -> expression("asinh", input)
Atan -> expression("atan", input)
Atanh -> expression("atanh", input)
Ceil -> expression("ceil", x)
Cos -> expression("cos", input)
Cosh -> expression("cosh", input)
Erf -> expression("erf", input)
Exp -> expression("exp", input)
Floor -> expression("floor", x)
Log -> expression("log", input)
Neg -> expression("neg", x)
Reciprocal -> expression("reciprocal", x)
Round -> expression("round", x)
Sign -> expression("sign", input)
Sin -> expression("sin", input)
Sinh -> expression("sinh", input)
Sqrt -> expression("sqrt", x)
Tan -> expression("tan", input)
Add -> expression("add", a, b)
Sub -> expression("sub", a, b)
Mul -> expression("mul", a, b)
Mod -> expression("fmod" if fmod else "remainder", a, b)
BitwiseAnd -> expression("and", a, b)
BitwiseOr -> expression("or", a, b)
BitwiseXor -> expression("xor", a, b)
Max -> chained("maximum", *data_0)
Min -> chained("minimum", *data_0)
Sum -> chained("add", *data_0)
BitwiseNot -> torch.bitwise_not(input=x)
IsNaN -> torch.isnan(input=x)
""")


@IsInf.export_rule(DIALECT)
def export_isinf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value | None:
    """Export IsInf; for one sign as a comparison."""
    if detect_negative and detect_positive:
        return called(b, "torch.isinf", input=x)
    if not (detect_negative or detect_positive):
        return None
    return called(b, "torch.eq", input=x, other=b.like(x, inf if detect_positive else -inf))


def _name(b: Builder, dtype: DType) -> str | None:
    del b
    return NAMES.get(dtype)


PNNX.having(name_of=_name).export_rules("""
Cast(saturate: ignored, round_mode: ignored)
    -> name = name_of(to); name is not None: Tensor.to(input=input, copy=False, dtype=name)
""")

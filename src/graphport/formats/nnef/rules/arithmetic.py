"""Arithmetic in NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.formula import BROADCAST, RULES, term
from graphport.ir.graph import Node
from graphport.ops import registry
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import (
    Abs,
    Add,
    Cast,
    CastLike,
    Div,
    Erf,
    Floor,
    Mean,
    Mod,
    Mul,
    Pow,
    Round,
    Sign,
    Sub,
)
from graphport.ops.definitions.comparison import GreaterOrEqual, Less, Where
from graphport.ops.lowering.leading_broadcast import append_axes, emit_chain, emit_elementwise
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

BROADCAST.lower("""
add(x, y) <-> Add(*trailed(x, y))
sub(x, y) <-> Sub(*trailed(x, y))
mul(x, y) <-> Mul(*trailed(x, y))
div(x, y) <-> Div(*trailed(x, y))
min(x, y) -> Min(*trailed(x, y))
max(x, y) -> Max(*trailed(x, y))
""")
RULES.export_rules("""
Min -> chained("min", *data_0)
Max -> chained("max", *data_0)
# Two by two: not all readers broadcast in `add_n`.
Sum -> chained("add", *data_0)
""")
RULES.lower("""
pow(x, y) -> Pow(*trailed(x, y))
sqr(x) -> Mul(x, x)
rsqr(x) -> Reciprocal(Mul(x, x))
rsqrt(x) -> Reciprocal(Sqrt(x))
log2(x) -> Div(Log(x), math.log(2))
""")


@Pow.export_rule("nnef")
def export_pow(b: Builder, x: Value, y: Value) -> tuple[Value, ...] | None:
    """Export Pow: NNEF requires floats for base and exponent."""
    base, exponent = (each.dtype for each in (x, y))
    if base is None or exponent is None or not base.is_floating:
        return None
    if constant_numbers(y) == (2,) and len(b.dims(y)) <= len(b.dims(x)):
        return b.emit("sqr", x)
    if exponent.is_integer:
        numbers = None if y.storage is None or not y.is_constant else y.storage.numpy()
        fact = TensorFact(base, b.dims(y))
        y = term(b, "cast", y, fact=fact, dtype=base) if numbers is None else b.constant(numbers, base)
    return emit_elementwise(b, "pow", x, y, dtype=base)


@lower("nnef", "round")
def round_half_up(b: Builder, x: Value) -> Value:
    """Round to the nearest integer, ties upward (ONNX rounds ties to even).

    `floor(x + 0.5)` would round 0.49999997 up and be inexact for large integers because the sum is rounded. `x -
    floor(x)` is exact.
    """
    below = b(Floor, x)
    dtype = x.dtype
    goes_up = b(GreaterOrEqual, b(Sub, x, below), 0.5)
    return b(Add, below, b(Cast, goes_up, to=dtype or DType.FLOAT32))


@Round.export_rule("nnef")
def export_round(b: Builder, x: Value) -> tuple[Value, ...]:
    """Export Round with ties to even: the even neighbor is 2 * floor(floor(x) / 2 + 0.5)."""
    fact = TensorFact(DType.BOOL, b.dims(x))
    below = term(b, "floor", x)
    rest = term(b, "sub", x, below)
    even = term(b, "mul", term(b, "floor", term(b, "add", term(b, "mul", below, 0.5), 0.5)), 2.0)
    above = term(b, "select", term(b, "gt", rest, 0.5, fact=fact), term(b, "add", below, 1.0), even, fact=x.fact)
    return b.emit("select", term(b, "lt", rest, 0.5, fact=fact), below, above)


_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: its error is below 1.5e-7 everywhere."""


@Erf.export_rule("nnef")
def export_erf(b: Builder, input: Value) -> tuple[Value, ...]:
    """Export Erf: 1 - exp(-x²) * polynomial in 1 / (1 + 0.3275911 |x|), accurate to float32."""
    size = term(b, "abs", input)
    t = term(b, "rcp", term(b, "add", term(b, "mul", size, 0.3275911), 1.0))
    series = term(b, "mul", t, _ERF[4])
    for factor in _ERF[3::-1]:
        series = term(b, "mul", term(b, "add", series, factor), t)
    tail = term(b, "mul", series, term(b, "exp", term(b, "neg", term(b, "mul", input, input))))
    return b.emit("mul", term(b, "sub", 1.0, tail), term(b, "sign", input), facts=[input.fact])


_HALVES = {DType.FLOAT16: 65.0, DType.FLOAT32: 4097.0, DType.FLOAT64: 134217729.0}
"""Factors that part a number into two of half as many digits (Dekker 1971)."""


@Mod.export_rule("nnef")
def export_mod(b: Builder, a: Value, other: Value, *, fmod: int = 0) -> tuple[Value, ...] | None:
    """Export Mod as x - y * floor(x / y), corrected by one multiple where the quotient was rounded.

    If the quotient has more digits than half the mantissa, the remainder is as exact as a float product.
    """
    dtype = a.dtype
    if dtype is not None and dtype.is_integer:
        rest = b(Mod, b(Cast, a, to=DType.FLOAT32), b(Cast, other, to=DType.FLOAT32), fmod=1)
        if not fmod:
            y = b(Cast, other, to=DType.FLOAT32)
            rest = b(Where, b(Less, b(Mul, rest, y), 0.0), b(Add, rest, y), rest)
        return (b(Cast, rest, to=dtype),)
    if dtype not in _HALVES:
        return None
    quotient = b(Div, a, other)
    whole = b(Mul, b(Floor, b(Abs, quotient)), b(Sign, quotient)) if fmod else b(Floor, quotient)
    scaled = b(Mul, other, b.like(other, _HALVES[dtype]))
    high = b(Sub, scaled, b(Sub, scaled, other))
    rest = b(Sub, b(Sub, a, b(Mul, whole, high)), b(Mul, whole, b(Sub, other, high)))
    size, sign = b(Abs, other), b(Sign, a if fmod else other)
    step = b(Mul, size, sign)
    rest = b(Where, b(Less, b(Mul, rest, sign), 0.0), b(Add, rest, step), rest)
    return (b(Where, b(GreaterOrEqual, b(Abs, rest), size), b(Sub, rest, step), rest),)


@lower("nnef", "add_n")
def add_n(b: Builder, *x: Value) -> Value:
    """Add all operands."""
    if not x:
        message = "add_n without tensors"
        raise UnsupportedError(message)
    total = x[0]
    for operand in x[1:]:
        total = b(Add, *append_axes(b, total, operand))
    return total


@Mean.export_rule("nnef")
def export_mean(b: Builder, *data_0: Value) -> tuple[Value, ...]:
    """Export Mean as the sum divided by the number of operands."""
    (total,) = emit_chain(b, "add", *data_0)
    return b.emit("div", total, b.like(total, float(len(data_0))))


@lower("nnef", "copy_n")
def copy_n(b: Builder, x: Value, *, times: int) -> tuple[Value, ...]:
    """Return the operand `times` times."""
    if times < 1:
        message = f"times is {times}"
        raise ShapeError(message, "use a positive value")
    return (x,) * min(times, b.count)


@lower("nnef", "cast")
def cast(b: Builder, input: Value, *, dtype: DType) -> Value:
    """Cast to `dtype`; floats are rounded down for integer types."""
    given = input.dtype
    if dtype.is_integer and given is not None and given.is_floating:
        input = b(Floor, input)
    return b(Cast, input, to=dtype)


_DATA = {DType.FLOAT32: "f", DType.FLOAT64: "f", DType.INT64: "iu", DType.INT32: "iu", DType.BOOL: "b"}
"""Element types of NNEF, and the dtype kinds that map to them."""


@Cast.export_rule("nnef")
def export_cast(
    b: Builder, input: Value, *, round_mode: str = "up", saturate: int = 1, to: DType
) -> tuple[Value, ...] | None:
    """Export Cast between NNEF's types scalar, integer and logical; the width is a property of storage."""
    del round_mode, saturate
    dtype = input.dtype
    if dtype is None:
        return None
    numbers = None if b.before is None else folded(b.before.output)
    if numbers is not None:
        return (b.constant(numbers, name=b.stem),)
    if to in _NARROW and dtype.is_floating:
        return b.emit("cast", _wrapped(b, _truncated(b, input), to), dtype=DType.INT64)
    if to not in _DATA or dtype.kind not in "fiub":
        return None
    if dtype.kind not in _DATA[to]:
        return b.emit("cast", _truncated(b, input) if dtype.is_floating and to.is_integer else input, dtype=to)
    is_wider = to.kind == "f" or dtype.bits < to.bits or dtype is to
    return b.emit("copy", input) if is_wider or _is_index(b) else None


_NARROW = frozenset((DType.INT8, DType.UINT8, DType.INT16, DType.UINT16))
"""Integer types whose range NNEF does not enforce."""


def _wrapped(b: Builder, x: Value, to: DType) -> Value:
    """Wrap an integer to the range of a narrow type."""
    count, least = float(1 << to.bits), float(np.iinfo(to.numpy).min)
    moved = term(b, "sub", x, least) if least else x
    times = term(b, "floor", term(b, "mul", moved, 1.0 / count))
    return term(b, "sub", x, term(b, "mul", times, count))


_WHOLE = frozenset({"floor", "ceil", "Floor", "Ceil", "Round"})


def _truncated(b: Builder, x: Value) -> Value:
    """Truncate toward zero: NNEF's `cast` takes the floor."""
    if x.producer is not None and x.producer.op_type in _WHOLE:
        return x
    return term(b, "mul", term(b, "sign", x), term(b, "floor", term(b, "abs", x)))


def _is_index(b: Builder) -> bool:
    """Whether every user treats the result as an index, count or axis, so that the width does not matter."""
    b.looks_around = True
    if b.before is None or b.before.output.is_output:
        return False
    return all(isinstance(user, Node) and _counts(user, index) for user, index in b.before.output.uses)


def _counts(user: Node, index: int) -> bool:
    op_def = None if user.dialect else registry.op_defs().get(user.op_type)
    return (
        op_def is not None and index < len(op_def.signature.operands) and _name(op_def, index) in op_def.index_operands
    )


def _name(op_def: OpDef, index: int) -> str:
    return op_def.signature.operands[index].name


@CastLike.export_rule("nnef")
def export_cast_like(
    b: Builder, input: Value, target_type: Value, *, round_mode: str = "up", saturate: int = 1
) -> tuple[Value, ...] | None:
    """Export CastLike as Cast to a known type."""
    to = target_type.dtype
    return None if to is None else export_cast(b, input, round_mode=round_mode, saturate=saturate, to=to)

"""Arithmetic in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules import arithmetic as nnef
from graphport.formats.nnef.rules.tract.binding import BROADCAST, DIALECT, RULES, axis_of, import_rule, static, unified
from graphport.formats.nnef.rules.tract.rule_table import fact_like, static_integers
from graphport.formats.nnef.rules.tract.types import datum_name
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.lowering.leading_broadcast import append_axes, prepend_axes
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.shapes import broadcast

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

BROADCAST.lower("""
add(x, y) -> Add(*aligned(x, y))
sub(x, y) -> Sub(*aligned(x, y))
mul(x, y) -> Mul(*aligned(x, y))
div(x, y) -> Div(*aligned(x, y))
min(x, y) -> Min(*aligned(x, y))
max(x, y) -> Max(*aligned(x, y))
pow(x, y) -> Pow(*aligned(x, y))
tract_core_round_even(x) -> Round(x)
tract_core_erf(x) -> Erf(x)
tract_core_hard_swish(x) -> HardSwish(x)
# A connective of bits; of truths, the one of the same name.
tract_core_bitand(x, y)
    -> x, y = unified(x, y); dtype(x) is bool: And(*trailed(x, y))
    -> BitwiseAnd(*trailed(x, y))
tract_core_bitor(x, y)
    -> x, y = unified(x, y); dtype(x) is bool: Or(*trailed(x, y))
    -> BitwiseOr(*trailed(x, y))
tract_core_bitxor(x, y)
    -> x, y = unified(x, y); dtype(x) is bool: Xor(*trailed(x, y))
    -> BitwiseXor(*trailed(x, y))
""")

_LOOKED_AT = 1 << 16
"""Entries of a constant that are looked at."""
_THROUGH_REALS = (DType.INT8, DType.UINT8, DType.INT32)
"""Integers that tract takes functions of: by way of single floats, of other integers it takes none."""


def _as_float(b: Builder, x: Value) -> Value:
    """Cast integers to float32 for functions that tract applies to integers."""
    return OpBuilder(b)("Cast", x, to=DType.FLOAT32) if x.dtype in _THROUGH_REALS else x


def _in_type(b: Builder, y: Value, x: Value) -> Value:
    """Cast a float result to the type of `x`: truncated and saturated for integers."""
    dtype = x.dtype
    if dtype not in _THROUGH_REALS:
        return y
    emit = OpBuilder(b)
    return cast(b, emit("Where", emit("IsNaN", y), 0.0, y), to=datum_name(dtype) or "")


def _is_integer(_b: Builder, x: Value) -> bool:
    dtype = x.dtype
    return dtype is not None and dtype.is_integer


RULES.having(real=_as_float, in_type=_in_type, is_integer=_is_integer).lower("""
recip(x) -> in_type(Reciprocal(real(x)), x)
square, sqr(x) -> in_type(Mul(y := real(x), y), x)
exp(x) -> in_type(Exp(real(x)), x)
log(x) -> in_type(Log(real(x)), x)
sqrt(x) -> in_type(Sqrt(real(x)), x)
rsqrt(x) -> in_type(Reciprocal(Sqrt(real(x))), x)
sigmoid(x) -> in_type(Sigmoid(real(x)), x)
sin(x) -> in_type(Sin(real(x)), x)
cos(x) -> in_type(Cos(real(x)), x)
tan(x) -> in_type(Tan(real(x)), x)
asin(x) -> in_type(Asin(real(x)), x)
acos(x) -> in_type(Acos(real(x)), x)
atan(x) -> in_type(Atan(real(x)), x)
sinh(x) -> in_type(Sinh(real(x)), x)
cosh(x) -> in_type(Cosh(real(x)), x)
tanh(x) -> in_type(Tanh(real(x)), x)
asinh(x) -> in_type(Asinh(real(x)), x)
acosh(x) -> in_type(Acosh(real(x)), x)
atanh(x) -> in_type(Atanh(real(x)), x)
# Rounding leaves integers as they are.
floor(x)
    -> is_integer(x): Identity(x)
    -> Floor(x)
ceil(x)
    -> is_integer(x): Identity(x)
    -> Ceil(x)
""")


@import_rule("round")
def round_away(b: Builder, x: Value) -> Value:
    """Round to the nearest integer, ties away from zero."""
    emit = OpBuilder(b)
    own = x.dtype
    if own is not None and own.is_integer:
        return emit("Identity", x)
    size = emit("Abs", x)
    below = emit("Floor", size)
    dtype = x.dtype or DType.FLOAT32
    above = emit("Cast", emit("GreaterOrEqual", emit("Sub", size, below), 0.5), to=dtype)
    return emit("Mul", emit("Add", below, above), emit("Sign", x))


@import_rule("tract_core_cast")
def cast(b: Builder, input: Value, *, to: str = "") -> Value:
    """Cast to another type; an unknown target keeps the type of the result's fact."""
    from graphport.formats.nnef.rules.tract.types import datum

    emit = OpBuilder(b)
    dtype = datum(to)
    own = input.dtype
    if dtype is None or dtype is own:
        return emit("Identity", input)
    known = static(input)
    if known is not None and dtype.is_floating and not input.is_constant:
        # Known integers are kept: dims may be computed from them.
        shape = [dim for dim in b.dims(input) if isinstance(dim, int)]
        return b.constant(np.array(known, np.float64).reshape(shape), dtype)
    if dtype.is_integer and not input.is_constant and (storage := folded(input)) is not None and storage.count == 1:
        input = b.constant(storage)
    if dtype.is_integer and own is not None and own.is_floating and dtype is not DType.INT64:
        limits = np.iinfo(dtype.numpy)
        if dtype is DType.UINT64:
            return emit("Cast", emit("Max", input, 0.0), to=dtype)
        low, high = (b.like(input, float(x)) for x in (limits.min, limits.max))
        wide = emit("Cast", emit("Clip", input, low, high), to=DType.INT64)
        if not _is_exact(limits.max, own):
            # The limit is the next real up. Reals are compared, for ONNX Runtime 1.31 is wrong in Min of long integers.
            wide = emit("Where", emit("GreaterOrEqual", input, high), int(limits.max), wide)
        return emit("Cast", wide, to=dtype)
    return emit("Cast", input, to=dtype)


def _is_exact(number: int, dtype: DType) -> bool:
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(number)) == number


RULES.lower("""
tract_core_pow_const(input, *, exponent: float) -> Pow(input, exponent)
tract_core_bitnot(input)
    -> dtype(input) is bool: Not(input)
    -> BitwiseNot(input)
""")


@import_rule("tract_shl", "tract_shr")
def shift(b: Builder, x: Value, y: Value) -> Value:
    """Shift bits left or right; right shifts are arithmetic."""
    emit = OpBuilder(b)
    left, right = append_axes(b, *unified(b, x, y))
    to = DType.UINT64
    right = _within_width(b, left, right)
    if b.before is None or b.before.op_type == "tract_shl":
        moved = emit("BitShift", emit("Cast", left, to=to), emit("Cast", right, to=to), direction="LEFT")
        return emit("CastLike", moved, left)
    # Arithmetic shift: negative numbers are complemented before and after.
    dtype = left.dtype
    is_signed = dtype is not None and dtype.kind == "i"
    sign = emit("Where", emit("Less", left, 0), b.like(left, -1), b.like(left, 0)) if is_signed else None
    bits = left if sign is None else emit("BitwiseXor", left, sign)
    moved = emit("BitShift", emit("Cast", bits, to=to), emit("Cast", right, to=to), direction="RIGHT")
    moved = emit("CastLike", moved, left)
    return moved if sign is None else emit("BitwiseXor", moved, sign)


def _within_width(b: Builder, x: Value, y: Value) -> Value:
    """Return the shift amount modulo the bit width, as tract computes it."""
    dtype = x.dtype
    if dtype is None or _is_below(y, dtype.bits):
        return y
    return OpBuilder(b)("BitwiseAnd", y, b.like(y, dtype.bits - 1))


def _is_below(y: Value, limit: int) -> bool:
    """Whether all shift amounts are constants below `limit`."""
    if y.storage is None or not y.is_constant or y.storage.count > _LOOKED_AT:
        return False
    numbers = y.storage.numpy()
    return bool(((numbers >= 0) & (numbers < limit)).all())


@import_rule("tract_core_cumsum", "tract_pulse_cumsum")
def cumsum(
    b: Builder, input: Value, *, axis: int, exclusive: bool = False, reverse: bool = False, skip: int = 0
) -> Value:
    """Cumulative sum along an axis; the first `skip` elements count as 0."""
    place = axis_of(axis, len(b.dims(input)))
    if skip:
        kept = b.dims(input)[place]
        if not isinstance(kept, int):
            message = "the first elements of an axis of unknown length are skipped"
            raise UnsupportedError(message)
        seen = (np.arange(kept) >= skip).reshape([-1 if at == place else 1 for at in range(len(b.dims(input)))])
        input = OpBuilder(b)("Where", b.constant(seen), input, b.like(input, 0.0))
    return OpBuilder(b)(
        "CumSum", input, b.constant(np.array(place, np.int64)), exclusive=int(exclusive), reverse=int(reverse)
    )


@import_rule("quantized_bias")
def quantized_bias(b: Builder, bias: Value, *, scale: float) -> Value:
    """Dequantize the integer bias of a quantized layer by the product of its scales."""
    dtype = bias.dtype
    if dtype is None or dtype.is_floating:
        return bias
    emit = OpBuilder(b)
    return emit("Mul", emit("Cast", bias, to=DType.FLOAT32), scale)


# Export rules


def _first_result(rule: Callable[..., Any]) -> Callable[..., Value]:
    return lambda b, *operands: rule(b, *operands)[0]


RULES.having(
    round_of_doubles=_first_result(nnef.export_round), erf_of_doubles=_first_result(nnef.export_erf)
).export_rules("""
BitwiseNot -> tract_core_bitnot(x)
# tract knows these of other reals alone.
Round
    -> is_double(x): round_of_doubles(x)
    -> tract_core_round_even(x)
Erf
    -> is_double(input): erf_of_doubles(input)
    -> tract_core_erf(input)
HardSwish
    -> is_double(x): Mul(x, HardSigmoid(x, alpha=1 / 6, beta=0.5))
    -> tract_core_hard_swish(x)
""")
BROADCAST.export_rules("""
BitwiseAnd -> tract_core_bitand(a, b)
BitwiseOr -> tract_core_bitor(a, b)
BitwiseXor -> tract_core_bitxor(a, b)
""")


RULES.having(datum=lambda _, dtype: datum_name(dtype)).export_rules("""
Cast(round_mode: ignored, saturate: ignored)
    -> name = datum(to); name is not None: tract_core_cast(input, to=name)
CastLike(round_mode: ignored, saturate: ignored)
    -> name = datum(dtype(target_type)); name is not None: tract_core_cast(input, to=name)
""")


_FARTHEST = 256
"""So many values are looked at that a factor is computed of."""


@export_rule(DIALECT, "Mul")
def export_mul(b: Builder, x: Value, other: Value) -> Any:
    """Export Mul of integers that may be equal as `x * (y - 1) + x`: tract computes squares in float.

    tract detects equality itself, also through reshapes and additions of 0.
    """
    if not _is_integer(b, x) or not _may_be_same(b, x, other) or _subtracts_one(other):
        return None
    emit = OpBuilder(b)
    return (emit("Add", emit("Mul", x, emit("Sub", other, 1)), x),)


def _may_be_same(b: Builder, x: Value, y: Value) -> bool:
    """Whether two values of one shape depend on a common value; extents, which tract tracks by symbols, never do."""
    are_extents = any(isinstance(value.fact, TensorFact) and value.fact.elements is not None for value in (x, y))
    return not are_extents and b.dims(x) == b.dims(y) and not _computed_of(x).isdisjoint(_computed_of(y))


def _computed_of(value: Value) -> set[Value]:
    """Return the value and everything it is computed from, without constants."""
    found: set[Value] = set()
    pending = [value]
    while pending and len(found) < _FARTHEST:
        one = pending.pop()
        if one not in found and not one.is_constant:
            found.add(one)
            pending += [] if one.producer is None else one.producer.operands
    return found


def _subtracts_one(value: Value) -> bool:
    """Whether the value is some value minus 1, as in the result of `export_mul`."""
    one = value.producer
    if one is None or one.op_type not in ("sub", "Sub") or len(one.operands) != 2:
        return False
    number = folded(one.operands[1])
    return number is not None and bool((number.numpy() == 1).all())


@export_rule(DIALECT, "Mod")
def export_mod(b: Builder, a: Value, other: Value, *, fmod: int = 0) -> Any:
    """Export Mod: a - b * floor(a / b), truncated instead with `fmod`; integers are computed in float64."""
    dtype = a.dtype
    if dtype is None or not dtype.is_integer:
        return nnef.export_mod(b, a, other, fmod=fmod)
    wide = DType.FLOAT64
    x, y = (b.emit("tract_core_cast", v, facts=[fact_like(v, wide)], to="f64")[0] for v in (a, other))
    fact = TensorFact(wide, broadcast(b.dims(a), b.dims(other)))
    x, y = prepend_axes(b, x, y)
    quotient = b.emit("div", x, y, facts=[fact])[0]
    if fmod:
        size = b.emit("floor", b.emit("abs", quotient, facts=[fact])[0], facts=[fact])[0]
        whole = b.emit("mul", size, b.emit("sign", quotient, facts=[fact])[0], facts=[fact])[0]
    else:
        whole = b.emit("floor", quotient, facts=[fact])[0]
    rest = b.emit("sub", x, b.emit("mul", whole, y, facts=[fact])[0], facts=[fact])
    return b.emit("tract_core_cast", rest[0], to=datum_name(dtype) or "i64")


@export_rule(DIALECT, "CumSum")
def export_cumsum(b: Builder, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Any:
    known = static_integers(axis)
    if not known:
        return None
    place = known[0] % len(b.dims(x))
    return b.emit("tract_core_cumsum", x, axis=place, exclusive=bool(exclusive), reverse=bool(reverse))


@export_rule(DIALECT, "BitShift")
def export_shift(b: Builder, x: Value, y: Value, *, direction: str) -> Any:
    """Export BitShift: tract uses only the low bits of a shift amount, so amounts above the width give 0."""
    dtype = x.dtype
    if dtype is None:
        return None
    name = "tract_shl" if direction == "LEFT" else "tract_shr"
    fact = TensorFact(dtype, broadcast(b.dims(x), b.dims(y)))
    left, right = prepend_axes(b, x, y)
    moved = b.emit(name, left, right, facts=[fact])
    if _is_below(y, dtype.bits):
        return moved
    width, zero = (b.constant(np.full([1] * len(fact.dims), n, dtype.numpy)) for n in (dtype.bits, 0))
    inside = b.emit("lt", right, width, facts=[TensorFact(DType.BOOL, b.dims(right))])[0]
    return b.emit("select", inside, moved[0], zero)

"""Arithmetic in OpenVINO."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_cast, renamed, wrapping
from graphport.ops.constant_folding import Widened
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Cast, CastLike, Pow
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import cast, dtype_of

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported

_MOST_SEEN = 64


def _folded(b: Builder, op_type: str, operands: tuple[Value, ...]) -> Value:
    """Fold a variadic operator into a chain of binary ones.

    Raises:
        UnsupportedError: there are no operands.
    """
    if not operands:
        message = f"{op_type} has no inputs"
        raise UnsupportedError(message)
    return renamed(b, operands[0]) if len(operands) == 1 else reduce(partial(emit, b, op_type), operands)


def _is_decided(_b: Builder, x: Value) -> bool:
    """Whether a value depends only on constants and static facts; false after `_MOST_SEEN` values."""
    waiting, seen = [x], {x}
    while waiting:
        value = waiting.pop()
        elements = value.fact.elements if isinstance(value.fact, TensorFact) else None
        if value.storage is not None or elements is not None:
            continue
        if value.producer is None or value.producer.has_bodies or len(seen) > _MOST_SEEN:
            return False
        new = {operand for operand in value.producer.operands if operand not in seen}
        seen |= new
        waiting += new
    return True


def _unsigned(_b: Builder, x: Value) -> DType:
    """Return the unsigned type of equal width; uint32 for 16 bits, because ONNX Runtime does not shift uint16."""
    dtype = dtype_of(x)
    if not dtype.is_integer:
        message = f"bits of {dtype} cannot be shifted"
        raise ShapeError(message, "expected integers")
    return DType.of(f"uint{32 if dtype.bits == 16 else dtype.bits}")


RULES.having(unsigned=_unsigned).lower("""
opset1.Acos, opset1.Asin, opset1.Atan, opset1.Cos, opset1.Cosh, opset1.Erf, opset1.Exp, opset1.Log, opset1.Sin,
    opset1.Sinh, opset1.Sqrt, opset1.Tan, opset4.Acosh, opset4.Asinh, opset4.Atanh(x) -> rounded(_(real(x)), x)
opset1.Abs(x) -> Abs(x)
opset1.Maximum(x, y) -> Max(x, y)
opset1.Minimum(x, y) -> Min(x, y)
opset1.SquaredDifference(x, y) -> Mul(gap := Sub(x, y), gap)
# Of integers rounded down, or toward zero where Python's rule is switched off.
opset1.Divide(x, y, *, m_pythondiv=True)
    -> quotient = Div(x, y); not m_pythondiv or kind(x) != "i": quotient
    -> Sub(quotient, cast(And(Not(Equal(Mul(quotient, y), x)), Xor(Less(x, 0), Less(y, 0))), dtype(x)))
opset1.Mod(x, y) -> Mod(x, y, fmod=1)
# The rest of a division that rounds down, which has the sign of `y`.
opset1.FloorMod(x, y)
    -> not is_floating(x): Mod(x, y)
    -> rest = Mod(x, y, fmod=1); Where(And(Xor(Less(rest, 0), Less(y, 0)), Not(Equal(rest, 0))), Add(rest, y), rest)
# Roundings leave integers alone.
opset1.Floor(x)
    -> is_floating(x): Floor(x)
    -> Identity(x)
opset1.Ceiling(x)
    -> is_floating(x): Ceil(x)
    -> Identity(x)
opset5.Round(x, *, mode="half_to_even")
    -> not is_floating(x): Identity(x)
    -> mode == "half_to_even": Round(x)
    # Adding a half would round 0.49999997 up: what is left above the floor is exact.
    -> size = Abs(x); below = Floor(size); Mul(Sign(x), Add(below, cast(Not(Less(Sub(size, below), 0.5)), dtype(x))))
opset13.BitwiseAnd(x, y)
    -> dtype(x) is bool: And(x, y)
    -> BitwiseAnd(x, y)
opset13.BitwiseOr(x, y)
    -> dtype(x) is bool: Or(x, y)
    -> BitwiseOr(x, y)
opset13.BitwiseXor(x, y)
    -> dtype(x) is bool: Xor(x, y)
    -> BitwiseXor(x, y)
opset13.BitwiseNot(x)
    -> dtype(x) is bool: Not(x)
    -> BitwiseNot(x)
opset15.BitwiseLeftShift(x, y)
    -> wide = unsigned(x); cast(BitShift(cast(x, wide), cast(y, wide), direction="LEFT"), dtype(x))
# Of a negative number, ones follow.
opset15.BitwiseRightShift(x, y)
    -> wide = unsigned(x); kind(x) == "u": cast(BitShift(cast(x, wide), cast(y, wide), direction="RIGHT"), dtype(x))
    -> is_negative = Less(x, 0); bits = cast(Where(is_negative, BitwiseNot(x), x), wide);
       moved = cast(BitShift(bits, cast(y, wide), direction="RIGHT"), dtype(x));
       Where(is_negative, BitwiseNot(moved), moved)
""")
RULES.having(
    folded=_folded, length=lambda _b, operands: float(len(operands)), is_decided=_is_decided, wrapping=wrapping
).export_rules("""
Add -> wrapping("opset1.Add", a, b)
Sub -> wrapping("opset1.Subtract", a, b)
Mul -> wrapping("opset1.Multiply", a, b)
Neg -> wrapping("opset1.Negative", x)
# OpenVINO 2026.4 rounds quotients of bytes where extents are open.
Div
    -> is_floating(a): opset1.Divide(a, b)
    -> wrapping("opset1.Divide", a, b, m_pythondiv=False)
# It drops `Abs` of what constants and shapes decide, also where it is negative.
Abs
    -> is_decided(x): opset1.Maximum(x, opset1.Negative(x))
    -> wrapping("opset1.Abs", x)
Max -> folded("opset1.Maximum", data_0)
Min -> folded("opset1.Minimum", data_0)
Sum -> folded("opset1.Add", data_0)
Mean -> opset1.Divide(folded("opset1.Add", data_0), length(data_0))
Reciprocal -> opset1.Divide(like(x, 1), x)
Mod
    -> fmod: opset1.Mod(a, b)
    -> opset1.FloorMod(a, b)
Floor -> opset1.Floor(x)
Ceil -> opset1.Ceiling(x)
Round -> opset5.Round(x, mode="half_to_even")
BitShift
    -> direction == "LEFT": opset15.BitwiseLeftShift(x, y)
    -> opset15.BitwiseRightShift(x, y)
BitwiseAnd -> opset13.BitwiseAnd(a, b)
BitwiseOr -> opset13.BitwiseOr(a, b)
BitwiseXor -> opset13.BitwiseXor(a, b)
BitwiseNot -> opset13.BitwiseNot(x)
""")


@lower("openvino", "opset1.Power")
def power(b: Builder, x: Value, y: Value) -> Value:
    """`x` to the power `y`."""
    dtype = x.dtype
    if dtype is None or dtype.is_floating or dtype in (DType.INT32, DType.INT64):
        return b(Pow, x, y)
    return cast(b, b(Pow, cast(b, x, DType.INT64), y), dtype)


@Pow.export_rule("openvino")
def export_pow(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
    """Export Pow. OpenVINO needs one type: int ** float is computed as float and truncated; else `y` is cast."""
    base, exponent = dtype_of(x), dtype_of(y)
    if base is exponent:
        return b.emit("opset1.Power", x, y)
    if base.is_floating or not exponent.is_floating:
        return b.emit("opset1.Power", x, emitted_cast(b, y, base))
    return (emitted_cast(b, emit(b, "opset1.Power", emitted_cast(b, x, exponent), y), base),)


@lower("openvino", "opset1.Convert")
def convert(b: Builder, x: Value, *, destination_type: DType | str | None = None) -> Value:
    """`x` in another element type."""
    if not isinstance(destination_type, DType):
        message = f"unsupported element type {destination_type or 'dynamic'}"
        raise UnsupportedError(message)
    own = x.dtype
    if own in _UNCONVERTED and x.storage is not None:
        return b.constant(Widened(x.storage, destination_type))
    return b(Identity, x) if own is destination_type else b(Cast, x, to=destination_type)


_UNCONVERTED = frozenset({DType.FLOAT4E2M1, DType.FLOAT8E8M0})
"""Element types of compressed weights that no runtime of ONNX converts."""

_FOREIGN = frozenset(
    {DType.COMPLEX64, DType.COMPLEX128, DType.STRING, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2FNUZ, DType.INT2}
)
"""Element types that OpenVINO has not, or does not convert."""


@Cast.export_rule("openvino")
def export_cast(b: Builder, input: Value, *, round_mode: str = "up", saturate: int = 1, to: DType) -> Exported:
    del round_mode
    dtype = dtype_of(input)
    if to in _FOREIGN or dtype in _FOREIGN:
        message = f"unsupported element type {to if to in _FOREIGN else dtype}"
        raise UnsupportedError(message)
    if not saturate:
        return None
    if to in _SATURATED and dtype.is_floating:
        # Saturate to the largest finite number, but keep NaN.
        limit = _SATURATED[to]
        clipped = emit(b, "opset1.Clamp", input, min=-limit, max=limit)
        input = emit(b, "opset1.Select", emit(b, "opset10.IsNaN", input), input, clipped)
    return b.emit("opset1.Convert", input, destination_type=to)


_SATURATED = {DType.FLOAT8E4M3FN: 448.0, DType.FLOAT8E5M2: 57344.0}


@lower("openvino", "opset1.ConvertLike")
def convert_like(b: Builder, x: Value, like: Value) -> Value:
    """`x` in the element type of `like`."""
    dtype = like.dtype
    return b(CastLike, x, like) if dtype is None else cast(b, x, dtype)


@CastLike.export_rule("openvino")
def export_cast_like(
    b: Builder, input: Value, target_type: Value, *, round_mode: str = "up", saturate: int = 1
) -> Exported:
    return export_cast(b, input, round_mode=round_mode, saturate=saturate, to=dtype_of(target_type))


@lower("openvino", "opset14.ConvertPromoteTypes")
def convert_promote_types(
    b: Builder,
    x: Value,
    y: Value,
    *,
    promote_unsafe: bool = False,
    pytorch_scalar_promotion: bool = False,
    u64_integer_promotion_target: DType = DType.FLOAT32,
) -> tuple[Value, Value]:
    """Cast both operands to a common element type."""
    del promote_unsafe
    types = dtype_of(x), dtype_of(y)
    if pytorch_scalar_promotion and types[0] is not types[1]:
        scalars = not b.dims(x), not b.dims(y)
        if scalars[0] != scalars[1]:
            types = _scalar_yields(types, scalars)
    common = promoted(*types, u64_integer_promotion_target)
    return cast(b, x, common), cast(b, y, common)


def _scalar_yields(types: tuple[DType, DType], scalars: tuple[bool, bool]) -> tuple[DType, DType]:
    """Return the types to cast to: both the tensor's, unless the scalar is of a higher kind (bool < int < float)."""
    number, tensor = types if scalars[0] else types[::-1]
    if _rank_of(number) <= _rank_of(tensor):
        return tensor, tensor
    return number, tensor


def _rank_of(dtype: DType) -> int:
    return {"b": 0, "u": 1, "i": 1, "f": 2}.get(dtype.kind, 3)


def promoted(x: DType, y: DType, u64_target: DType = DType.FLOAT32) -> DType:
    """Return the element type to which OpenVINO promotes a pair of types.

    Raises:
        UnsupportedError: there is none.
    """
    if x is y:
        return x
    if "b" in (x.kind, y.kind):
        return y if x.kind == "b" else x
    if x.is_floating and y.is_floating:
        if x.bits == y.bits:
            return DType.of(f"float{min(2 * x.bits, 64)}")
        return x if x.bits > y.bits else y
    if x.is_floating or y.is_floating:
        return x if x.is_floating else y
    if x.kind == y.kind:
        return x if x.bits > y.bits else y
    signed, unsigned = (x, y) if x.kind == "i" else (y, x)
    if unsigned.bits >= 64:
        return u64_target
    return DType.of(f"int{max(signed.bits, 2 * unsigned.bits)}")

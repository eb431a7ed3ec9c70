"""Arithmetic in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import UnsupportedError, lift, lower
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.openvino.emitting import renamed
from graphport.ops.dialects.operands import cast, dtype_of
from graphport.ops.folded import Widened
from graphport.ops.pages.arithmetic import (
    Abs,
    Add,
    BitShift,
    BitwiseNot,
    Cast,
    CastLike,
    Ceil,
    Div,
    Floor,
    Max,
    Mean,
    Min,
    Mod,
    Mul,
    Neg,
    Pow,
    Round,
    Sign,
    Sub,
    Sum,
)
from graphport.ops.pages.comparison import And, Equal, Less, Not, Where, Xor
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

_MOST_SEEN = 64
Lifted: TypeAlias = "tuple[Value, ...] | None"


def _chained(page: Page, word: str) -> None:
    """A binary word for a page that takes any number of operands."""

    @lower("openvino", word)
    def lowered(b: Builder, x: Value, y: Value) -> Value:
        return b(page, x, y)

    @lift("openvino", page.name)
    def lifted(b: Builder, *data_0: Value) -> tuple[Value, ...]:
        return _folded(b, word, data_0)


def _folded(b: Builder, word: str, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    if not operands:
        message = f"{word} of nothing"
        raise UnsupportedError(message)
    if len(operands) == 1:
        return (renamed(b, operands[0]),)
    total = operands[0]
    for operand in operands[1:]:
        total = emit(b, word, total, operand)
    return (total,)


_chained(Max, "opset1.Maximum")
_chained(Min, "opset1.Minimum")


def wrapped(b: Builder, word: str, *operands: Value, **attributes: Attribute) -> Lifted:
    """Bytes computed in 32 bits, for OpenVINO 2026.4 saturates what ONNX lets wrap; `None` of other types."""
    fact = operands[0].fact
    dtype = fact.dtype if isinstance(fact, TensorFact) else None
    if dtype not in (DType.INT8, DType.UINT8):
        return None
    wide = emit(b, word, *(emitted_cast(b, x, DType.INT32) for x in operands), **attributes)
    facts = [TensorFact(dtype, wide.fact.shape if isinstance(wide.fact, TensorFact) else None)]
    return b.word("opset1.Convert", wide, facts=facts, destination_type=dtype)


@Add.lift("openvino")
def lift_add(b: Builder, x: Value, y: Value) -> Lifted:
    return wrapped(b, "opset1.Add", x, y)


@Sub.lift("openvino")
def lift_sub(b: Builder, x: Value, y: Value) -> Lifted:
    return wrapped(b, "opset1.Subtract", x, y)


@Mul.lift("openvino")
def lift_mul(b: Builder, x: Value, y: Value) -> Lifted:
    return wrapped(b, "opset1.Multiply", x, y)


@Div.lift("openvino")
def lift_div(b: Builder, x: Value, y: Value) -> Lifted:
    """OpenVINO 2026.4 rounds quotients of bytes where extents are open."""
    if dtype_of(x).is_floating:
        return b.word("opset1.Divide", x, y)
    in_bytes = wrapped(b, "opset1.Divide", x, y, m_pythondiv=False)
    return in_bytes or b.word("opset1.Divide", x, y, m_pythondiv=False)


@Neg.lift("openvino")
def lift_neg(b: Builder, x: Value) -> Lifted:
    return wrapped(b, "opset1.Negative", x)


ROWS.lower("""
opset1.Abs(x) -> Abs(x)
opset1.Mod(x, y) -> Mod(x, y, fmod=1)
opset1.SquaredDifference(x, y) -> Mul(gap := Sub(x, y), gap)
""")


@Abs.lift("openvino")
def lift_abs(b: Builder, x: Value) -> tuple[Value, ...]:
    """OpenVINO 2026.4 drops `Abs` of what constants and shapes decide, also where it is negative."""
    if not _is_decided(x):
        return wrapped(b, "opset1.Abs", x) or b.word("opset1.Abs", x)
    return b.word("opset1.Maximum", x, emit(b, "opset1.Negative", x))


def _is_decided(x: Value) -> bool:
    """Whether constants and shapes alone decide a value, as far as that is seen at once."""
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


@Sum.lift("openvino")
def lift_sum(b: Builder, *data_0: Value) -> tuple[Value, ...]:
    return _folded(b, "opset1.Add", data_0)


@Mean.lift("openvino")
def lift_mean(b: Builder, *data_0: Value) -> tuple[Value, ...]:
    (total,) = _folded(b, "opset1.Add", data_0)
    return (emit(b, "opset1.Divide", total, float(len(data_0))),)


ROWS.lift("""
Reciprocal -> opset1.Divide(like(x, 1), x)
Mod
    -> fmod: opset1.Mod(a, b)
    -> opset1.FloorMod(a, b)
Round -> opset5.Round(x, mode="half_to_even")
BitShift
    -> direction == "LEFT": opset15.BitwiseLeftShift(x, y)
    -> opset15.BitwiseRightShift(x, y)
""")


@lower("openvino", "opset1.Divide")
def divide(b: Builder, x: Value, y: Value, *, m_pythondiv: bool = True) -> Value:
    """The quotient; of integers rounded down, or toward zero where Python's rule is switched off."""
    quotient = b(Div, x, y)
    dtype = dtype_of(x)
    if not m_pythondiv or dtype.kind != "i":
        return quotient
    zero = b.like(x, 0)
    is_inexact = b(Not, b(Equal, b(Mul, quotient, y), x))
    is_negative = b(Xor, b(Less, x, zero), b(Less, y, zero))
    return b(Sub, quotient, b(Cast, b(And, is_inexact, is_negative), to=dtype))


@lower("openvino", "opset1.FloorMod")
def floor_mod(b: Builder, x: Value, y: Value) -> Value:
    """The rest of a division that rounds down; it has the sign of `y`."""
    if not dtype_of(x).is_floating:
        return b(Mod, x, y)
    rest, zero = b(Mod, x, y, fmod=1), b.like(x, 0)
    differs = b(Xor, b(Less, rest, zero), b(Less, y, zero))
    return b(Where, b(And, differs, b(Not, b(Equal, rest, zero))), b(Add, rest, y), rest)


@lower("openvino", "opset1.Power")
def power(b: Builder, x: Value, y: Value) -> Value:
    """`x` to the power `y`."""
    dtype = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    if dtype is None or dtype.is_floating or dtype in (DType.INT32, DType.INT64):
        return b(Pow, x, y)
    return cast(b, b(Pow, cast(b, x, DType.INT64), y), dtype)


@Pow.lift("openvino")
def lift_pow(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
    """Both operands have one type there: an integer to a real power is a real that is cut off."""
    base, exponent = dtype_of(x), dtype_of(y)
    if base is exponent:
        return b.word("opset1.Power", x, y)
    if base.is_floating or not exponent.is_floating:
        return b.word("opset1.Power", x, emitted_cast(b, y, base))
    return (emitted_cast(b, emit(b, "opset1.Power", emitted_cast(b, x, exponent), y), base),)


def _exact_for_integers(page: Page, word: str) -> None:
    """A rounding, which leaves integers alone."""

    @lower("openvino", word)
    def lowered(b: Builder, x: Value) -> Value:
        return b(page, x) if dtype_of(x).is_floating else b(Identity, x)

    @lift("openvino", page.name)
    def lifted(b: Builder, x: Value) -> tuple[Value, ...]:
        return b.word(word, x)


_exact_for_integers(Floor, "opset1.Floor")
_exact_for_integers(Ceil, "opset1.Ceiling")


@lower("openvino", "opset5.Round")
def rounded(b: Builder, x: Value, *, mode: str = "half_to_even") -> Value:
    """The nearest integer; halves to the even one, or away from zero."""
    if not dtype_of(x).is_floating:
        return b(Identity, x)
    if mode == "half_to_even":
        return b(Round, x)
    # Adding a half would round 0.49999997 up: what is left above the floor is exact.
    size = b(Abs, x)
    below = b(Floor, size)
    goes_up = b(Not, b(Less, b(Sub, size, below), b.like(x, 0.5)))
    return b(Mul, b(Sign, x), b(Add, below, b(Cast, goes_up, to=dtype_of(x))))


@lower("openvino", "opset1.Convert")
def convert(b: Builder, x: Value, *, destination_type: DType | str | None = None) -> Value:
    """`x` in another element type."""
    if not isinstance(destination_type, DType):
        message = f"there is no element type {destination_type or 'dynamic'}"
        raise UnsupportedError(message)
    own = x.fact.dtype if isinstance(x.fact, TensorFact) else None
    if own in _UNCONVERTED and x.storage is not None:
        return b.constant(Widened(x.storage, destination_type))
    return b(Identity, x) if own is destination_type else b(Cast, x, to=destination_type)


_UNCONVERTED = frozenset({DType.FLOAT4E2M1, DType.FLOAT8E8M0})
"""Element types of compressed weights that no runtime of ONNX converts."""

_FOREIGN = frozenset(
    {
        DType.COMPLEX64,
        DType.COMPLEX128,
        DType.STRING,
        DType.FLOAT8E4M3FNUZ,
        DType.FLOAT8E5M2FNUZ,
        DType.INT2,
    }
)
"""Element types that OpenVINO has not, or does not convert."""


@Cast.lift("openvino")
def lift_cast(b: Builder, input: Value, *, round_mode: str = "up", saturate: int = 1, to: DType) -> Lifted:
    del round_mode
    dtype = dtype_of(input)
    if to in _FOREIGN or dtype in _FOREIGN:
        message = f"there is no element type {to if to in _FOREIGN else dtype}"
        raise UnsupportedError(message)
    if not saturate:
        return None
    if to in _SATURATED and dtype.is_floating:
        # What does not fit becomes the largest number there, and stays what it is no number.
        limit = _SATURATED[to]
        clipped = emit(b, "opset1.Clamp", input, min=-limit, max=limit)
        input = emit(b, "opset1.Select", emit(b, "opset10.IsNaN", input), input, clipped)
    return b.word("opset1.Convert", input, destination_type=to)


_SATURATED = {DType.FLOAT8E4M3FN: 448.0, DType.FLOAT8E5M2: 57344.0}


def emitted_cast(b: Builder, x: Value, to: DType) -> Value:
    """`x` in another element type, said inside a lifting; itself if it has that."""
    if dtype_of(x) is to:
        return x
    fact = x.fact if isinstance(x.fact, TensorFact) else TensorFact(None, None)
    is_exact = to.is_integer and dtype_of(x).is_integer
    facts = [TensorFact(to, fact.shape, fact.elements if is_exact else None)]
    return b.word("opset1.Convert", x, facts=facts, destination_type=to)[0]


@lower("openvino", "opset1.ConvertLike")
def convert_like(b: Builder, x: Value, like: Value) -> Value:
    """`x` in the element type of `like`."""
    dtype = like.fact.dtype if isinstance(like.fact, TensorFact) else None
    return b(CastLike, x, like) if dtype is None else cast(b, x, dtype)


@CastLike.lift("openvino")
def lift_cast_like(
    b: Builder, input: Value, target_type: Value, *, round_mode: str = "up", saturate: int = 1
) -> Lifted:
    return lift_cast(b, input, round_mode=round_mode, saturate=saturate, to=dtype_of(target_type))


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
    """Both operands in one element type that holds the numbers of both."""
    del promote_unsafe
    types = dtype_of(x), dtype_of(y)
    if pytorch_scalar_promotion and types[0] is not types[1]:
        scalars = not b.dims(x), not b.dims(y)
        if scalars[0] != scalars[1]:
            types = _scalar_yields(types, scalars)
    common = promoted(*types, u64_integer_promotion_target)
    return cast(b, x, common), cast(b, y, common)


def _scalar_yields(types: tuple[DType, DType], scalars: tuple[bool, bool]) -> tuple[DType, DType]:
    """A number takes the type of the tensor beside it, unless it is of a higher kind."""
    number, tensor = types if scalars[0] else types[::-1]
    if _rank_of(number) <= _rank_of(tensor):
        return tensor, tensor
    return number, tensor


def _rank_of(dtype: DType) -> int:
    return {"b": 0, "u": 1, "i": 1, "f": 2}.get(dtype.kind, 3)


def promoted(x: DType, y: DType, u64_target: DType = DType.FLOAT32) -> DType:
    """The element type that OpenVINO promotes two to.

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


ROWS.lower("""
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
""")
ROWS.lift("""
BitwiseAnd -> opset13.BitwiseAnd(a, b)
BitwiseOr -> opset13.BitwiseOr(a, b)
BitwiseXor -> opset13.BitwiseXor(a, b)
BitwiseNot -> opset13.BitwiseNot(x)
""")


def _unsigned(dtype: DType) -> DType:
    """The type without a sign that holds the bits; ONNX Runtime shifts none of sixteen."""
    return DType.of("uint32" if dtype.bits == 16 else f"uint{dtype.bits}")


@lower("openvino", "opset15.BitwiseLeftShift")
def left_shift(b: Builder, x: Value, y: Value) -> Value:
    """The bits of `x` moved up; what leaves is lost."""
    dtype = dtype_of(x)
    wide = _unsigned(dtype)
    return cast(b, b(BitShift, cast(b, x, wide), cast(b, y, wide), direction="LEFT"), dtype)


@lower("openvino", "opset15.BitwiseRightShift")
def right_shift(b: Builder, x: Value, y: Value) -> Value:
    """The bits of `x` moved down; of a negative number, ones follow."""
    dtype = dtype_of(x)
    wide = _unsigned(dtype)
    if dtype.kind == "u":
        return cast(b, b(BitShift, cast(b, x, wide), cast(b, y, wide), direction="RIGHT"), dtype)
    is_negative = b(Less, x, b.like(x, 0))
    bits = b(Where, is_negative, b(BitwiseNot, x), x)
    moved = cast(b, b(BitShift, cast(b, bits, wide), cast(b, y, wide), direction="RIGHT"), dtype)
    return b(Where, is_negative, b(BitwiseNot, moved), moved)

"""The kernels of programs in LLVM code, for every element type that is compiled."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.expression.fused import mathematics
from graphport.expression.fused.vector import BITS, Block, Vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Unary = Callable[[Block, Vector], Vector]
    Binary = Callable[[Block, Vector, Vector], Vector]

ELEMENTS: Mapping[DType, str] = MappingProxyType(
    {
        DType.BOOL: "i8",
        DType.UINT8: "i8",
        DType.INT8: "i8",
        DType.UINT16: "i16",
        DType.INT16: "i16",
        DType.UINT32: "i32",
        DType.INT32: "i32",
        DType.UINT64: "i64",
        DType.INT64: "i64",
        DType.FLOAT16: "half",
        DType.BFLOAT16: "i16",
        DType.FLOAT32: "float",
        DType.FLOAT64: "double",
    }
)
"""How element types lie in vectors; bfloat16 by its bits, bool as 0 and 1."""

_ZERO_DIVISORS = frozenset({"floor_divide", "remainder", "fmod"})


def is_compiled(kernel: str, dtype: DType) -> bool:
    """Whether there is code for `kernel` on arguments of type `dtype`."""
    if dtype not in ELEMENTS:
        return False
    if kernel == "copy":
        return True
    table = _TABLES.get(dtype.kind)
    return table is not None and kernel in table and dtype not in {DType.FLOAT16, DType.BFLOAT16}


def divides_integers(kernel: str, dtype: DType) -> bool:
    """Whether the kernel divides integers, so that a divisor of 0 is an error."""
    return kernel in _ZERO_DIVISORS and dtype.kind in "iu"


def emit(block: Block, kernel: str, dtype: DType, arguments: Sequence[Vector]) -> Vector:
    """Emit the code of `kernel` for arguments of type `dtype`."""
    return _TABLES[dtype.kind][kernel](block, *arguments)


def bounded(block: Block, kernel: str, arguments: Sequence[Vector], is_bound: Sequence[bool]) -> Vector:
    """Emit a kernel of `EXTREMES` on floats; `is_bound` states for each argument whether it is a bound.

    A bound is a constant that is neither NaN nor zero: a single comparison then suffices and propagates NaN.
    """
    if not any(is_bound):
        return emit(block, kernel, DType.FLOAT32, arguments)
    bound, x = arguments if is_bound[0] else reversed(arguments)
    return block.select(block.compare(EXTREMES[kernel], bound, x), bound, x)


def convert(block: Block, x: Vector, source: DType, target: DType) -> Vector:
    """Emit a conversion of elements; floats outside the integer range become the lowest integer, as on x86."""
    if source is target:
        return x
    if source in {DType.FLOAT16, DType.BFLOAT16}:
        return convert(block, _widened(block, x, source), DType.FLOAT32, target)
    if target in {DType.FLOAT16, DType.BFLOAT16}:
        return _narrowed(block, convert(block, x, source, DType.FLOAT32), target)
    element = ELEMENTS[target]
    if target is DType.BOOL:
        predicate = "une" if source.kind == "f" else "ne"
        return block.convert("zext", block.compare(predicate, x, block.like(0, x)), "i8")
    match source.kind, target.kind:
        case "f", "f":
            return block.convert("fpext" if target.bits > source.bits else "fptrunc", x, element)
        case "f", _:
            return _to_integer(block, x, element)
        case kind, "f":
            return block.convert("sitofp" if kind == "i" else "uitofp", x, element)
        case kind, _ if target.bits > source.bits:
            return block.convert("sext" if kind == "i" else "zext", x, element)
        case _ if target.bits < source.bits:
            return block.convert("trunc", x, element)
        case _:
            return x


def nonzero(block: Block, x: Vector) -> tuple[Vector, Vector]:
    """Return where `x` is zero, and `x` with zeros replaced by ones, because integer division by zero traps."""
    is_zero = block.compare("eq", x, block.like(0, x))
    return is_zero, block.select(is_zero, block.like(1, x), x)


def _widened(block: Block, x: Vector, source: DType) -> Vector:
    if source is DType.FLOAT16:
        return block.convert("fpext", x, "float")
    wide = block.convert("zext", x, "i32")
    return block.convert("bitcast", block.binary("shl", wide, block.like(16, wide)), "float")


def _narrowed(block: Block, x: Vector, target: DType) -> Vector:
    if target is DType.FLOAT16:
        return block.convert("fptrunc", x, "half")
    bits = block.convert("bitcast", x, "i32")
    lowest_kept = block.binary("and", block.binary("lshr", bits, block.like(16, bits)), block.like(1, bits))
    rounded = block.binary("add", bits, block.binary("add", lowest_kept, block.like(0x7FFF, bits)))
    quiet = block.binary("or", bits, block.like(0x400000, bits))
    is_number = block.compare("ord", x, x)
    kept = block.binary("lshr", block.select(is_number, rounded, quiet), block.like(16, bits))
    return block.convert("trunc", kept, "i16")


def _to_integer(block: Block, x: Vector, element: str) -> Vector:
    lowest = -(2.0 ** (BITS[element] - 1))
    above = block.compare("oge", x, block.like(lowest, x))
    below = block.compare("olt", x, block.like(-lowest, x))
    fits = block.binary("and", above, below)
    number = block.convert("fptosi", block.select(fits, x, block.like(0.0, x)), element)
    return block.select(fits, number, block.constant(int(lowest), element))


def _instruction(name: str) -> Binary:
    def emit_instruction(block: Block, a: Vector, b: Vector) -> Vector:
        return block.binary(name, a, b)

    return emit_instruction


def _intrinsic(name: str) -> Unary:
    def emit_intrinsic(block: Block, x: Vector) -> Vector:
        return block.intrinsic(name, x)

    return emit_intrinsic


def _library(name: str) -> Callable[..., Vector]:
    def emit_call(block: Block, *arguments: Vector) -> Vector:
        return block.library(name, *arguments)

    return emit_call


def _negated_integer(block: Block, x: Vector) -> Vector:
    return block.binary("sub", block.like(0, x), x)


def _absolute_integer(block: Block, x: Vector) -> Vector:
    return block.intrinsic("abs", x, tail="i1 false")


def _identity(_: Block, x: Vector) -> Vector:
    return x


def _square_float(block: Block, x: Vector) -> Vector:
    return block.binary("fmul", x, x)


def _square_integer(block: Block, x: Vector) -> Vector:
    return block.binary("mul", x, x)


def _reciprocal(block: Block, x: Vector) -> Vector:
    return block.binary("fdiv", block.like(1.0, x), x)


def _rsqrt(block: Block, x: Vector) -> Vector:
    return _reciprocal(block, block.intrinsic("sqrt", x))


def _sign_float(block: Block, x: Vector) -> Vector:
    zero = block.like(0.0, x)
    negative = block.select(block.compare("olt", x, zero), block.like(-1.0, x), zero)
    return block.select(block.compare("ogt", x, zero), block.like(1.0, x), negative)


def _sign_integer(block: Block, x: Vector) -> Vector:
    zero = block.like(0, x)
    negative = block.select(block.compare("slt", x, zero), block.like(-1, x), zero)
    return block.select(block.compare("sgt", x, zero), block.like(1, x), negative)


def _sign_unsigned(block: Block, x: Vector) -> Vector:
    return block.convert("zext", block.compare("ne", x, block.like(0, x)), x.element)


def _extreme_float(predicate: str) -> Binary:
    def extreme(block: Block, a: Vector, b: Vector) -> Vector:
        # The comparison fails for a NaN, and for zeros of both signs, and leaves `b`: PyTorch and NumPy do so, too.
        value = block.select(block.compare(predicate, a, b), a, b)
        return block.select(block.compare("uno", a, a), a, value)

    return extreme


def _extreme_integer(predicate: str) -> Binary:
    def extreme(block: Block, a: Vector, b: Vector) -> Vector:
        return block.select(block.compare(predicate, a, b), a, b)

    return extreme


def _shift(instruction: str) -> Binary:
    """Shifts by the bit width or more leave only the sign; a negative count counts as such a shift."""

    def shift(block: Block, a: Vector, b: Vector) -> Vector:
        width = BITS[a.element]
        is_small = block.compare("ult", b, block.like(width, b))
        shifted = block.binary(instruction, a, block.select(is_small, b, block.like(0, b)))
        if instruction == "ashr":
            return block.select(is_small, shifted, block.binary("ashr", a, block.like(width - 1, a)))
        return block.select(is_small, shifted, block.like(0, a))

    return shift


def _fmod(block: Block, a: Vector, b: Vector) -> Vector:
    return block.library("fmod", a, b)


def _remainder_float(block: Block, a: Vector, b: Vector) -> Vector:
    """The remainder with the sign of the divisor; a zero keeps that of the dividend."""
    zero = block.like(0.0, a)
    rest = _fmod(block, a, b)
    is_other = block.compare("une", rest, zero)
    other_sign = block.binary("xor", block.compare("olt", b, zero), block.compare("olt", rest, zero))
    return block.select(block.binary("and", other_sign, is_other), block.binary("fadd", rest, b), rest)


def _floor_divide_float(block: Block, a: Vector, b: Vector) -> Vector:
    """Emit floor division of floats: round the quotient (x - remainder) / y to an integer."""
    zero, one = block.like(0.0, a), block.like(1.0, a)
    rest = _fmod(block, a, b)
    whole = block.binary("fdiv", block.binary("fsub", a, rest), b)
    is_exact = block.compare("oeq", rest, zero)
    other_sign = block.binary("xor", block.compare("olt", b, zero), block.compare("olt", rest, zero))
    is_lower = block.binary("and", other_sign, block.binary("xor", is_exact, block.constant(1, "i1")))
    whole = block.select(is_lower, block.binary("fsub", whole, one), whole)
    floor = block.intrinsic("floor", whole)
    above = block.compare("ogt", block.binary("fsub", whole, floor), block.like(0.5, a))
    floor = block.select(above, block.binary("fadd", floor, one), floor)
    quotient = block.binary("fdiv", a, b)
    floor = block.select(block.compare("oeq", whole, zero), block.intrinsic("copysign", zero, quotient), floor)
    return block.select(block.compare("oeq", b, zero), quotient, floor)


def _divided(block: Block, instruction: str, a: Vector, b: Vector) -> Vector:
    """Emit signed division; -1 is handled separately, because dividing the lowest integer by -1 traps."""
    minus = block.compare("eq", b, block.like(-1, b))
    safe = block.select(minus, block.like(1, b), b)
    value = block.binary(instruction, a, safe)
    by_minus = _negated_integer(block, a) if instruction == "sdiv" else block.like(0, a)
    return block.select(minus, by_minus, value)


def _floor_divide_signed(block: Block, a: Vector, b: Vector) -> Vector:
    zero = block.like(0, a)
    quotient = _divided(block, "sdiv", a, b)
    rest = block.binary("sub", a, block.binary("mul", quotient, b))
    other_sign = block.compare("slt", block.binary("xor", a, b), zero)
    is_lower = block.binary("and", other_sign, block.compare("ne", rest, zero))
    return block.select(is_lower, block.binary("sub", quotient, block.like(1, a)), quotient)


def _remainder_signed(block: Block, a: Vector, b: Vector) -> Vector:
    zero = block.like(0, a)
    rest = _divided(block, "srem", a, b)
    other_sign = block.compare("slt", block.binary("xor", rest, b), zero)
    is_moved = block.binary("and", other_sign, block.compare("ne", rest, zero))
    return block.select(is_moved, block.binary("add", rest, b), rest)


def _fmod_signed(block: Block, a: Vector, b: Vector) -> Vector:
    return _divided(block, "srem", a, b)


EXTREMES: Mapping[str, str] = MappingProxyType({"maximum": "ogt", "minimum": "olt"})
"""Kernels that return one of their arguments, and the comparison for which it is the second."""
_LIBRARY = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "log10", "sin", "sinh", "tan", "atan2")
_FLOATS: dict[str, Callable[..., Vector]] = {
    **{name: _library(name) for name in _LIBRARY},
    "abs": mathematics.absolute,
    "neg": mathematics.negative,
    "sign": _sign_float,
    "square": _square_float,
    "sqrt": _intrinsic("sqrt"),
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round": _intrinsic("rint"),
    "trunc": _intrinsic("trunc"),
    "exp": mathematics.exp,
    "expm1": mathematics.expm1,
    "log": mathematics.log,
    "log1p": mathematics.log1p,
    "tanh": mathematics.tanh,
    "sigmoid": mathematics.sigmoid,
    "erf": mathematics.erf,
    "add": _instruction("fadd"),
    "sub": _instruction("fsub"),
    "mul": _instruction("fmul"),
    "div": _instruction("fdiv"),
    "pow": mathematics.power,
    "logaddexp": mathematics.logaddexp,
    "maximum": _extreme_float(EXTREMES["maximum"]),
    "minimum": _extreme_float(EXTREMES["minimum"]),
    "fmod": _fmod,
    "remainder": _remainder_float,
    "floor_divide": _floor_divide_float,
}
_INTEGERS: dict[str, Callable[..., Vector]] = {
    "neg": _negated_integer,
    "square": _square_integer,
    "add": _instruction("add"),
    "sub": _instruction("sub"),
    "mul": _instruction("mul"),
    "and": _instruction("and"),
    "or": _instruction("or"),
    "xor": _instruction("xor"),
    "lshift": _shift("shl"),
}
_SIGNED: dict[str, Callable[..., Vector]] = {
    **_INTEGERS,
    "abs": _absolute_integer,
    "sign": _sign_integer,
    "maximum": _extreme_integer("sgt"),
    "minimum": _extreme_integer("slt"),
    "rshift": _shift("ashr"),
    "floor_divide": _floor_divide_signed,
    "remainder": _remainder_signed,
    "fmod": _fmod_signed,
}
_UNSIGNED: dict[str, Callable[..., Vector]] = {
    **_INTEGERS,
    "abs": _identity,
    "sign": _sign_unsigned,
    "maximum": _extreme_integer("ugt"),
    "minimum": _extreme_integer("ult"),
    "rshift": _shift("lshr"),
    "floor_divide": _instruction("udiv"),
    "remainder": _instruction("urem"),
    "fmod": _instruction("urem"),
}
_LOGICAL: dict[str, Callable[..., Vector]] = {
    "add": _instruction("or"),
    "or": _instruction("or"),
    "maximum": _instruction("or"),
    "mul": _instruction("and"),
    "and": _instruction("and"),
    "minimum": _instruction("and"),
    "xor": _instruction("xor"),
}
_TABLES: Mapping[str, Mapping[str, Callable[..., Vector]]] = MappingProxyType(
    {"f": _FLOATS, "i": _SIGNED, "u": _UNSIGNED, "b": _LOGICAL}
)

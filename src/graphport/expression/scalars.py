"""Functions of weak scalars: integers are exact, floats and complex numbers follow IEEE 754 in float64."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graphport.expression.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.expression.functions import Function
    from graphport.expression.syntax import Number

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_WORDS = {"b": "bool", "i": "an integer", "f": "a float", "c": "a complex number"}


def apply_to_scalars(function: Function, arguments: Sequence[Number]) -> Number:
    """Apply a function to Python scalars.

    Raises:
        Fault: `EXPR0203`: unsupported types; `EXPR0204`: integer division by zero; `EXPR0206`: the result exceeds
            int64.
    """
    name, signature = function.name, function.signature
    kind = max((_type_code(argument) for argument in arguments), key="bifc".index)
    accepts = signature.accepts + ("b" if "i" in signature.accepts else "")
    if kind not in accepts and not (name == "logaddexp" and kind in "bi"):
        raise Fault("EXPR0203", f"{name} does not support {_WORDS[kind]}")
    if name in _CASTS:
        return _cast(name, arguments[0])
    if kind in "bi" and name in _EXACT and not (name == "pow" and _is_negative(arguments[1])):
        return _exact(name, arguments, is_logical=kind == "b")
    if name in _CHOICES and kind != "c":
        return _select_extremum(_CHOICES[name], arguments)
    return _computed(function, arguments, kind)


def check_int64(value: int) -> int:
    """`value`, if it is an integer of 64 bits.

    Raises:
        Fault: `EXPR0206`.
    """
    if _LOWEST <= value <= _HIGHEST:
        return value
    raise Fault("EXPR0206", "the result exceeds the int64 range", "write an operand as a float")


def _type_code(value: object) -> str:
    match value:
        case bool():
            return "b"
        case int():
            return "i"
        case float():
            return "f"
        case complex():
            return "c"
        case None:
            raise Fault("EXPR0203", "None is not a number")
        case list():
            raise Fault("EXPR0203", "a list is not a number", "use a list only around the whole expression")
        case _:
            raise Fault("EXPR0203", f"{value} is not a number")


def _is_negative(value: Number) -> bool:
    return not isinstance(value, complex) and value < 0


def _exact(name: str, arguments: Sequence[Number], *, is_logical: bool) -> Number:
    integers = [argument for argument in arguments if isinstance(argument, int)]
    if name in {"floor_divide", "remainder", "fmod"} and integers[1] == 0:
        raise Fault(
            "EXPR0204", f"{name} divides an integer by zero", "cast an operand to float, where the result is inf or nan"
        )
    result = _EXACT[name](*integers)
    keeps_logical = name in {"and", "or", "xor", "max", "maximum", "min", "minimum"}
    return bool(result) if is_logical and keeps_logical else check_int64(int(result))


def _power(base: int, exponent: int) -> int:
    # Refused before it is computed: 10 ** 10 ** 10 has ten thousand million digits.
    if abs(base) > 1 and exponent > 64:
        return check_int64(1 << 64)
    if abs(base) <= 1:
        return base ** (2 - exponent % 2 if exponent > 2 else exponent)
    return base**exponent


def _shift_left(value: int, count: int) -> int:
    if count < 0:
        raise Fault("EXPR0203", f"undefined shift by {count} bits")
    return check_int64(1 << 64) if value and count > 64 else value << min(count, 64)


def _shift_right(value: int, count: int) -> int:
    if count < 0:
        raise Fault("EXPR0203", f"undefined shift by {count} bits")
    return value >> min(count, 64)


def _truncated_remainder(a: int, b: int) -> int:
    return int(math.copysign(1, a)) * (abs(a) % abs(b)) if a else 0


def _square(value: int) -> int:
    return value * value


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


_INTEGERS: dict[str, Callable[..., int]] = {
    "abs": int.__abs__,
    "neg": int.__neg__,
    "sign": _sign,
    "square": _square,
    "floor": int,
    "ceil": int,
    "round": int,
    "trunc": int,
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "floor_divide": int.__floordiv__,
    "remainder": int.__mod__,
    "fmod": _truncated_remainder,
    "pow": _power,
    "max": max,
    "maximum": max,
    "min": min,
    "minimum": min,
    "and": int.__and__,
    "or": int.__or__,
    "xor": int.__xor__,
    "lshift": _shift_left,
    "rshift": _shift_right,
}
_EXACT: Mapping[str, Callable[..., int]] = MappingProxyType(_INTEGERS)
_CHOICES: Mapping[str, Callable[..., float]] = MappingProxyType(
    {"max": max, "maximum": max, "min": min, "minimum": min}
)
_ROUNDING: Mapping[str, Callable[[float], int]] = MappingProxyType(
    {"floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc}
)
_CASTS = frozenset({"int", "torch.float", "torch.long", "torch.bool"})


def _select_extremum(choice: Callable[..., float], arguments: Sequence[Number]) -> Number:
    reals = [argument for argument in arguments if not isinstance(argument, complex)]
    return math.nan if any(math.isnan(real) for real in reals) else choice(*reals)


def _cast(name: str, value: Number) -> Number:
    if name == "torch.bool":
        return bool(value)
    if isinstance(value, complex):
        raise Fault(
            "EXPR0203",
            f"{name} does not support complex numbers",
            "use a real operand: the imaginary part would be lost",
        )
    if name == "torch.float":
        return float(value)
    if not math.isfinite(value):
        raise Fault("EXPR0203", f"{value} is not an integer")
    return check_int64(math.trunc(value))


def _computed(function: Function, arguments: Sequence[Number], kind: str) -> Number:
    """Compute a function in float64; rounding functions return an integer if the result is finite."""
    if function.name in _ROUNDING:
        value = float(arguments[0].real)
        return check_int64(_ROUNDING[function.name](value)) if math.isfinite(value) else value
    dtype = np.complex128 if kind == "c" else np.float64
    with np.errstate(all="ignore"):
        result = function.compute(*(np.asarray(argument, dtype) for argument in arguments))
    return np.asarray(result).item()

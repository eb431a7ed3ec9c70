"""Arithmetic on compile-time values.

A value is an `int` (or a symbolic dim), a `float`, a `bool`, a `str`, a list (an array of the language) or a tuple.
Integers have 64 bits; overflow and infinite results are errors.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphport.core.dims import Symbolic, bounds, decide_equal, decide_less
from graphport.formats.nnef.container.lexer import INTEGER_BITS, LARGEST_INTEGER, NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dims import Dim

Value: TypeAlias = Any
"""A compile-time value."""

_LITERAL = re.compile(NUMBER, re.ASCII)
_MOST_POWER = 16
"""Highest power of an open extent that is multiplied out."""


class EvaluationFault(Exception):  # noqa: N818  becomes a finding with a place
    """An expression has no value."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(code, message, help)
        self.code = code
        self.message = message
        self.help = help


class OpenExtent(Exception):  # noqa: N818  becomes a finding that names the inputs' axes
    """Raised if a symbolic dim is used as an integer."""

    def __init__(self, dim: Dim) -> None:
        super().__init__(dim)
        self.dim = dim


def as_integer(value: Value) -> int:
    """Convert `value` to an integer; raises `OpenExtent` if it is symbolic."""
    if isinstance(value, Symbolic):
        raise OpenExtent(value)
    return int(value)


def binary(operator: str, left: Value, right: Value, room: int) -> Value:
    """Evaluate `left operator right` on compile-time values; an array result has at most `room` items.

    Raises:
        EvaluationFault: there is none.
        OpenExtent: it depends on an extent that is not known.
    """
    if isinstance(left, list | str) and operator in ("+", "*"):
        return _joined(left, right, room) if operator == "+" else _repeated(left, as_integer(right), room)
    if operator in _COMPARISONS:
        return _COMPARISONS[operator](left, right)
    if isinstance(left, float):
        return _finite(lambda: _SCALAR[operator](left, float(right)), operator)
    return _check_range(_INTEGER[operator](left, right))


def unary(operator: str, value: Value) -> Value:
    """The value of `operator value`."""
    if operator == "!":
        return not value
    if operator == "-":
        return -value if isinstance(value, float) else _check_range(-value)
    return value


def contains(array: list[Value], value: Value) -> bool:
    """Whether one of the items equals `value`, arrays and tuples item by item."""
    unsure: OpenExtent | None = None
    for get_item in array:
        try:
            if equal(get_item, value):
                return True
        except OpenExtent as undecided:
            unsure = undecided
    if unsure is not None:
        raise unsure
    return False


def equal(left: Value, right: Value) -> bool:
    """Deep equality; no deeper than types are."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = cast("list[Value]", left), cast("list[Value]", right)
        return len(pairs[0]) == len(pairs[1]) and all(map(equal, *pairs))
    if isinstance(left, Symbolic) or isinstance(right, Symbolic):
        return _decided(decide_equal(cast("Dim", left), cast("Dim", right)), left, right)
    return bool(left == right)


def less_than(left: Value, right: Value) -> bool:
    """Whether one number is less than another."""
    if isinstance(left, Symbolic) or isinstance(right, Symbolic):
        return _decided(decide_less(left, right), left, right)
    return bool(left < right)


def cast_to(name: str, value: Value) -> Value:
    """Apply a cast: `integer(value)`, `scalar(value)`, `logical(value)` or `string(value)`."""
    match name:
        case "integer":
            return _to_integer(value)
        case "scalar":
            return _to_scalar(value)
        case "logical":
            return value != "" if isinstance(value, str) else not equal(value, 0)
        case _:
            return _to_string(value)


def get_item(array: Value, index: Value) -> Value:
    """`array[index]` of an array, a tuple or a string."""
    position = as_integer(index)
    if 0 <= position < len(array):
        return array[position]
    kind = "string" if isinstance(array, str) else "array"
    raise EvaluationFault(
        "NNEF0503",
        f"index {position} is out of range for {'a' if kind == 'string' else 'an'} {kind} of length {len(array)}",
        f"use an index from 0 to {len(array) - 1}" if len(array) else f"check that the {kind} is not empty",
    )


def get_slice(array: Value, begin: Value | None, end: Value | None) -> Value:
    """`array[begin:end]`; empty where `begin` is not before `end`."""
    first = 0 if begin is None else as_integer(begin)
    last = len(array) if end is None else as_integer(end)
    for name, position in (("begins", first), ("ends", last)):
        if not 0 <= position <= len(array):
            raise EvaluationFault(
                "NNEF0504",
                f"the range {name} at {position}, out of range for length {len(array)}",
                f"use bounds from 0 to {len(array)}",
            )
    return array[first:last]


def _joined(left: Value, right: Value, room: int) -> Value:
    _bounded(len(left) + len(right), room)
    return left + right


def _repeated(value: Value, count: int, room: int) -> Value:
    if count < 0:
        raise EvaluationFault("NNEF0509", f"negative repeat count {count}", "use a count of 0 or more")
    _bounded(len(value) * count, room)
    return value * count


def _bounded(length: int, room: int) -> None:
    if length > room:
        raise EvaluationFault(
            "NNEF0510",
            f"the value would have {length} items, more than the limit",
            "set GRAPHPORT_LIMITS=nnef.items=N to raise the limit for all values together to N",
        )


def _decided(answer: bool | None, left: Value, right: Value) -> bool:  # noqa: FBT001  an answer, not a switch
    if answer is None:
        raise OpenExtent(left if isinstance(left, Symbolic) else right)
    return answer


def _check_range(value: Dim) -> Dim:
    if isinstance(value, Symbolic) or -LARGEST_INTEGER - 1 <= value <= LARGEST_INTEGER:
        return value
    raise EvaluationFault(
        "NNEF0502", f"integer overflow: the result does not fit in {INTEGER_BITS} bits", "use scalars for large numbers"
    )


def _finite(compute: Callable[[], float], operator: str) -> float:
    try:
        result = compute()
    except (OverflowError, ValueError, ZeroDivisionError):
        result = math.nan
    if not math.isfinite(result):
        code = "NNEF0501" if operator == "/" else "NNEF0511"
        message = "division by zero" if operator == "/" else f"the result of '{operator}' is not a finite real number"
        raise EvaluationFault(
            code, message, "guard the expression by an if-else: its unselected branch is not evaluated"
        )
    return result


def _quotient(a: Dim, b: Dim) -> Dim:
    if not isinstance(b, Symbolic) and b == 0:
        raise EvaluationFault(
            "NNEF0501", "division by zero", "guard the expression by an if-else: its unselected branch is not evaluated"
        )
    if isinstance(a, Symbolic) or isinstance(b, Symbolic):
        low, divisor = bounds(a)[0], bounds(b)[0]
        if low is None or low < 0 or divisor is None or divisor < 1:
            raise OpenExtent(a if isinstance(a, Symbolic) else b)
        return a // b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: Dim, b: Dim) -> Dim:
    exponent = as_integer(b)
    if exponent < 0:
        message = f"an integer to the power {exponent} is not an integer"
        raise EvaluationFault("NNEF0511", message, "use scalars: 2.0 ^ -1.0")
    if isinstance(a, Symbolic):
        if exponent > _MOST_POWER:
            raise OpenExtent(a)
        result: Dim = 1
        for _ in range(exponent):
            result = result * a
        return result
    if abs(a) > 1 and exponent > INTEGER_BITS:
        return LARGEST_INTEGER + 1  # too large, however large
    return a**exponent if abs(a) > 1 else a ** (exponent % 2 if a < 0 else min(exponent, 1))


def _real_power(a: float, b: float) -> float:
    result: object = a**b
    return result if isinstance(result, float) else math.nan


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "^": _power,
}
_SCALAR: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "^": _real_power,
}
_COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "<": less_than,
    "<=": lambda a, b: not less_than(b, a),
    ">": lambda a, b: less_than(b, a),
    ">=": lambda a, b: not less_than(a, b),
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
    "in": lambda a, b: contains(b, a),
}


def _to_integer(value: Value) -> Value:
    if isinstance(value, str):
        return _check_range(int(_literal(value, "integer")))
    if isinstance(value, float):
        return _check_range(math.floor(value))
    return value if isinstance(value, Symbolic) else int(value)


def _to_scalar(value: Value) -> float:
    if isinstance(value, str):
        result = float(_literal(value, "scalar"))
        return _finite(lambda: result, "scalar")
    return float(as_integer(value)) if not isinstance(value, float) else value


def _literal(text: str, kind: str) -> str:
    """Return `text` if it is a literal of `kind`; literals have no sign.

    Raises:
        EvaluationFault: NNEF0505, it is not.
    """
    found = _LITERAL.fullmatch(text)
    is_integer = found is not None and text.isdigit()
    if found is None or (kind == "integer" and not is_integer) or (is_integer and len(text) > INTEGER_BITS):
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise EvaluationFault(
            "NNEF0505",
            f"the string '{shown}' is not a literal of type {kind}",
            "pass a string that is one unsigned number",
        )
    return text


def _to_string(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value if isinstance(value, float) else as_integer(value))

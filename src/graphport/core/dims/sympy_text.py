"""Dims from the text that SymPy prints, as in `floor(height/2 - 1/2) + 1` of ONNX Runtime's shape inference."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.dims.grammar import Arithmetic, value_of
from graphport.core.dims.symbolic import Dim, Symbolic, maximum, minimum
from graphport.core.dims.terms import TooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_EXPONENT = 8
_SPACED_SIGN = re.compile(r" *([-+*/%(),]) *")


class _Ratio(NamedTuple):
    """A quotient of two dims; the divisor of an integer is 1."""

    dim: Dim
    divisor: Dim = 1


def parse_sympy(text: str, symbols: Mapping[str, Symbolic]) -> Dim | None:
    """Return the dim that SymPy's text of an integer expression of `symbols` states, `None` for any other text."""

    def named(name: str) -> _Ratio:
        return _Ratio(symbols[name])

    arithmetic = Arithmetic(_Ratio, named, _negative, _OPERATIONS, _FUNCTIONS)
    try:
        found = value_of(_SPACED_SIGN.sub(r"\1", text), arithmetic)
        return None if found is None else _integer(found)
    except (KeyError, TooLong, ValueError, ZeroDivisionError):
        return None


def _integer(ratio: _Ratio) -> Dim:
    """Return the dim; raise `ValueError` if it is a fraction."""
    quotient = _floor(ratio).dim
    if quotient * ratio.divisor != ratio.dim:
        message = "the expression is not an integer"
        raise ValueError(message)
    return quotient


def _negative(x: _Ratio) -> _Ratio:
    return _Ratio(-x.dim, x.divisor)


def _floor(x: _Ratio) -> _Ratio:
    if x.divisor == 0:
        raise ZeroDivisionError
    return _Ratio(x.dim // x.divisor)


def _ceiling(x: _Ratio) -> _Ratio:
    return _negative(_floor(_negative(x)))


def _plus(a: _Ratio, b: _Ratio) -> _Ratio:
    if a.divisor == b.divisor:
        return _Ratio(a.dim + b.dim, a.divisor)
    return _Ratio(a.dim * b.divisor + b.dim * a.divisor, a.divisor * b.divisor)


def _minus(a: _Ratio, b: _Ratio) -> _Ratio:
    return _plus(a, _negative(b))


def _times(a: _Ratio, b: _Ratio) -> _Ratio:
    return _Ratio(a.dim * b.dim, a.divisor * b.divisor)


def _over(a: _Ratio, b: _Ratio) -> _Ratio:
    return _Ratio(a.dim * b.divisor, a.divisor * b.dim)


def _quotient(a: _Ratio, b: _Ratio) -> _Ratio:
    return _floor(_over(a, b))


def _modulo(a: _Ratio, b: _Ratio) -> _Ratio:
    return _minus(a, _times(b, _quotient(a, b)))


def _power(base: _Ratio, exponent: _Ratio) -> _Ratio:
    count = _integer(exponent)
    if not isinstance(count, int) or not 0 <= count <= MAX_EXPONENT:
        message = f"the exponent is not between 0 and {MAX_EXPONENT}"
        raise ValueError(message)
    found = _Ratio(1)
    for _ in range(count):
        found = _times(found, base)
    return found


def _maximum(a: _Ratio, b: _Ratio) -> _Ratio:
    return _Ratio(maximum(_integer(a), _integer(b)))


def _minimum(a: _Ratio, b: _Ratio) -> _Ratio:
    return _Ratio(minimum(_integer(a), _integer(b)))


_OPERATIONS: dict[str, Callable[[_Ratio, _Ratio], _Ratio]] = {
    "+": _plus,
    "-": _minus,
    "*": _times,
    "/": _over,
    "//": _quotient,
    "%": _modulo,
    "**": _power,
    "Max": _maximum,
    "Min": _minimum,
    "Mod": _modulo,
}
_FUNCTIONS = {"floor": _floor, "ceiling": _ceiling}

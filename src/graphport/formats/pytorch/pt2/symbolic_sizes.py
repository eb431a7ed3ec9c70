"""Parse symbolic sizes: `Mul(Integer(2), Symbol('s6', positive=True, integer=True))`.

SymPy's `srepr` consists of calls with expressions, strings and booleans as arguments; ranges and older files contain
infix expressions such as `2*s6 + 1`. One grammar covers both. No text is executed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.dims import Symbol, Symbolic, TooLong, maximum, minimum

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.dims import Dim

MOST_TOKENS = 4096
MOST_DEPTH = 64
MOST_DIGITS = 19
MOST_POWER = 8
MOST_BITS = 63
MOST_NUMBER = 1 << MOST_BITS

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)|'(?P<text>[^'\\]*)'"
    r"|(?P<mark>\*\*|//|<=|>=|==|!=|[-+*/%(),=<>]))",
    re.ASCII,
)
_LEVELS = ((("<=", ">=", "==", "!=", "<", ">"),), (("+", "-"),), (("*", "/", "//", "%"),))
_LITERALS = {"True": True, "False": False, "true": True, "false": False}


class ExtentError(ValueError):
    """A text is not a symbolic size; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A valid expression that no dim can represent: a condition or a float."""


Extent = "int | Symbolic | Opaque"
OPAQUE = Opaque()


class Range(NamedTuple):
    """Lower and upper bound of a symbol."""

    least: int | None
    most: int | None


@dataclass(slots=True)
class Extents:
    """The symbols of one program by name, and a cache of parsed expressions."""

    ranges: Mapping[str, Range] = field(default_factory=dict[str, Range])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """New names of symbols that are renamed."""
    _read: dict[str, Any] = field(default_factory=dict[str, Any])

    def symbol(self, name: str) -> Symbolic:
        """Return the dim for a symbol.

        A lower bound of 2 only means that the exporter did not specialize the dim to 0 or 1; it is replaced by 1. So is
        a lower bound of 0 for an input's dim, because the exporter simplified expressions for sizes of at least 1.
        """
        least, most = self.ranges.get(name, (None, None))
        low = max(least or 0, 0)
        if low == 2 or (low == 0 and name.startswith("s")):
            low = 1
        if most is not None and most < low:
            low, most = 0, None
        return Symbol(self.names.get(name, name), low, most)

    def parse(self, text: str) -> Any:
        """Parse `text` as a dim; return `OPAQUE` if it has another type.

        Raises:
            ExtentError: the syntax is wrong, or a function is unknown.
        """
        found = self._read.get(text)
        if found is None:
            found = self._read[text] = _Parser(text, self).parse_expression()
        return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or len(found) >= MOST_TOKENS:
            reason = "exceeds the length limit" if match else f"has an unexpected {text[at : at + 20]!r}"
            raise ExtentError(reason)
        at = match.end()
        found.append((str(match.lastgroup), str(match[str(match.lastgroup)])))
    return found


class _Parser:
    """Recursive-descent parser of expressions with a nesting limit."""

    def __init__(self, text: str, extents: Extents) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._extents = extents

    def parse_expression(self) -> Any:
        found = self._binary(0)
        if self._at < len(self._tokens):
            message = f"has an unexpected {self._tokens[self._at][1]!r} after its end"
            raise ExtentError(message)
        return found

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return text if kind == "mark" else ""

    def _accept(self, mark: str) -> bool:
        if self._peek() != mark:
            return False
        self._at += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            message = f"has no expected {mark!r}"
            raise ExtentError(message)

    def _binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._signed()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level][0]:
            mark = self._peek()
            self._at += 1
            left = _applied(_MARKS[mark], (left, self._binary(level + 1)))
        return left

    def _signed(self) -> Any:
        sign = 1
        while self._peek() in ("-", "+"):
            sign = -sign if self._peek() == "-" else sign
            self._at += 1
        found = self._primary()
        if self._accept("**"):
            found = _applied("Pow", (found, self._signed()))
        return _applied("Mul", (found, -1)) if sign < 0 else found

    def _primary(self) -> Any:
        if self._at >= len(self._tokens):
            message = "ends before an operand"
            raise ExtentError(message)
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return _parse_integer(text)
        if kind == "name" and self._peek() == "(":
            return self._call(text)
        if kind == "name":
            return _LITERALS[text] if text in _LITERALS else self._extents.symbol(text)
        if kind == "mark" and text == "(":
            found = self._nested(lambda: self._binary(0))
            self._expect(")")
            return found
        message = f"has {text!r}, expected an operand"
        raise ExtentError(message)

    def _nested(self, read: Callable[[], Any]) -> Any:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            message = "is nested deeper than {MOST_DEPTH} levels"
            raise ExtentError(message)
        found = read()
        self._depth -= 1
        return found

    def _call(self, name: str) -> Any:
        self._expect("(")
        arguments: list[Any] = []
        texts: list[str] = []
        while not self._accept(")"):
            if arguments or texts:
                self._expect(",")
            kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
            if kind == "text":
                self._at += 1
                texts.append(text)
            elif kind == "name" and self._at + 1 < len(self._tokens) and self._tokens[self._at + 1] == ("mark", "="):
                # Assumptions about a symbol and the precision of a number do not change the value.
                self._at += 2
                self._primary()
            else:
                arguments.append(self._nested(lambda: self._binary(0)))
        return self._called(name, arguments, texts)

    def _called(self, name: str, arguments: Sequence[Any], texts: Sequence[str]) -> Any:
        if name == "Symbol" and len(texts) == 1 and not arguments and re.fullmatch(r"\w+", texts[0]):
            return self._extents.symbol(texts[0])
        if name == "Float" and len(texts) == 1:
            return OPAQUE
        if texts or name not in _FUNCTIONS:
            message = f"has the unsupported function {name}"
            raise ExtentError(message)
        return _applied(name, arguments)


def _parse_integer(text: str) -> Any:
    if not text.isdecimal():
        return OPAQUE
    if len(text) > MOST_DIGITS:
        message = f"has an integer of {len(text)} digits, at most {MOST_DIGITS} are supported"
        raise ExtentError(message)
    return int(text)


def _applied(name: str, arguments: Sequence[Any]) -> Any:
    """Apply a function of the table; return `OPAQUE` if an argument is not a size."""
    function = _FUNCTIONS[name]
    if function is None or any(isinstance(x, Opaque | bool) for x in arguments):
        return OPAQUE
    try:
        found = function(*arguments)
    except TypeError as error:
        message = f"has {name} with {len(arguments)} arguments"
        raise ExtentError(message) from error
    except (ZeroDivisionError, OverflowError, TooLong) as error:
        message = f"cannot be computed: {error}"
        raise ExtentError(message) from error
    if isinstance(found, int) and abs(found) > MOST_NUMBER:
        message = "has an integer beyond the int64 range"
        raise ExtentError(message)
    return found


def _add(*terms: Dim) -> Dim:
    total: Dim = 0
    for term in terms:
        total = total + term
    return total


def _sub(a: Dim, b: Dim) -> Dim:
    return a - b


def _mul(*factors: Dim) -> Dim:
    total: Dim = 1
    for factor in factors:
        total = total * factor
    return total


def _pow(base: Dim, exponent: Dim) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if abs(base) > 1 and exponent > MOST_BITS:
            message = f"{base} ** {exponent} has more than {MOST_BITS} bits"
            raise OverflowError(message)
        return base ** (exponent if abs(base) > 1 else min(exponent, 2 - exponent % 2))
    if not isinstance(exponent, int) or not 0 <= exponent <= MOST_POWER:
        return OPAQUE
    return _mul(*[base] * exponent)


def _divided(a: Dim, b: Dim) -> Any:
    if isinstance(a, int) and isinstance(b, int) and b and a % b == 0:
        return a // b
    return OPAQUE


def _floor(a: Dim, b: Dim) -> Dim:
    return a // b


def _remainder(a: Dim, b: Dim) -> Dim:
    return a % b


def _ceiling(a: Dim, b: Dim) -> Dim:
    return -(-a // b)


def _modular(base: Dim, divisor: Dim, modulus: Dim) -> Dim:
    return base // divisor % modulus


def _identity(x: Dim) -> Dim:
    return x


def _greatest(*items: Dim) -> Dim:
    found = items[0] if items else _fail()
    for item in items[1:]:
        found = maximum(found, item)
    return found


def _least(*items: Dim) -> Dim:
    found = items[0] if items else _fail()
    for item in items[1:]:
        found = minimum(found, item)
    return found


def _size(x: Dim) -> Dim:
    return maximum(x, -x)


def _fail() -> Dim:
    message = "no operands"
    raise TypeError(message)


def _shift(x: Dim, by: Dim) -> Any:
    return _mul(x, _pow(2, by)) if isinstance(by, int) and by >= 0 else OPAQUE


def _shifted_back(x: Dim, by: Dim) -> Any:
    return x // 2**by if isinstance(by, int) and 0 <= by < math.log2(2**62) else OPAQUE


_MARKS = {
    "+": "Add",
    "-": "Sub",
    "*": "Mul",
    "/": "IntTrueDiv",
    "//": "FloorDiv",
    "%": "PythonMod",
    **dict.fromkeys(("<=", ">=", "==", "!=", "<", ">"), "GreaterThan"),
}
_FUNCTIONS: dict[str, Callable[..., Any] | None] = {
    "Add": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Pow": _pow,
    "PowByNatural": _pow,
    "Integer": _identity,
    "Identity": _identity,
    "Abs": _size,
    "Max": _greatest,
    "Min": _least,
    "FloorDiv": _floor,
    "CleanDiv": _floor,
    "Mod": _remainder,
    "PythonMod": _remainder,
    "CeilDiv": _ceiling,
    "ModularIndexing": _modular,
    "IntTrueDiv": _divided,
    "LShift": _shift,
    "RShift": _shifted_back,
    # Conditions and floats: valid expressions, but not dims.
    **dict.fromkeys(
        (
            *("GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan", "Equality", "Unequality"),
            *("And", "Or", "Not", "Where", "Piecewise", "ExprCondPair", "Rational", "Tuple"),
            *("FloatPow", "FloatTrueDiv", "ToFloat", "TruncToFloat", "TruncToInt", "CeilToInt"),
            *("FloorToInt", "RoundToInt", "RoundDecimal", "IsNonOverlappingAndDenseIndicator"),
            *("OpaqueUnaryFn_sqrt", "OpaqueUnaryFn_log2", "OpaqueUnaryFn_exp", "Float"),
        )
    ),
}
"""Functions in sizes; `None` makes the expression `OPAQUE`."""

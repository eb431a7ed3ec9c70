"""The grammar of dims as text, read with any arithmetic."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from graphport.core.dims.terms import FARTHEST, MOST_CHARACTERS, MOST_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TOKEN = re.compile(r"(?P<number>[0-9]+)|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>//|\*\*|[-+*/%(),])")
FUNCTIONS = frozenset({"max", "min"})
"""Names that are functions of two operands or more."""
_DIGITS = len(str(FARTHEST))
_MOST_BRACKETS = 3 * MOST_DEPTH  # a nested atom is written with at most three pairs of brackets

N = TypeVar("N")


class Arithmetic(NamedTuple, Generic[N]):
    """The operations that convert numbers, names and signs to values."""

    number: Callable[[int], N]
    named: Callable[[str], N]
    negative: Callable[[N], N]
    operations: Mapping[str, Callable[[N, N], N]]
    """By sign (`+`, `-`, `*`, `/`, `//`, `%`, `**`) and by the name of a function of two operands or more."""
    functions: Mapping[str, Callable[[N], N]] = MappingProxyType({})
    """Functions of one operand by name."""


def value_of(text: str, arithmetic: Arithmetic[N]) -> N | None:
    """Evaluate an expression; `None` if the text is invalid or too long. Exceptions of the arithmetic are passed on."""
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        return _Parser(text, arithmetic).parse_all()
    except _Refused:
        return None


class _Refused(Exception):  # noqa: N818  not a fault: the text is a name
    """The text is not an expression."""


class _Parser(Generic[N]):
    """Reads sums, products and brackets by descent, no deeper than `_MOST_BRACKETS`."""

    def __init__(self, text: str, arithmetic: Arithmetic[N]) -> None:
        self._by = arithmetic
        self._tokens: list[tuple[str, str]] = []
        self._place = 0
        self._brackets = 0
        start = 0
        while start < len(text):
            token = TOKEN.match(text, start)
            if token is None:
                raise _Refused
            kind = token.lastgroup or ""
            self._tokens.append((kind, token[kind]))
            start = token.end()

    def parse_all(self) -> N:
        dim = self._sum()
        if self._place < len(self._tokens):
            raise _Refused
        return dim

    def _next(self) -> tuple[str, str]:
        if self._place == len(self._tokens):
            raise _Refused
        self._place += 1
        return self._tokens[self._place - 1]

    def _sign(self, *signs: str) -> str | None:
        """Consume and return the next sign if it is one of `signs`, else return `None`."""
        if self._place < len(self._tokens):
            kind, text = self._tokens[self._place]
            if kind == "sign" and text in signs:
                self._place += 1
                return text
        return None

    def _demand(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise _Refused

    def _sum(self) -> N:
        total = self._by.negative(self._product()) if self._sign("-") else self._product()
        while sign := self._sign("+", "-"):
            total = self._by.operations[sign](total, self._product())
        return total

    def _product(self) -> N:
        total = self._factor()
        while sign := self._sign("*", "//", "%", "/"):
            total = self._operation(sign)(total, self._factor())
        return total

    def _operation(self, sign: str) -> Callable[[N, N], N]:
        if sign not in self._by.operations:
            raise _Refused
        return self._by.operations[sign]

    def _factor(self) -> N:
        base = self._atom()
        return self._operation("**")(base, self._atom()) if self._sign("**") else base

    def _atom(self) -> N:
        kind, text = self._next()
        if kind == "number" and len(text) <= _DIGITS:
            return self._by.number(int(text))
        if kind == "name":
            return self._named(text)
        if kind == "quoted":
            return self._by.named(text.replace("``", "`"))
        if text != "(":
            raise _Refused
        return self._bracketed()

    def _named(self, name: str) -> N:
        if name in self._by.operations:
            return self._call(self._by.operations[name])
        if name in self._by.functions:
            self._demand("(")
            return self._by.functions[name](self._bracketed())
        return self._by.named(name)

    def _bracketed(self) -> N:
        if self._brackets == _MOST_BRACKETS:
            raise _Refused
        self._brackets += 1
        dim = self._sum()
        self._demand(")")
        self._brackets -= 1
        return dim

    def _call(self, function: Callable[[N, N], N]) -> N:
        self._demand("(")
        if self._brackets == _MOST_BRACKETS:
            raise _Refused
        self._brackets += 1
        dim = self._sum()
        while self._sign(","):
            dim = function(dim, self._sum())
        self._demand(")")
        self._brackets -= 1
        return dim

"""Dims as text, and text as dims."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.dims.intervals import Remainder, split_remainders
from graphport.core.dims.symbolic import Dim, Symbol, Symbolic, TooLong, dim_from, maximum, minimum, single
from graphport.core.dims.terms import (
    FARTHEST,
    MAXIMUM,
    MOST_CHARACTERS,
    MOST_DEPTH,
    Atom,
    Extreme,
    Quotient,
    Terms,
    Variable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(r"(?P<number>[0-9]+)|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>//|[-+*%(),])")
_REAL = re.compile(r"[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)", re.ASCII)
_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {"max": maximum, "min": minimum}
_Piece = tuple[int, list[str]]  # coefficient and texts of the factors
_DIGITS = len(str(FARTHEST))
_MOST_BRACKETS = 3 * MOST_DEPTH  # a nested atom is written in at most three pairs of them


def parse_dim(text: str, symbols: Mapping[str, Symbolic] | None = None) -> Dim:
    """The dim whose `str` is the text; any other text is the name of one symbol, so that `str` gives the text again.

    `N+1`, `(W+1)//2`, `max(N,1)` and `7` are read as expressions; `batch size`, `?`, `1+N`, `N*` and `-1` are names.
    Names in `symbols` get that symbol, others become symbols from 0 upwards.

    Raises:
        ValueError: the text is empty.
    """
    known = symbols or {}

    def named(name: str) -> Symbolic:
        return known[name] if name in known else Symbol(name)

    # Bounds may simplify what the text says; whether it is an expression does not depend on them.
    plain = _read(text, lambda name: Symbol(name, None))
    if plain is None or str(plain) != text:
        return named(text)
    dim = _read(text, named)
    return named(text) if dim is None else dim


def expression_of(text: str, symbols: Mapping[str, Symbolic] | None = None) -> Dim | None:
    """The dim that an expression in any spelling is, `None` where the text is none; names are as for `parse_dim`."""
    known = symbols or {}
    return _read(text, lambda name: known[name] if name in known else Symbol(name))


def dim_name(dim: Symbolic) -> str:
    """What files call the dim: a symbol as it is, though it looks like a real number to a person (`361.0`)."""
    atom = single(dim)
    return _lone_name(atom.name) if isinstance(atom, Variable) else text_of(dim.terms)


def text_of(terms: Terms) -> str:
    """The text of terms, which `parse_dim` reads back."""
    atom = single(dim_from(terms))
    if isinstance(atom, Variable):
        return _backquoted(atom.name) if _REAL.fullmatch(atom.name) else _lone_name(atom.name)
    remainders, others = split_remainders(terms)
    constant = others[-1][1] if others and not others[-1][0] else 0
    body = others[:-1] if constant else others
    pieces = [_remainder_piece(part) for part in remainders]
    pieces += [(coefficient, [_atom_text(atom) for atom in monomial]) for monomial, coefficient in body]
    if constant:
        pieces.append((constant, []))
    if pieces[0][0] < 0:
        pieces.insert(0, pieces.pop(next((place for place, piece in enumerate(pieces) if piece[0] > 0), 0)))
    return "".join(_piece_text(*piece, first=place == 0) for place, piece in enumerate(pieces))


def _remainder_piece(part: Remainder) -> _Piece:
    text = f"{_operand_text(part.numerator)}%{_operand_text(part.denominator)}"
    return part.scale, [*map(_atom_text, part.cofactor), text]


def _piece_text(coefficient: int, factors: list[str], *, first: bool) -> str:
    sign = "-" if coefficient < 0 else "" if first else "+"
    size = abs(coefficient)
    if not factors:
        return f"{sign}{size}"
    if size == 1 and len(factors) == 1 and sign != "-":
        return sign + factors[0]
    bracketed = [f"({factor})" if _is_division(factor) else factor for factor in factors]
    return sign + "*".join(bracketed if size == 1 else [str(size), *bracketed])


def _is_division(factor: str) -> bool:
    """Whether the text of a factor has an operator outside of brackets and quotes."""
    depth = 0
    for token in _TOKEN.finditer(factor):
        sign = token["sign"]
        depth += {"(": 1, ")": -1}.get(sign or "", 0)
        if sign in ("//", "%") and depth == 0:
            return True
    return False


def _atom_text(atom: Atom) -> str:
    match atom:
        case Variable():
            return _quoted(atom.name)
        case Quotient():
            return f"{_operand_text(atom.numerator)}//{_operand_text(atom.denominator)}"
        case Extreme():
            function = "max" if atom.kind == MAXIMUM else "min"
            return f"{function}({','.join(_inner_text(operand) for operand in atom.operands)})"


def _inner_text(terms: Terms) -> str:
    """Text of an expression within another one: unlike alone, a name is quoted here if it needs to be."""
    atom = single(dim_from(terms))
    if isinstance(atom, Variable):
        return _quoted(atom.name)
    return text_of(terms) if terms and terms[0][0] else str(dim_from(terms))


def _operand_text(terms: Terms) -> str:
    atom = single(dim_from(terms))
    number = dim_from(terms)
    bare = isinstance(atom, (Variable, Extreme)) or (isinstance(number, int) and number >= 0)
    return _inner_text(terms) if bare else f"({_inner_text(terms)})"


def _quoted(name: str) -> str:
    if _NAME.fullmatch(name) and name not in _FUNCTIONS:
        return name
    return _backquoted(name)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _lone_name(name: str) -> str:
    """The plain name, quoted only where it would be read as another expression."""
    if _NAME.fullmatch(name):
        return name
    other = _read(name, lambda inner: Symbol(inner, None))
    return name if other is None or str(other) != name else _backquoted(name)


class _Refused(Exception):  # noqa: N818  not a fault: the text is a name
    """The text is not an expression."""


def _read(text: str, named: Callable[[str], Symbolic]) -> Dim | None:
    """The dim that the text says, `None` where it says none."""
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        dim = _Reader(text, named).whole()
    except (_Refused, TooLong, ZeroDivisionError):  # what divides by 0 is no extent
        return None
    return None if isinstance(dim, int) and dim < 0 else dim


class _Reader:
    """Reads sums, products and brackets by descent, no deeper than `_MOST_BRACKETS`."""

    def __init__(self, text: str, named: Callable[[str], Symbolic]) -> None:
        self._named = named
        self._tokens: list[tuple[str, str]] = []
        self._place = 0
        self._brackets = 0
        start = 0
        while start < len(text):
            token = _TOKEN.match(text, start)
            if token is None:
                raise _Refused
            kind = token.lastgroup or ""
            self._tokens.append((kind, token[kind]))
            start = token.end()

    def whole(self) -> Dim:
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
        """The next sign if it is one of these; `None` and no step otherwise."""
        if self._place < len(self._tokens):
            kind, text = self._tokens[self._place]
            if kind == "sign" and text in signs:
                self._place += 1
                return text
        return None

    def _demand(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise _Refused

    def _sum(self) -> Dim:
        total: Dim = -self._product() if self._sign("-") else self._product()
        while sign := self._sign("+", "-"):
            term = self._product()
            total = total + term if sign == "+" else total - term
        return total

    def _product(self) -> Dim:
        total = self._factor()
        while sign := self._sign("*", "//", "%"):
            factor = self._factor()
            total = total * factor if sign == "*" else total // factor if sign == "//" else total % factor
        return total

    def _factor(self) -> Dim:
        kind, text = self._next()
        if kind == "number" and len(text) <= _DIGITS:
            return int(text)
        if kind == "name":
            return self._call(_FUNCTIONS[text]) if text in _FUNCTIONS else self._named(text)
        if kind == "quoted":
            return self._named(text.replace("``", "`"))
        if text != "(":
            raise _Refused
        return self._bracketed()

    def _bracketed(self) -> Dim:
        if self._brackets == _MOST_BRACKETS:
            raise _Refused
        self._brackets += 1
        dim = self._sum()
        self._demand(")")
        self._brackets -= 1
        return dim

    def _call(self, function: Callable[[Dim, Dim], Dim]) -> Dim:
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

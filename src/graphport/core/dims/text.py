"""Dims as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.dims.grammar import FUNCTIONS, TOKEN
from graphport.core.dims.intervals import Remainder, split_remainders
from graphport.core.dims.terms import MAXIMUM, Atom, Extreme, Quotient, Terms, Variable, lone_atom

if TYPE_CHECKING:
    from collections.abc import Callable

_NAME = re.compile(r"[^\W\d]\w*")
_REAL = re.compile(r"[-+]?(?:(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)", re.ASCII)
_Piece = tuple[int, list[str]]  # coefficient and texts of the factors


def text_of(terms: Terms, is_expression: Callable[[str], bool]) -> str:
    """Return the text of terms in the syntax of `parse_dim`; `is_expression` tests whether a name must be quoted."""
    atom = lone_atom(terms)
    if isinstance(atom, Variable):
        return _backquoted(atom.name) if _REAL.fullmatch(atom.name) else lone_name(atom.name, is_expression)
    return _sum_text(terms)


def lone_name(name: str, is_expression: Callable[[str], bool]) -> str:
    """Return the text of a single symbol; it is quoted only if it would be parsed as another expression."""
    return _backquoted(name) if not _NAME.fullmatch(name) and is_expression(name) else name


def _sum_text(terms: Terms) -> str:
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
    for token in TOKEN.finditer(factor):
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
    if not terms or not terms[0][0]:
        return str(terms[0][1] if terms else 0)
    atom = lone_atom(terms)
    return _quoted(atom.name) if isinstance(atom, Variable) else _sum_text(terms)


def _operand_text(terms: Terms) -> str:
    bare = isinstance(lone_atom(terms), (Variable, Extreme)) or not terms or (not terms[0][0] and terms[0][1] >= 0)
    return _inner_text(terms) if bare else f"({_inner_text(terms)})"


def _quoted(name: str) -> str:
    if _NAME.fullmatch(name) and name not in FUNCTIONS:
        return name
    return _backquoted(name)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

"""Dims as nested calls, `add(mul(2,size(@0,2)),1)`, for formats that have texts which compute lengths."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.dims.symbolic import Dim, Symbolic, bounds, dim_from
from graphport.core.dims.terms import MAXIMUM, Quotient, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphport.core.dims.terms import Atom, Monomial, Terms


class Functions(NamedTuple):
    """A format's names of functions on dims; each has two operands."""

    add: str
    sub: str
    mul: str
    floor_divide: str
    maximum: str
    minimum: str


def prefixed(dim: Dim, functions: Functions, length: Callable[[Symbolic], str | None]) -> str | None:
    """Return the expression of `dim` in prefix notation; `length` returns the expression of a tensor's dim, or `None`.

    Returns `None` if a symbol is not a dim of any tensor, or for a quotient that may be negative: formats round it
    differently.
    """
    if isinstance(dim, int):
        return str(dim)
    known = length(dim)
    return known if known is not None else _sum(dim.terms, functions, length)


def _sum(terms: Terms, functions: Functions, length: Callable[[Symbolic], str | None]) -> str | None:
    """Write positive terms first, then subtract the negative ones."""
    parts = [(abs(coefficient), monomial, coefficient < 0) for monomial, coefficient in terms]
    texts: dict[bool, list[str]] = {False: [], True: []}
    for coefficient, monomial, is_less in parts:
        text = _product(coefficient, monomial, functions, length)
        if text is None:
            return None
        texts[is_less].append(text)
    total = _chained(functions.add, texts[False]) if texts[False] else "0"
    return _chained(functions.sub, [total, *texts[True]])


def _product(
    coefficient: int, monomial: Monomial, functions: Functions, length: Callable[[Symbolic], str | None]
) -> str | None:
    factors = [_atom(atom, functions, length) for atom in monomial]
    known = [factor for factor in factors if factor is not None]
    if len(known) < len(factors):
        return None
    return _chained(functions.mul, [*([str(coefficient)] if coefficient != 1 or not known else []), *known])


def _atom(atom: Atom, functions: Functions, length: Callable[[Symbolic], str | None]) -> str | None:
    whole = dim_from((((atom,), 1),))
    known = length(whole) if isinstance(whole, Symbolic) else None
    if known is not None or isinstance(atom, Variable):
        return known
    if isinstance(atom, Quotient):
        numerator, denominator = dim_from(atom.numerator), dim_from(atom.denominator)
        low, least = bounds(numerator)[0], bounds(denominator)[0]
        if low is None or low < 0 or least is None or least < 1:
            return None
        parts, name = [prefixed(part, functions, length) for part in (numerator, denominator)], functions.floor_divide
    else:
        parts = [prefixed(dim_from(part), functions, length) for part in atom.operands]
        name = functions.maximum if atom.kind == MAXIMUM else functions.minimum
    texts = [part for part in parts if part is not None]
    return _chained(name, texts) if len(texts) == len(parts) else None


def _chained(name: str, texts: Iterable[str]) -> str:
    return reduce(lambda x, y: f"{name}({x},{y})", texts)

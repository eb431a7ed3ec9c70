"""Equations between dims: solving for an atom, and the length limit of expressions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from graphport.core.dims.symbolic import Dim, Symbolic, bounds, dim_from
from graphport.core.dims.terms import Atom, Extreme, Monomial, Quotient, Terms, shared_factor, variables

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_TEXT = 40
"""Maximum length, in characters, of an expression used as a dim; a longer one gets a name."""

_MOST_REMEMBERED = 4096


# The layers of a network repeat equal comparisons.
@lru_cache(maxsize=_MOST_REMEMBERED)
def is_short(dim: Dim) -> bool:
    """Whether a dim is short enough to be used in a fact."""
    return isinstance(dim, int) or len(str(dim)) <= MOST_TEXT


def primitive(dim: Dim) -> Dim:
    """Divide the dim by the positive factor that all its terms share."""
    if isinstance(dim, int):
        return dim
    return split_factor(dim)[1]


def split_factor(dim: Symbolic) -> tuple[Dim, Dim]:
    """Return a positive common factor of all terms, and the terms divided by it."""
    number = math.gcd(*(coefficient for _, coefficient in dim.terms))
    common = tuple([atom for atom in shared_factor(dim.terms) if atom.lower and atom.lower[0] > 0])
    if number == 1 and not common:
        return 1, dim
    factor = dim_from(((common, number),))
    return factor, dim // factor


def solutions(terms: Terms) -> Iterator[tuple[Atom, Dim]]:
    """Yield each atom that occurs once, as a term with coefficient 1 or -1, and its value if the terms sum to 0."""
    for monomial, coefficient in terms:
        if len(monomial) != 1 or abs(coefficient) != 1:
            continue
        (atom,) = monomial
        rest = tuple(term for term in terms if term[0] != monomial)
        if not any(occurs(atom, other) for other, _ in rest):
            yield atom, -coefficient * dim_from(rest)


def mentions(dim: Dim, atom: Atom) -> bool:
    """Whether an atom is a part of a dim."""
    return not isinstance(dim, int) and any(occurs(atom, monomial) for monomial, _ in dim.terms)


def occurs(atom: Atom, monomial: Monomial) -> bool:
    """Whether an atom is a factor, or a part of one."""
    pending: list[Atom] = list(monomial)
    while pending:
        other = pending.pop()
        if other == atom:
            return True
        parts = other.operands if isinstance(other, Extreme) else ()
        if isinstance(other, Quotient):
            parts = other.numerator, other.denominator
        pending += [inner for part in parts for factors, _ in part for inner in factors]
    return False


def names_of(atom: Atom) -> frozenset[str]:
    """Return the names of the symbols in an atom."""
    return frozenset(variable.name for variable in variables((((atom,), 1),)))


def lies_within(dim: Dim, atom: Atom) -> bool:
    """Whether the dim's bounds are within those of the atom, so that earlier decisions stay valid."""
    low, high = bounds(dim)
    is_above = not atom.lower or (low is not None and low >= atom.lower[0])
    return is_above and (not atom.upper or (high is not None and high <= atom.upper[0]))

"""Polynomials as nested tuples: atoms, monomials, terms, and the limits of their size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_TERMS = 128
"""Monomials of one polynomial."""
MOST_PRODUCTS = 1024
"""Products of monomials formed by one multiplication."""
MOST_DEGREE = 32
"""Factors of one monomial."""
MOST_SIZE = 600
"""Symbols, coefficients and operations of one expression, nested ones included."""
MOST_DEPTH = 24
"""Divisions, maxima and minima within each other."""
MOST_OPERANDS = 16
"""Operands of one maximum or minimum."""
MOST_BITS = 256
"""Bits of a coefficient or a divisor; bounds farther from zero count as unbounded."""
MOST_CHARACTERS = 65_536
"""Length of a text that is read as an expression."""
FARTHEST = 1 << MOST_BITS
"""The first number that is too large."""

_NAME_CHARACTERS = 32  # characters of a name that count as one towards MOST_SIZE

# An end of an interval inside an atom: (n,) or, where unbounded, (). Unlike None it sorts, and so atoms sort as tuples.
End = tuple[int, ...]
Interval = tuple[float, float]  # exact integers, or an infinity


class Undecided(Exception):  # noqa: N818  not a fault: the answer depends on numbers that are known at run time only
    """A comparison or conversion of symbolic values is true for some admissible values and false for others."""


class TooLong(Undecided):
    """The result of an operation on dims exceeds the limits above."""


class Variable(NamedTuple):
    """A symbol with its bounds."""

    kind: int
    name: str
    lower: End
    upper: End
    size: int
    depth: int


class Quotient(NamedTuple):
    """A floor division with a remainder, and the bounds of its value."""

    kind: int
    numerator: Terms
    denominator: Terms
    lower: End
    upper: End
    size: int
    depth: int


class Extreme(NamedTuple):
    """A maximum or minimum, by `kind`, with the bounds of its value."""

    kind: int
    operands: tuple[Terms, ...]
    lower: End
    upper: End
    size: int
    depth: int


VARIABLE, QUOTIENT, MAXIMUM, MINIMUM = range(4)

Atom = Variable | Quotient | Extreme
Monomial = tuple[Atom, ...]  # sorted, repeated for powers; () is the constant
Terms = tuple[tuple[Monomial, int], ...]  # higher degrees first, the constant last, no coefficient 0


def order(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    """Return the sort key of a term."""
    return -len(term[0]), term[0]


def sorted_terms(coefficients: Mapping[Monomial, int]) -> Terms:
    """Return the canonical terms of coefficients by monomial, without coefficients of 0."""
    return tuple(sorted((term for term in coefficients.items() if term[1]), key=order))


def extent(terms: Terms) -> tuple[int, int]:
    """Size and depth of terms, in the units of `MOST_SIZE` and `MOST_DEPTH`."""
    size = len(terms)
    depth = 0
    for monomial, _ in terms:
        for atom in monomial:
            size += atom.size
            if atom.depth > depth:  # noqa: PLR1730  a call takes longer, and this runs for every atom of every dim
                depth = atom.depth
    return size, depth


def extent_of_all(parts: tuple[Terms, ...]) -> tuple[int, int]:
    """Return size and depth of an atom with the operands `parts`."""
    extents = [extent(part) for part in parts]
    return 1 + sum(size for size, _ in extents), 1 + max(depth for _, depth in extents)


def new_variable(name: str, lower: int | None, upper: int | None) -> Variable:
    """A symbol as an atom; bounds are inclusive, `None` for unbounded."""
    ends = (() if lower is None else (int(lower),), () if upper is None else (int(upper),))
    return Variable(VARIABLE, name, *ends, size=1 + len(name) // _NAME_CHARACTERS, depth=0)


def times(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    return tuple(sorted(left + right)) if left and right else left or right


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """Return the monomial divided by the factor; `None` if it is not divisible."""
    if not factor:
        return monomial
    left = list(monomial)
    return tuple(left) if all(_remove_atom(left, atom) for atom in factor) else None


def shared_factor(terms: Terms) -> Monomial:
    """The factors that all terms have."""
    first, *others = (list(monomial) for monomial, _ in terms)
    for left in others:
        first = [atom for atom in first if _remove_atom(left, atom)]
    return tuple(first)


def _remove_atom(left: list[Atom], atom: Atom) -> bool:
    """Decrement the count of an atom; return whether it was positive."""
    if atom not in left:
        return False
    left.remove(atom)
    return True


def lone_atom(terms: Terms) -> Atom | None:
    """Return the atom that the terms consist of; `None` if they are not a single atom."""
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        return terms[0][0][0]
    return None


def variables(terms: Terms) -> Iterator[Variable]:
    """The variables in terms, nested ones included, as often as they occur."""
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, Variable):
                yield atom
                continue
            for part in terms_of_atom(atom):
                yield from variables(part)


def terms_of_atom(atom: Quotient | Extreme) -> tuple[Terms, ...]:
    """Return the terms that an atom contains."""
    return (atom.numerator, atom.denominator) if isinstance(atom, Quotient) else atom.operands

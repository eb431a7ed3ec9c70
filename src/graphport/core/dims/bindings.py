"""Numbers and other expressions in the place of symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims.intervals import highest, lowest
from graphport.core.dims.symbolic import Dim, Symbolic, extreme_of, opaque_symbol, product, terms_of
from graphport.core.dims.terms import Atom, Extreme, Quotient, Terms, Variable, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def substitute(dim: Dim, bindings: Mapping[str, Dim]) -> Dim:
    """The dim with all named symbols replaced at once; names that do not occur are ignored.

    A replacement must lie within the bounds of its symbol: what the bounds have decided is not undone. An opaque symbol
    may hide any name, so every non-empty replacement turns it into another opaque symbol of the same bounds.
    """
    if isinstance(dim, int) or not bindings:
        return dim

    def replacement(variable: Variable) -> Dim:
        if variable.name in bindings:
            return bindings[variable.name]
        if variable.opaque:
            bound = tuple(sorted((name, terms_of(value)) for name, value in bindings.items()))
            return opaque_symbol((variable, bound), (lowest(variable), highest(variable)))
        return Symbolic((((variable,), 1),))

    return rebuilt(dim.terms, replacement)


def evaluate(dim: Dim, bindings: Mapping[str, int]) -> int:
    """The number that the dim is for the given numbers of its symbols.

    Raises:
        KeyError: a symbol of the dim has no number.
        ZeroDivisionError: a divisor that was not cancelled is 0.
    """
    if isinstance(dim, int):
        return dim
    number = rebuilt(dim.terms, lambda variable: int(bindings[variable.name]))
    if isinstance(number, Symbolic):
        raise TypeError(f"{number} is left of {dim} although all symbols are numbers")
    return number


def symbols(dim: Dim) -> dict[str, Symbolic]:
    """The symbols that occur in the dim, by name, in the order of names."""
    if isinstance(dim, int):
        return {}
    found = {variable.name: Symbolic((((variable,), 1),)) for variable in variables(dim.terms)}
    return dict(sorted(found.items()))


def rebuilt(terms: Terms, replacement: Callable[[Variable], Dim]) -> Dim:
    """The dim of `terms` with another one in the place of every variable."""
    total: Dim = 0
    for monomial, coefficient in terms:
        total = total + coefficient * product([_rebuilt_atom(atom, replacement) for atom in monomial])
    return total


def _rebuilt_atom(atom: Atom, replacement: Callable[[Variable], Dim]) -> Dim:
    match atom:
        case Variable():
            return replacement(atom)
        case Quotient():
            return rebuilt(atom.numerator, replacement) // rebuilt(atom.denominator, replacement)
        case Extreme():
            return extreme_of(atom.kind, [rebuilt(operand, replacement) for operand in atom.operands])

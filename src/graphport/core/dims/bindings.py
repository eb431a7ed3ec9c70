"""Numbers and other expressions in the place of symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims.symbolic import Dim, Symbolic, dim_from, divided, extreme_of, product
from graphport.core.dims.terms import Atom, Extreme, Quotient, Terms, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def substitute(dim: Dim, bindings: Mapping[str, Dim]) -> Dim:
    """Replace all named symbols of the dim at once; names that do not occur are ignored.

    A replacement must lie within the bounds of its symbol, because simplifications rely on the bounds.
    """
    if isinstance(dim, int) or not bindings:
        return dim
    return rebuilt(dim.terms, lambda atom: bindings.get(atom.name) if isinstance(atom, Variable) else None)


def evaluate(dim: Dim, bindings: Mapping[str, int]) -> int:
    """Evaluate the dim for the given values of its symbols.

    Raises:
        KeyError: a symbol of the dim has no value.
    """
    if isinstance(dim, int):
        return dim
    number = rebuilt(dim.terms, lambda atom: int(bindings[atom.name]) if isinstance(atom, Variable) else None)
    if isinstance(number, Symbolic):
        raise TypeError(f"{dim} evaluates to the symbolic {number} although all symbols are bound")
    return number


def symbols(dim: Dim) -> dict[str, Symbolic]:
    """The symbols that occur in the dim, by name, in the order of names."""
    if isinstance(dim, int):
        return {}
    return {atom.name: Symbolic((((atom,), 1),)) for atom in dim.variables}


def rebuilt(terms: Terms, replacement: Callable[[Atom], Dim | None]) -> Dim:
    """Rebuild a dim from terms, with each atom replaced by `replacement(atom)`; for `None` its operands are rebuilt."""
    total: Dim = 0
    for monomial, coefficient in terms:
        total = total + coefficient * product([_rebuilt_atom(atom, replacement) for atom in monomial])
    return total


def _rebuilt_atom(atom: Atom, replacement: Callable[[Atom], Dim | None]) -> Dim:
    found = replacement(atom)
    if found is not None:
        return found
    match atom:
        case Variable():
            return dim_from((((atom,), 1),))
        case Quotient():
            return divided(rebuilt(atom.numerator, replacement), rebuilt(atom.denominator, replacement))
        case Extreme():
            return extreme_of(atom.kind, [rebuilt(operand, replacement) for operand in atom.operands])

"""Comparisons of dims that hold for all admissible values of their symbols."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from graphport.core.dims.bindings import rebuilt
from graphport.core.dims.intervals import is_linear
from graphport.core.dims.symbolic import Dim, Symbol, Symbolic, Undecided, bounds, dim_from, terms_of
from graphport.core.dims.terms import MOST_CASES, Atom, Quotient, Terms, Variable, nested_variables, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def decide_equal(a: Dim, b: Dim) -> bool | None:
    """Whether both are equal: `True` or `False` if that holds for all admissible values, `None` if not proven."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return _decided(a - b, _is_zero)


def settle_equal(a: Dim, b: Dim) -> bool:
    """Whether both are equal, where what follows is another thing if they are.

    Raises:
        Undecided: they are for some admissible values and are not for others.
    """
    answer = decide_equal(a, b)
    if answer is None:
        message = f"it means another thing where {a} is {b}, and only a run tells; bind the inputs"
        raise Undecided(message)
    return answer


def decide_less(a: Dim, b: Dim) -> bool | None:
    """Whether `a < b`: `True` or `False` if that holds for all admissible values, `None` if not proven."""
    # Most questions are about an extent and a number, and most answers are in the bounds that the extent remembers.
    (low, high), (least, most) = bounds(a), bounds(b)
    if high is not None and least is not None and high < least:
        return True
    if low is not None and most is not None and low >= most:
        return False
    return _decided(a - b, _is_negative)


def _decided(dim: Dim, claim: Callable[[Dim], bool | None]) -> bool | None:
    answer = claim(dim)
    if answer is not None or isinstance(dim, int):
        return answer
    if is_linear(dim.terms) and not any(atom.depth for monomial, _ in dim.terms for atom in monomial):
        return None  # the interval is exact, and so is the divisibility
    # Counted from their bounds all symbols are at least 0, so that a polynomial without a minus sign is, too.
    answer = claim(_counted_from_bounds(dim))
    if answer is not None:
        return answer
    answers = {claim(case) for case in _residue_cases(dim.terms)}
    return answers.pop() if len(answers) == 1 else None


def _is_zero(dim: Dim) -> bool | None:
    lower, upper = bounds(dim)
    if (lower is not None and lower > 0) or (upper is not None and upper < 0):
        return False
    if (lower, upper) == (0, 0):
        return True
    *body, (monomial, constant) = terms_of(dim)
    divisor = math.gcd(*(coefficient for _, coefficient in body))
    return False if not monomial and constant % divisor else None


def _is_negative(dim: Dim) -> bool | None:
    lower, upper = bounds(dim)
    if upper is not None and upper < 0:
        return True
    return False if lower is not None and lower >= 0 else None


def _counted_from_bounds(dim: Symbolic) -> Dim:
    def replacement(atom: Atom) -> Dim | None:
        if not isinstance(atom, Variable):
            return None
        if atom.lower:
            (lower,) = atom.lower
            return lower + Symbol(atom.name, 0, atom.upper[0] - lower if atom.upper else None)
        return atom.upper[0] - Symbol(atom.name, 0) if atom.upper else None

    return rebuilt(dim.terms, replacement)


def _residue_cases(terms: Terms) -> Iterator[Dim]:
    """The dim for all residues of its symbols by the divisors in it: divisions of linear terms come out even then."""
    modulus = _modulus(terms)
    if not 1 < modulus <= MOST_CASES:
        return
    divided = sorted(set(nested_variables(terms)))
    if not divided or modulus ** len(divided) > MOST_CASES:
        return
    for residues in itertools.product(range(modulus), repeat=len(divided)):
        choices = [_choice(variable, modulus, residue) for variable, residue in zip(divided, residues, strict=True)]
        values = {variable: choice for variable, choice in zip(divided, choices, strict=True) if choice is not None}
        if len(values) == len(divided):
            yield _counted(rebuilt(terms, lambda atom, values=values: _chosen(values, atom)))


def _chosen(values: Mapping[Variable, Dim], atom: Atom) -> Dim | None:
    return values.get(atom) if isinstance(atom, Variable) else None


def _counted(dim: Dim) -> Dim:
    return _counted_from_bounds(dim) if isinstance(dim, Symbolic) else dim


def _choice(variable: Variable, modulus: int, residue: int) -> Dim | None:
    """`modulus * k + residue`; `None` where no admissible value has that residue."""
    lower = -((residue - variable.lower[0]) // modulus) if variable.lower else None
    upper = (variable.upper[0] - residue) // modulus if variable.upper else None
    if lower is not None and upper is not None and lower > upper:
        return None
    return modulus * Symbol(variable.name, lower, upper) + residue


def _modulus(terms: Terms) -> int:
    """Least common multiple of the products of nested constant divisors; 0 where a divisor is symbolic or too large."""
    total = 1
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, Variable):
                continue
            inner = math.lcm(*(_modulus(part) for part in parts_of(atom)))
            if isinstance(atom, Quotient):
                divisor = dim_from(atom.denominator)
                inner *= divisor if isinstance(divisor, int) else 0
            total = math.lcm(total, inner)
            if not 0 < total <= MOST_CASES:
                return 0
    return total

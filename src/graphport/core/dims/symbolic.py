"""Symbolic dims and their arithmetic, which gives every expression one canonical form."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from graphport.core.dims.grammar import Arithmetic, value_of
from graphport.core.dims.intervals import end_of, interval_of, interval_quotient
from graphport.core.dims.terms import (
    FARTHEST,
    MAXIMUM,
    MINIMUM,
    MOST_DEGREE,
    MOST_DEPTH,
    MOST_OPERANDS,
    MOST_PRODUCTS,
    MOST_SIZE,
    MOST_TERMS,
    QUOTIENT,
    VARIABLE,
    Atom,
    Extreme,
    Monomial,
    Quotient,
    Terms,
    TooLong,
    Variable,
    extent,
    extent_of_all,
    lone_atom,
    new_variable,
    order,
    shared_factor,
    sorted_terms,
    terms_of_atom,
    times,
    variables,
    without,
)
from graphport.core.dims.text import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_DIVISION_STEPS = 64
_PAST_THE_LIMITS = "the dim expression exceeds the length limit"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Symbolic:
    """A canonical integer expression that is not a constant; created only by `Symbol`, `parse_dim` and arithmetic.

    Immutable; `==` and `hash` compare structure, so use `decide_equal` and `decide_less` to compare numbers.
    """

    terms: Terms
    _hash: int | None = field(default=None, init=False)
    _bounds: tuple[int | None, int | None] | None = field(default=None, init=False)
    _variables: tuple[Variable, ...] | None = field(default=None, init=False)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbolic) and self.terms == other.terms)

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self.terms)
            object.__setattr__(self, "_hash", known)
        return known

    def __reduce__(self) -> tuple[type[Symbolic], tuple[Terms]]:
        return Symbolic, (self.terms,)  # the hash of a text differs from process to process

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The symbols that occur, each once, in the order of names."""
        found = self._variables
        if found is None:
            found = tuple(sorted(set(variables(self.terms))))
            object.__setattr__(self, "_variables", found)
        return found

    def renamed(self, terms: Terms, names: tuple[Variable, ...]) -> Symbolic:
        """Return the expression with renamed symbols, whose sorted order must be that of the original symbols."""
        found = Symbolic(terms)
        object.__setattr__(found, "_bounds", self._bounds)
        object.__setattr__(found, "_variables", names)
        return found

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Inclusive bounds of the value, `None` where there is none; see `bounds`."""
        if self._bounds is None:
            lower, upper = interval_of(self.terms)
            ends = (None if math.isinf(lower) else int(lower), None if math.isinf(upper) else int(upper))
            object.__setattr__(self, "_bounds", ends)
            return ends
        return self._bounds

    def __str__(self) -> str:
        return text_of(self.terms, is_expression)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __neg__(self) -> Symbolic:
        return Symbolic(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __pos__(self) -> Symbolic:
        return self

    def __add__(self, other: Dim) -> Dim:
        right = as_dim(other)
        if right is None:
            return NotImplemented
        if isinstance(right, int):
            return _plus_constant(self.terms, right)
        sums = dict(self.terms)
        for monomial, coefficient in right.terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return _collected(sums)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        right = as_dim(other)
        return NotImplemented if right is None else self + -right

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        right = as_dim(other)
        if right is None:
            return NotImplemented
        if isinstance(right, Symbolic):
            return _multiplied(self.terms, right.terms)
        if right in (0, 1):
            return self if right else 0
        return _limited(tuple((monomial, coefficient * right) for monomial, coefficient in self.terms))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        right = as_dim(other)
        return NotImplemented if right is None else divided(self, right)

    def __rfloordiv__(self, other: Dim) -> Dim:
        left = as_dim(other)
        return NotImplemented if left is None else divided(left, self)

    def __mod__(self, other: Dim) -> Dim:
        right = as_dim(other)
        return NotImplemented if right is None else self - right * divided(self, right)

    def __rmod__(self, other: Dim) -> Dim:
        left = as_dim(other)
        return NotImplemented if left is None else left - self * divided(left, self)


Dim = int | Symbolic


def Symbol(  # noqa: N802  reads as a type
    name: str, lower: int | None = 1, upper: int | None = None
) -> Symbolic:
    """Create a symbol with any non-empty name and inclusive bounds, `None` for unbounded.

    Raises:
        ValueError: the name is empty, or no integer is within the bounds.
    """
    if not name:
        raise ValueError("a symbol needs a name")
    if lower is not None and upper is not None and lower > upper:
        raise ValueError(f"the bounds {lower} and {upper} of {name!r} contain no integer")
    return Symbolic((((new_variable(name, lower, upper),), 1),))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """The quotient `a / b` rounded up."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b) if b else 0
    if _at_least(b, 0):
        return (a + b - 1) // b
    return -(-a // b)


def maximum(a: Dim, b: Dim) -> Dim:
    """Return the maximum; one of the operands if the bounds decide."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else extreme_of(MAXIMUM, (a, b))


def minimum(a: Dim, b: Dim) -> Dim:
    """Return the minimum; one of the operands if the bounds decide."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else extreme_of(MINIMUM, (a, b))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all dims, 1 for none: the number of entries of a shape."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Return inclusive bounds of all values of the dim, `None` for unbounded.

    Computed by interval arithmetic: always valid, and tight if no symbol occurs twice.
    """
    return (dim, dim) if isinstance(dim, int) else dim.bounds


def as_dim(value: object) -> Dim | None:
    """Convert a dim, or a Python or NumPy integer, to a dim; `None` for anything else."""
    if type(value) is int or isinstance(value, Symbolic):
        return value
    return int(cast("int", value)) if isinstance(value, (int, np.integer)) else None


def terms_of(dim: Dim) -> Terms:
    """Return the terms of a dim; an integer is one term."""
    if isinstance(dim, Symbolic):
        return dim.terms
    return (((), dim),) if dim else ()


def dim_from(terms: Terms) -> Dim:
    """The dim of canonical terms that are within the limits."""
    if not terms:
        return 0
    return Symbolic(terms) if terms[0][0] else terms[0][1]


def _collected(coefficients: Mapping[Monomial, int]) -> Dim:
    return _limited(sorted_terms(coefficients))


def _atom(atom: Quotient | Extreme) -> Dim:
    if all(-FARTHEST < coefficient < FARTHEST for part in terms_of_atom(atom) for _, coefficient in part):
        return _limited((((atom,), 1),))
    raise TooLong(_PAST_THE_LIMITS)


def _limited(terms: Terms) -> Dim:
    """The dim of sorted terms."""
    if not terms or not terms[0][0]:
        return terms[0][1] if terms else 0
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1 and terms[0][0][0].kind == VARIABLE:
        return Symbolic(terms)  # a name may be as long as it likes
    size, depth = extent(terms)
    widest = max(max(coefficient, -coefficient) for _, coefficient in terms)
    fits = len(terms) <= MOST_TERMS and len(terms[0][0]) <= MOST_DEGREE and widest < FARTHEST
    if fits and size <= MOST_SIZE and depth <= MOST_DEPTH:
        return Symbolic(terms)
    raise TooLong(_PAST_THE_LIMITS)


def _plus_constant(terms: Terms, number: int) -> Dim:
    body, constant = (terms, 0) if terms[-1][0] else (terms[:-1], terms[-1][1])
    total = constant + number
    return _limited((*body, ((), total)) if total else body)


def _multiplied(left: Terms, right: Terms) -> Dim:
    if len(left) * len(right) > MOST_PRODUCTS:
        raise TooLong(_PAST_THE_LIMITS)
    sums: dict[Monomial, int] = {}
    for (monomial, coefficient), (other, factor) in itertools.product(left, right):
        key = times(monomial, other)
        sums[key] = sums.get(key, 0) + coefficient * factor
    return _collected(sums)


def divided(a: Dim, b: Dim) -> Dim:
    """Return `a // b` in canonical form.

    Every rule below is an integer identity for all `b` other than 0, and is applied again to the remaining terms.
    Therefore the numerator of a `Quotient` divided by its denominator is that quotient.
    """
    if isinstance(b, int):
        if b == 0:
            return 0
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b
    if terms_of(b)[0][1] < 0:
        a, b = -a, -b
    whole, rest = _split(terms_of(a), terms_of(b))
    if isinstance(rest, Symbolic) or rest:
        return whole + _proper(rest, b)
    return whole


def _proper(rest: Dim, b: Dim) -> Dim:
    """Return `rest // b` if no term of the rest is divisible by `b`."""
    if isinstance(b, int) and _is_ceiling(terms_of(rest)):
        return -divided(b - 1 - rest, b)
    smaller = _cancelled(terms_of(rest), terms_of(b))
    if smaller is not None:
        return divided(*smaller)
    merged = _merged(terms_of(rest), b)
    if merged is not None:
        return divided(*merged)
    numerator, denominator = terms_of(rest), terms_of(b)
    lower, upper = interval_quotient(interval_of(numerator), interval_of(denominator))
    if lower == upper:
        return int(lower)
    size, depth = extent_of_all((numerator, denominator))
    atom = Quotient(QUOTIENT, numerator, denominator, end_of(lower), end_of(upper), size, depth)
    return _atom(atom)


def _is_ceiling(rest: Terms) -> bool:
    """Whether the rest divided by a number is written as a negative ceiling: `(-H)//4` is `-((H+3)//4)`.

    This holds if the nested quotient that `_merged` removes has a minus sign or, without one, if the leading term has.
    """
    quotients = _lone_quotients(rest)
    return quotients[0][1] < 0 if len(quotients) == 1 else rest[0][1] < 0


def _lone_quotients(rest: Terms) -> list[tuple[Quotient, int]]:
    """Return the quotients by numbers that occur once as a term, with their sign."""
    alone = ((monomial[0], sign) for monomial, sign in rest if abs(sign) == 1 and len(monomial) == 1)
    return [(atom, sign) for atom, sign in alone if isinstance(atom, Quotient) and not atom.denominator[0][0]]


def _split(a: Terms, b: Terms) -> tuple[Dim, Dim]:
    """`whole` and `rest` with `a = whole * b + rest`."""
    if len(b) != 1:
        return _long_division(a, b)
    factor, divisor = b[0]
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in a:
        left = without(monomial, factor)
        if left is None:
            rest[monomial] = coefficient
            continue
        kept = coefficient % divisor
        # (H+31)//32 rather than 1+(H-1)//32, but H-(H+3)//4 in place of (3*H)//4: the residue nearest to 0 is unique
        # and keeps the ceiling -((-H)//4) as short as the floor.
        if monomial and 2 * kept > divisor:
            kept -= divisor
        whole[left] = (coefficient - kept) // divisor
        rest[monomial] = kept
    return _collected(whole), _collected(rest)


def _long_division(a: Terms, b: Terms) -> tuple[Dim, Dim]:
    (factor, divisor), *_ = b
    pending = dict(a)
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for _ in range(_DIVISION_STEPS):
        if not pending:
            break
        monomial, coefficient = min(pending.items(), key=order)
        left = without(monomial, factor)
        if left is None or coefficient % divisor:
            rest[monomial] = pending.pop(monomial)
            continue
        whole[left] = coefficient // divisor
        for other, scale in b:
            key = times(other, left)
            pending[key] = pending.get(key, 0) - whole[left] * scale
            if not pending[key]:
                del pending[key]
    # (H*W)//(H+W) is shorter than W + (-W*W)//(H+W).
    if pending or len(rest) >= len(a):
        return 0, dim_from(a)
    return _collected(whole), _collected(rest)


def _cancelled(rest: Terms, b: Terms) -> tuple[Dim, Dim] | None:
    """Return numerator and denominator divided by their common factor; `None` if there is none."""
    if not b[0][0]:
        return _cancelled_number(rest, b[0][1])
    common = math.gcd(*(coefficient for _, coefficient in rest), *(coefficient for _, coefficient in b))
    shared = shared_factor((*rest, *b))
    if common == 1 and not shared:
        return None
    return _reduced(rest, shared, common), _reduced(b, shared, common)


def _cancelled_number(rest: Terms, divisor: int) -> tuple[Dim, Dim] | None:
    common = math.gcd(divisor, *(coefficient for monomial, coefficient in rest if monomial))
    if common == 1:
        return None
    # (g*x + c)//(g*m) is (x + c//g)//m for all integers x and positive g and m.
    return _collected({monomial: coefficient // common for monomial, coefficient in rest}), divisor // common


def _reduced(terms: Terms, factor: Monomial, divisor: int) -> Dim:
    left = ((without(monomial, factor), coefficient) for monomial, coefficient in terms)
    return _collected({monomial: coefficient // divisor for monomial, coefficient in left if monomial is not None})


def _merged(rest: Terms, b: Dim) -> tuple[Dim, Dim] | None:
    """Return numerator and denominator of `(x//d + k)//b` merged to `(x + d*k)//(d*b)`; `None` for other forms."""
    if len(rest) == 1 and rest[0][1] == 1 and _at_least(b, 0):
        atom = single(dim_from(rest))
        return (dim_from(atom.numerator), dim_from(atom.denominator) * b) if isinstance(atom, Quotient) else None
    quotients = _lone_quotients(rest)
    if not isinstance(b, int) or len(quotients) != 1:
        return None
    ((quotient, _),) = quotients
    divisor = dim_from(quotient.denominator)
    others = _collected({monomial: coefficient for monomial, coefficient in rest if monomial != (quotient,)})
    return dim_from(quotient.numerator) + divisor * others, divisor * b


def extreme_of(kind: int, dims: Iterable[Dim]) -> Dim:
    """The maximum or minimum, by `kind`, of dims."""
    kept: list[Dim] = []
    for dim in sorted(_flattened(kind, dims), key=lambda dim: (isinstance(dim, int), terms_of(dim))):
        if any(_dominates(kind, other, dim) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(kind, dim, other)]
        kept.append(dim)
    if len(kept) == 1:
        return kept[0]
    operands = tuple(terms_of(dim) for dim in kept)
    choose = max if kind == MAXIMUM else min
    intervals = [interval_of(operand) for operand in operands]
    lower, upper = choose(low for low, _ in intervals), choose(high for _, high in intervals)
    if len(operands) > MOST_OPERANDS:
        raise TooLong(_PAST_THE_LIMITS)
    size, depth = extent_of_all(operands)
    return _atom(Extreme(kind, operands, end_of(lower), end_of(upper), size, depth))


def _flattened(kind: int, dims: Iterable[Dim]) -> list[Dim]:
    flat: list[Dim] = []
    for dim in dims:
        atom = single(dim)
        flat += map(dim_from, atom.operands) if isinstance(atom, Extreme) and atom.kind == kind else [dim]
    return flat


def single(dim: Dim) -> Atom | None:
    """Return the atom that the dim consists of; `None` if it is not a single atom."""
    return lone_atom(terms_of(dim))


def _dominates(kind: int, dim: Dim, other: Dim) -> bool:
    high, low = (dim, other) if kind == MAXIMUM else (other, dim)
    left, right = single(high), single(low)
    if isinstance(left, Variable) and isinstance(right, Variable) and left != right:
        # Most operands are two symbols, whose bounds alone decide.
        return bool(left.lower and right.upper) and left.lower[0] >= right.upper[0]
    return _at_least(high - low, 0)


def _at_least(dim: Dim, number: int) -> bool:
    lower, _ = bounds(dim)
    return lower is not None and lower >= number


def read_dim(text: str, named: Callable[[str], Symbolic]) -> Dim | None:
    """Parse an expression to a dim, `None` if the text is not an expression; `named` returns the symbol of a name."""
    try:
        dim = value_of(text, Arithmetic(int, named, operator.neg, _OPERATIONS))
    except (TooLong, ZeroDivisionError):  # what divides by 0 is no extent
        return None
    return None if isinstance(dim, int) and dim < 0 else dim


_OPERATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": maximum,
    "min": minimum,
}


def is_expression(name: str) -> bool:
    """Whether a name is also the text of an expression, in the spelling that this has itself."""
    dim = read_dim(name, lambda inner: Symbol(inner, None))
    return dim is not None and str(dim) == name

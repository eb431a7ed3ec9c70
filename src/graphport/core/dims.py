"""Symbolic dimensions: integer expressions over named, bounded unknowns, in one canonical form.

A `Dim` is an `int` or a `Symbolic`: a polynomial with integer coefficients over atoms, where an atom is a symbol, a
floor division, a maximum or a minimum of canonical expressions. Arithmetic keeps Python's floor semantics (`x % n` is
held as `x - n*(x//n)`) and gives a plain `int` as soon as nothing unknown is left. `==` and `hash` compare structure,
and see that `a + b` is `b + a`, that `2*a` is `a + a` and that `(4*H + W)//4` is `H + W//4`.

Exact cancellation ignores divisors of zero: `(N*C)//C` is `N` although `C` may be 0, because every runtime fails on a
division by zero. One name means one number: give every use of a name the same bounds.

An expression past the limits below becomes an *opaque* symbol: its name starts with `~` and is made from what it stands
for, so equal expressions stay equal, its bounds are those of the expression, and nothing else is known of it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
MOST_CASES = 64
"""Residues tried before a comparison of expressions with divisions is called undecided."""

_NAME_CHARACTERS = 32  # characters of a name that count as one towards MOST_SIZE
_DIVISION_STEPS = 64
_FARTHEST = 1 << MOST_BITS

# An end of an interval inside an atom: (n,) or, where unbounded, (). Unlike None it sorts, and so atoms sort as tuples.
_End = tuple[int, ...]
_Interval = tuple[float, float]  # exact integers, or an infinity


class _Variable(NamedTuple):
    kind: int
    name: str
    lower: _End
    upper: _End
    opaque: bool
    size: int
    depth: int


class _Quotient(NamedTuple):
    kind: int
    numerator: _Terms
    denominator: _Terms
    lower: _End
    upper: _End
    size: int
    depth: int


class _Extreme(NamedTuple):
    kind: int
    operands: tuple[_Terms, ...]
    lower: _End
    upper: _End
    size: int
    depth: int


_VARIABLE, _QUOTIENT, _MAXIMUM, _MINIMUM = range(4)

_Atom = _Variable | _Quotient | _Extreme
_Monomial = tuple[_Atom, ...]  # sorted, repeated for powers; () is the constant
_Terms = tuple[tuple[_Monomial, int], ...]  # higher degrees first, the constant last, no coefficient 0
_Summand = tuple[_Monomial, int, _Interval]  # the product of the three


class Undecided(Exception):  # noqa: N818  not a fault: the answer depends on numbers that are known at run time only
    """A comparison or conversion of symbolic values is true for some admissible numbers and false for others."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Symbolic:
    """A canonical integer expression that is not a plain integer; made by `Symbol`, `parse_dim` and arithmetic only.

    Immutable; `==` and `hash` compare structure, so use `decide_equal` and `decide_less` to compare numbers.
    """

    terms: _Terms
    _hash: int | None = field(default=None, init=False)
    _bounds: tuple[int | None, int | None] | None = field(default=None, init=False)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Symbolic) and self.terms == other.terms)

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash(self.terms)
            object.__setattr__(self, "_hash", known)
        return known

    def __reduce__(self) -> tuple[type[Symbolic], tuple[_Terms]]:
        return Symbolic, (self.terms,)  # the hash of a text differs from process to process

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """Inclusive bounds of the value, `None` where there is none; see `bounds`."""
        if self._bounds is None:
            lower, upper = _interval(self.terms)
            ends = (None if math.isinf(lower) else int(lower), None if math.isinf(upper) else int(upper))
            object.__setattr__(self, "_bounds", ends)
            return ends
        return self._bounds

    def __str__(self) -> str:
        return _text(self.terms)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __neg__(self) -> Symbolic:
        return Symbolic(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __pos__(self) -> Symbolic:
        return self

    def __add__(self, other: Dim) -> Dim:
        right = _operand(other)
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
        right = _operand(other)
        return NotImplemented if right is None else self + -right

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        right = _operand(other)
        if right is None:
            return NotImplemented
        if isinstance(right, Symbolic):
            return _multiplied(self.terms, right.terms)
        if right == 0:
            return 0
        return _limited(tuple((monomial, coefficient * right) for monomial, coefficient in self.terms))

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        right = _operand(other)
        return NotImplemented if right is None else _divided(self, right)

    def __rfloordiv__(self, other: Dim) -> Dim:
        left = _operand(other)
        return NotImplemented if left is None else _divided(left, self)

    def __mod__(self, other: Dim) -> Dim:
        right = _operand(other)
        return NotImplemented if right is None else self - right * _divided(self, right)

    def __rmod__(self, other: Dim) -> Dim:
        left = _operand(other)
        return NotImplemented if left is None else left - self * _divided(left, self)


Dim = int | Symbolic


def Symbol(  # noqa: N802  reads as a type
    name: str, lower: int | None = 0, upper: int | None = None, *, opaque: bool = False
) -> Symbolic:
    """An unknown integer: any non-empty text as its name, inclusive bounds, `None` for unbounded.

    Only who reads back what was written says that it is `opaque`: that it stands for an expression past the limits.

    Raises:
        ValueError: the name is empty, or no integer lies between the bounds.
    """
    if not name:
        raise ValueError("a symbol needs a name")
    if lower is not None and upper is not None and lower > upper:
        raise ValueError(f"no integer lies between the bounds {lower} and {upper} of {name!r}")
    return Symbolic((((_variable(name, lower, upper, opaque=opaque),), 1),))


def is_opaque(dim: Dim) -> bool:
    """Whether the dim is one symbol that stands for an expression past the limits."""
    atom = _single(dim)
    return isinstance(atom, _Variable) and atom.opaque


def ceil_div(a: Dim, b: Dim) -> Dim:
    """The quotient `a / b` rounded up."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    if _at_least(b, 0):
        return (a + b - 1) // b
    return -(-a // b)


def maximum(a: Dim, b: Dim) -> Dim:
    """The greater of both; one of them where the bounds decide."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _extreme(_MAXIMUM, (a, b))


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of both; one of them where the bounds decide."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else _extreme(_MINIMUM, (a, b))


def product(dims: Iterable[Dim]) -> Dim:
    """The product of all dims, 1 for none: the number of entries of a shape."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Inclusive bounds of all values that the dim takes for admissible symbols, `None` where there is none.

    Interval arithmetic: never too narrow; as narrow as possible where no symbol occurs twice.
    """
    return (dim, dim) if isinstance(dim, int) else dim.bounds


def decide_equal(a: Dim, b: Dim) -> bool | None:
    """Whether both are equal: `True` or `False` if that holds for all admissible values, `None` if not proven."""
    return _decided(a - b, _is_zero)


def decide_less(a: Dim, b: Dim) -> bool | None:
    """Whether `a < b`: `True` or `False` if that holds for all admissible values, `None` if not proven."""
    return _decided(a - b, _is_negative)


def substitute(dim: Dim, bindings: Mapping[str, Dim]) -> Dim:
    """The dim with all named symbols replaced at once; names that do not occur are ignored.

    A replacement must lie within the bounds of its symbol: what the bounds have decided is not undone. An opaque symbol
    may hide any name, so every non-empty replacement turns it into another opaque symbol of the same bounds.
    """
    if isinstance(dim, int) or not bindings:
        return dim

    def replacement(variable: _Variable) -> Dim:
        if variable.name in bindings:
            return bindings[variable.name]
        if variable.opaque:
            bound = tuple(sorted((name, _terms(value)) for name, value in bindings.items()))
            return _opaque((variable, bound), (_low(variable), _high(variable)))
        return Symbolic((((variable,), 1),))

    return _rebuilt(dim.terms, replacement)


def evaluate(dim: Dim, bindings: Mapping[str, int]) -> int:
    """The number that the dim is for the given numbers of its symbols.

    Raises:
        KeyError: a symbol of the dim has no number.
        ZeroDivisionError: a divisor that was not cancelled is 0.
    """
    if isinstance(dim, int):
        return dim
    number = _rebuilt(dim.terms, lambda variable: int(bindings[variable.name]))
    if isinstance(number, Symbolic):
        raise TypeError(f"{number} is left of {dim} although all symbols are numbers")
    return number


def symbols(dim: Dim) -> dict[str, Symbolic]:
    """The symbols that occur in the dim, by name, in the order of names."""
    if isinstance(dim, int):
        return {}
    found = {variable.name: Symbolic((((variable,), 1),)) for variable in _variables(dim.terms)}
    return dict(sorted(found.items()))


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


# --- polynomials ------------------------------------------------------------------------------------------------------


def _operand(value: object) -> Dim | None:
    if isinstance(value, Symbolic):
        return value
    return int(cast("int", value)) if isinstance(value, (int, np.integer)) else None


def _terms(dim: Dim) -> _Terms:
    if isinstance(dim, Symbolic):
        return dim.terms
    return (((), dim),) if dim else ()


def _dim(terms: _Terms) -> Dim:
    if not terms:
        return 0
    return Symbolic(terms) if terms[0][0] else terms[0][1]


def _order(term: tuple[_Monomial, int]) -> tuple[int, _Monomial]:
    return -len(term[0]), term[0]


def _sorted_terms(coefficients: Mapping[_Monomial, int]) -> _Terms:
    return tuple(sorted((term for term in coefficients.items() if term[1]), key=_order))


def _collected(coefficients: Mapping[_Monomial, int]) -> Dim:
    return _limited(_sorted_terms(coefficients))


def _atom(atom: _Quotient | _Extreme) -> Dim:
    if all(-_FARTHEST < coefficient < _FARTHEST for part in _parts(atom) for _, coefficient in part):
        return _limited((((atom,), 1),))
    return _opaque(atom, (_low(atom), _high(atom)))


def _limited(terms: _Terms) -> Dim:
    """The dim of sorted terms, an opaque symbol where it is past the limits."""
    if not terms or not terms[0][0]:
        return terms[0][1] if terms else 0
    size, depth = _extent(terms)
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1 and terms[0][0][0].kind == _VARIABLE:
        return Symbolic(terms)  # a name may be as long as it likes
    widest = max(max(coefficient, -coefficient) for _, coefficient in terms)
    fits = len(terms) <= MOST_TERMS and len(terms[0][0]) <= MOST_DEGREE and widest < _FARTHEST
    if fits and size <= MOST_SIZE and depth <= MOST_DEPTH:
        return Symbolic(terms)
    return _opaque(terms, _interval(terms))


def _extent(terms: _Terms) -> tuple[int, int]:
    size = len(terms)
    depth = 0
    for monomial, _ in terms:
        for atom in monomial:
            size += atom.size
            depth = max(depth, atom.depth)
    return size, depth


def _extent_of_all(parts: tuple[_Terms, ...]) -> tuple[int, int]:
    extents = [_extent(part) for part in parts]
    return 1 + sum(size for size, _ in extents), 1 + max(depth for _, depth in extents)


def _variable(name: str, lower: int | None, upper: int | None, *, opaque: bool) -> _Variable:
    ends = (() if lower is None else (int(lower),), () if upper is None else (int(upper),))
    return _Variable(_VARIABLE, name, *ends, opaque=opaque, size=1 + len(name) // _NAME_CHARACTERS, depth=0)


def _opaque(content: object, interval: _Interval) -> Symbolic:
    digest = hashlib.blake2s(_spelling(content).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    lower, upper = (None if math.isinf(end) else int(end) for end in interval)
    return Symbolic((((_variable(f"~{digest}", lower, upper, opaque=True),), 1),))


def _spelling(content: object) -> str:
    """A text that differs for different nested tuples of numbers and texts."""
    words: list[str] = []
    pending = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            entries = cast("tuple[object, ...]", item)
            words.append(f"{len(entries)}:")
            pending.extend(entries)
        else:
            words.append(f"{item:x}," if isinstance(item, int) else repr(item))
    return "".join(words)


def _plus_constant(terms: _Terms, number: int) -> Dim:
    body, constant = (terms, 0) if terms[-1][0] else (terms[:-1], terms[-1][1])
    total = constant + number
    return _limited((*body, ((), total)) if total else body)


def _times(left: _Monomial, right: _Monomial) -> _Monomial:
    return tuple(sorted(left + right)) if left and right else left or right


def _without(monomial: _Monomial, factor: _Monomial) -> _Monomial | None:
    """The monomial divided by the factor, `None` where the factor does not divide it."""
    if not factor:
        return monomial
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _multiplied(left: _Terms, right: _Terms) -> Dim:
    if len(left) * len(right) > MOST_PRODUCTS:
        return _opaque(("*", *sorted((left, right))), _interval_product(_interval(left), _interval(right)))
    sums: dict[_Monomial, int] = {}
    for (monomial, coefficient), (other, factor) in itertools.product(left, right):
        key = _times(monomial, other)
        sums[key] = sums.get(key, 0) + coefficient * factor
    return _collected(sums)


def _rebuilt(terms: _Terms, replacement: Callable[[_Variable], Dim]) -> Dim:
    total: Dim = 0
    for monomial, coefficient in terms:
        total = total + coefficient * product([_rebuilt_atom(atom, replacement) for atom in monomial])
    return total


def _rebuilt_atom(atom: _Atom, replacement: Callable[[_Variable], Dim]) -> Dim:
    match atom:
        case _Variable():
            return replacement(atom)
        case _Quotient():
            return _rebuilt(atom.numerator, replacement) // _rebuilt(atom.denominator, replacement)
        case _Extreme():
            return _extreme(atom.kind, [_rebuilt(operand, replacement) for operand in atom.operands])


def _variables(terms: _Terms) -> Iterator[_Variable]:
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, _Variable):
                yield atom
                continue
            for part in _parts(atom):
                yield from _variables(part)


def _nested_variables(terms: _Terms) -> Iterator[_Variable]:
    """The variables within divisions, maxima and minima."""
    for monomial, _ in terms:
        for atom in monomial:
            for part in () if isinstance(atom, _Variable) else _parts(atom):
                yield from _variables(part)


def _parts(atom: _Quotient | _Extreme) -> tuple[_Terms, ...]:
    return (atom.numerator, atom.denominator) if isinstance(atom, _Quotient) else atom.operands


# --- floor division ---------------------------------------------------------------------------------------------------


def _divided(a: Dim, b: Dim) -> Dim:
    """`a // b` in canonical form.

    Every rule below is an equality of integers for all `b` other than 0, and starts over with what is left: so the
    numerator of a `_Quotient` divided by its denominator is that quotient again.
    """
    if isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError(f"{a} is divided by 0")
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b
    if _terms(b)[0][1] < 0:
        a, b = -a, -b
    whole, rest = _split(_terms(a), _terms(b))
    if isinstance(rest, Symbolic) or rest:
        return whole + _proper(rest, b)
    return whole


def _proper(rest: Dim, b: Dim) -> Dim:
    """`rest // b` where no term of the rest is divisible by `b`."""
    if isinstance(rest, int) and isinstance(b, int):
        return rest // b
    if isinstance(b, int) and _is_ceiling(_terms(rest)):
        return -_divided(b - 1 - rest, b)
    smaller = _cancelled(_terms(rest), _terms(b))
    if smaller is not None:
        return _divided(*smaller)
    merged = _merged(_terms(rest), b)
    if merged is not None:
        return _divided(*merged)
    numerator, denominator = _terms(rest), _terms(b)
    lower, upper = _interval_quotient(_interval(numerator), _interval(denominator))
    if lower == upper:
        return int(lower)
    size, depth = _extent_of_all((numerator, denominator))
    atom = _Quotient(_QUOTIENT, numerator, denominator, _end(lower), _end(upper), size, depth)
    return _atom(atom)


def _is_ceiling(rest: _Terms) -> bool:
    """Whether the rest divided by a number is to be written as a negative ceiling: `(-H)//4` is `-((H+3)//4)`.

    That is so where the quotient within it that `_merged` takes has a minus sign or, without one, the leading term.
    """
    quotients = _lone_quotients(rest)
    return quotients[0][1] < 0 if len(quotients) == 1 else rest[0][1] < 0


def _lone_quotients(rest: _Terms) -> list[tuple[_Quotient, int]]:
    """The quotients by numbers that are added or subtracted once, with their sign."""
    alone = ((monomial[0], sign) for monomial, sign in rest if abs(sign) == 1 and len(monomial) == 1)
    return [(atom, sign) for atom, sign in alone if isinstance(atom, _Quotient) and not atom.denominator[0][0]]


def _split(a: _Terms, b: _Terms) -> tuple[Dim, Dim]:
    """`whole` and `rest` with `a = whole * b + rest`."""
    if len(b) != 1:
        return _long_division(a, b)
    factor, divisor = b[0]
    whole: dict[_Monomial, int] = {}
    rest: dict[_Monomial, int] = {}
    for monomial, coefficient in a:
        left = _without(monomial, factor)
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


def _long_division(a: _Terms, b: _Terms) -> tuple[Dim, Dim]:
    (factor, divisor), *_ = b
    pending = dict(a)
    whole: dict[_Monomial, int] = {}
    rest: dict[_Monomial, int] = {}
    for _ in range(_DIVISION_STEPS):
        if not pending:
            break
        monomial, coefficient = min(pending.items(), key=_order)
        left = _without(monomial, factor)
        if left is None or coefficient % divisor:
            rest[monomial] = pending.pop(monomial)
            continue
        whole[left] = coefficient // divisor
        for other, scale in b:
            key = _times(other, left)
            pending[key] = pending.get(key, 0) - whole[left] * scale
            if not pending[key]:
                del pending[key]
    # (H*W)//(H+W) is better left alone than turned into W + (-W*W)//(H+W).
    if pending or len(rest) >= len(a):
        return 0, _dim(a)
    return _collected(whole), _collected(rest)


def _cancelled(rest: _Terms, b: _Terms) -> tuple[Dim, Dim] | None:
    """Numerator and denominator without their common factor; `None` where they have none."""
    if not b[0][0]:
        return _cancelled_number(rest, b[0][1])
    common = math.gcd(*(coefficient for _, coefficient in rest), *(coefficient for _, coefficient in b))
    shared = _shared_factor([monomial for monomial, _ in (*rest, *b)])
    if common == 1 and not shared:
        return None
    return _reduced(rest, shared, common), _reduced(b, shared, common)


def _cancelled_number(rest: _Terms, divisor: int) -> tuple[Dim, Dim] | None:
    common = math.gcd(divisor, *(coefficient for monomial, coefficient in rest if monomial))
    if common == 1:
        return None
    # (g*x + c)//(g*m) is (x + c//g)//m for all integers x and positive g and m.
    return _collected({monomial: coefficient // common for monomial, coefficient in rest}), divisor // common


def _shared_factor(monomials: list[_Monomial]) -> _Monomial:
    shared = list(monomials[0])
    for monomial in monomials[1:]:
        left = list(monomial)
        kept: list[_Atom] = []
        for atom in shared:
            if atom in left:
                left.remove(atom)
                kept.append(atom)
        shared = kept
    return tuple(shared)


def _reduced(terms: _Terms, factor: _Monomial, divisor: int) -> Dim:
    left = ((_without(monomial, factor), coefficient) for monomial, coefficient in terms)
    return _collected({monomial: coefficient // divisor for monomial, coefficient in left if monomial is not None})


def _merged(rest: _Terms, b: Dim) -> tuple[Dim, Dim] | None:
    """Numerator and denominator of `(x//d + k)//b` as one division, `(x + d*k)//(d*b)`; `None` where it is not that."""
    if len(rest) == 1 and rest[0][1] == 1 and _at_least(b, 0):
        atom = _single(_dim(rest))
        return (_dim(atom.numerator), _dim(atom.denominator) * b) if isinstance(atom, _Quotient) else None
    quotients = _lone_quotients(rest)
    if not isinstance(b, int) or len(quotients) != 1:
        return None
    ((quotient, _),) = quotients
    divisor = _dim(quotient.denominator)
    others = _collected({monomial: coefficient for monomial, coefficient in rest if monomial != (quotient,)})
    return _dim(quotient.numerator) + divisor * others, divisor * b


# --- maximum and minimum ----------------------------------------------------------------------------------------------


def _extreme(kind: int, dims: Iterable[Dim]) -> Dim:
    kept: list[Dim] = []
    for dim in sorted(_flattened(kind, dims), key=lambda dim: (isinstance(dim, int), _terms(dim))):
        if any(_dominates(kind, other, dim) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(kind, dim, other)]
        kept.append(dim)
    if len(kept) == 1:
        return kept[0]
    operands = tuple(_terms(dim) for dim in kept)
    choose = max if kind == _MAXIMUM else min
    intervals = [_interval(operand) for operand in operands]
    lower, upper = choose(low for low, _ in intervals), choose(high for _, high in intervals)
    if len(operands) > MOST_OPERANDS:
        return _opaque((kind, operands), (lower, upper))
    size, depth = _extent_of_all(operands)
    return _atom(_Extreme(kind, operands, _end(lower), _end(upper), size, depth))


def _flattened(kind: int, dims: Iterable[Dim]) -> list[Dim]:
    flat: list[Dim] = []
    for dim in dims:
        atom = _single(dim)
        flat += map(_dim, atom.operands) if isinstance(atom, _Extreme) and atom.kind == kind else [dim]
    return flat


def _single(dim: Dim) -> _Atom | None:
    """The atom that the dim is, `None` where it is more or less than one."""
    terms = _terms(dim)
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        return terms[0][0][0]
    return None


def _dominates(kind: int, dim: Dim, other: Dim) -> bool:
    return _at_least(dim - other if kind == _MAXIMUM else other - dim, 0)


# --- intervals --------------------------------------------------------------------------------------------------------


def _at_least(dim: Dim, number: int) -> bool:
    lower, _ = bounds(dim)
    return lower is not None and lower >= number


def _end(value: float) -> _End:
    return () if math.isinf(value) else (int(value),)


def _low(atom: _Atom) -> float:
    return atom.lower[0] if atom.lower else -math.inf


def _high(atom: _Atom) -> float:
    return atom.upper[0] if atom.upper else math.inf


def _outward(lower: float, upper: float) -> _Interval:
    """The interval with ends that are too far from zero moved outward: hostile powers must not fill the memory."""
    if lower >= -_FARTHEST and upper <= _FARTHEST:
        return lower, upper
    low = -math.inf if lower < -_FARTHEST else min(lower, _FARTHEST)
    return low, math.inf if upper > _FARTHEST else max(upper, -_FARTHEST)


def _end_product(a: float, b: float) -> float:
    return a * b if a and b else 0


def _interval_product(a: _Interval, b: _Interval) -> _Interval:
    (low, high), (other_low, other_high) = _outward(*a), _outward(*b)
    ends = [_end_product(x, y) for x in (low, high) for y in (other_low, other_high)]
    return _outward(min(ends), max(ends))


def _interval_quotient(a: _Interval, b: _Interval) -> _Interval:
    numerators, (low, high) = _outward(*a), _outward(*b)
    if low == high and low > 0:
        return _end_quotient(numerators[0], low), _end_quotient(numerators[1], low)
    ends: list[float] = []
    if high > 0:
        ends += [_end_quotient(x, y) for x in numerators for y in (max(low, 1), high)]
    if low < 0:
        ends += [_end_quotient(x, y) for x in numerators for y in (low, min(high, -1))]
    return (min(ends), max(ends)) if ends else (-math.inf, math.inf)


def _end_quotient(x: float, y: float) -> float:
    if math.isinf(y):
        return -1 if x and (x > 0) != (y > 0) else 0
    if math.isinf(x):
        return x if y > 0 else -x
    return x // y


def _monomial_interval(monomial: _Monomial) -> _Interval:
    interval: _Interval = (1, 1)
    for atom, repeats in itertools.groupby(monomial):
        power = sum(1 for _ in repeats)
        ends = functools.reduce(_interval_product, itertools.repeat((_low(atom), _high(atom)), power))
        if power % 2 == 0:
            ends = (max(ends[0], 0), ends[1])
        interval = _interval_product(interval, ends)
    return interval


def _interval(terms: _Terms) -> _Interval:
    """What the values lie in: the intersection of all that the rules below find."""
    lower, upper = _linear_interval(terms) if _is_linear(terms) else _interval_sum(_summands(terms))
    if not any(atom.depth for monomial, _ in terms for atom in monomial):
        return lower, upper
    for low, high in (*_remainder_intervals(terms), *_relaxed_intervals(terms), *_extreme_intervals(terms)):
        lower, upper = max(lower, low), min(upper, high)
    return lower, upper


def _is_linear(terms: _Terms) -> bool:
    return len(terms[0][0]) <= 1 if terms else True


def _linear_interval(terms: _Terms) -> _Interval:
    lower = upper = 0
    is_bounded_below = is_bounded_above = True
    for monomial, coefficient in terms:
        low, high = (monomial[0].lower, monomial[0].upper) if monomial else ((1,), (1,))
        if coefficient < 0:
            low, high = high, low
        lower += coefficient * low[0] if low else 0
        upper += coefficient * high[0] if high else 0
        is_bounded_below &= bool(low)
        is_bounded_above &= bool(high)
    return _outward(lower if is_bounded_below else -math.inf, upper if is_bounded_above else math.inf)


def _summands(terms: _Terms) -> list[_Summand]:
    return [(monomial, coefficient, (1, 1)) for monomial, coefficient in terms]


def _remainder_intervals(terms: _Terms) -> Iterator[_Interval]:
    """`x - n*(x//n)` lies between 0 and `n - 1`."""
    remainders, others = _remainders(terms)
    if remainders:
        parts = [(part.cofactor, part.scale, part.interval) for part in remainders]
        yield _interval_sum([*_summands(others), *parts])


def _relaxed_intervals(terms: _Terms) -> Iterator[_Interval]:
    """`x//n` is `(x - r)/n` with an `r` between 0 and `n - 1`: so `H - H//2` is not negative if `H` is not."""
    scale = 1
    slack: list[_Summand] = []
    current: dict[_Monomial, int] = dict(terms)
    for _ in range(MOST_DEPTH):
        quotients = {monomial: found for monomial in current if (found := _constant_quotient(monomial)) is not None}
        if not quotients:
            break
        step = math.lcm(*(divisor for _, divisor in quotients.values()))
        scale *= step
        slack = [(monomial, coefficient * step, factor) for monomial, coefficient, factor in slack]
        relaxed: dict[_Monomial, int] = {}
        for monomial, coefficient in current.items():
            if monomial not in quotients:
                relaxed[monomial] = relaxed.get(monomial, 0) + coefficient * step
                continue
            quotient, divisor = quotients[monomial]
            share = coefficient * step // divisor
            rest = _without(monomial, (quotient,)) or ()
            slack.append((rest, -share, (0, divisor - 1)))
            for inner, number in quotient.numerator:
                key = _times(inner, rest)
                relaxed[key] = relaxed.get(key, 0) + share * number
        if len(relaxed) > MOST_TERMS or scale > _FARTHEST:
            return
        current = relaxed
    if scale > 1:
        low, high = _interval_sum([*_summands(tuple(current.items())), *slack])
        yield low if math.isinf(low) else -(-low // scale), high if math.isinf(high) else high // scale


def _constant_quotient(monomial: _Monomial) -> tuple[_Quotient, int] | None:
    for atom in monomial:
        if isinstance(atom, _Quotient) and not atom.denominator[0][0]:
            return atom, atom.denominator[0][1]
    return None


def _extreme_intervals(terms: _Terms) -> Iterator[_Interval]:
    """A sum with a maximum in it is the maximum of the sums with its operands: so `N - min(N,1)` is not negative."""
    for monomial, coefficient in terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, _Extreme):
            continue
        intervals: list[_Interval] = []
        for operand in atom.operands:
            sums = {other: number for other, number in terms if other != monomial}
            for other, number in operand:
                sums[other] = sums.get(other, 0) + coefficient * number
            intervals.append(_interval_sum(_summands(tuple(sums.items()))))
        choose = max if (atom.kind == _MAXIMUM) == (coefficient > 0) else min
        yield choose(low for low, _ in intervals), choose(high for _, high in intervals)


def _interval_sum(summands: Iterable[_Summand]) -> _Interval:
    lower: float = 0
    upper: float = 0
    for monomial, coefficient, factor in summands:
        low, high = _interval_product((coefficient, coefficient), factor)
        if monomial:
            low, high = _interval_product((low, high), _monomial_interval(monomial))
        lower, upper = _outward(lower + low, upper + high)
    return lower, upper


class _Remainder(NamedTuple):
    """`scale * cofactor * (numerator % denominator)`."""

    scale: int
    cofactor: _Monomial
    numerator: _Terms
    denominator: _Terms

    @property
    def interval(self) -> _Interval:
        low, high = _interval(self.denominator)
        least, most = _interval(self.numerator)
        if low >= 0:
            return 0, min(high - 1, most) if least >= 0 else high - 1
        return min(low + 1, 0), max(high - 1, 0)


def _remainders(terms: _Terms) -> tuple[list[_Remainder], _Terms]:
    """The parts of the form `x - n*(x//n)`, and the other terms."""
    found: list[_Remainder] = []
    left = dict(terms)
    for monomial, _ in terms:
        for atom in dict.fromkeys(monomial):
            coefficient = left.get(monomial, 0)
            part = _remainder(atom, monomial, coefficient) if isinstance(atom, _Quotient) and coefficient else None
            if part is None or not _take(left, part):
                continue
            del left[monomial]
            found.append(part)
    return (found, _sorted_terms(left)) if found else (found, terms)


def _remainder(atom: _Quotient, monomial: _Monomial, coefficient: int) -> _Remainder | None:
    if len(atom.denominator) != 1:
        return None
    ((factor, divisor),) = atom.denominator
    cofactor = _without(monomial, _times((atom,), factor))
    if cofactor is None or coefficient % divisor:
        return None
    return _Remainder(-coefficient // divisor, cofactor, atom.numerator, atom.denominator)


def _take(left: dict[_Monomial, int], part: _Remainder) -> bool:
    """Take the numerator of the remainder out of `left`; whether it is there."""
    wanted = {_times(monomial, part.cofactor): part.scale * number for monomial, number in part.numerator}
    for monomial, number in wanted.items():
        present = left.get(monomial, 0)
        if monomial != part.cofactor and not (0 < number <= present or present <= number < 0):
            return False
    for monomial, number in wanted.items():
        left[monomial] = left.get(monomial, 0) - number
    return True


# --- decisions --------------------------------------------------------------------------------------------------------


def _is_zero(dim: Dim) -> bool | None:
    lower, upper = bounds(dim)
    if (lower is not None and lower > 0) or (upper is not None and upper < 0):
        return False
    if (lower, upper) == (0, 0):
        return True
    *body, (monomial, constant) = _terms(dim)
    divisor = math.gcd(*(coefficient for _, coefficient in body))
    return False if not monomial and constant % divisor else None


def _is_negative(dim: Dim) -> bool | None:
    lower, upper = bounds(dim)
    if upper is not None and upper < 0:
        return True
    return False if lower is not None and lower >= 0 else None


def _decided(dim: Dim, claim: Callable[[Dim], bool | None]) -> bool | None:
    answer = claim(dim)
    if answer is not None or isinstance(dim, int):
        return answer
    if _is_linear(dim.terms) and not any(atom.depth for monomial, _ in dim.terms for atom in monomial):
        return None  # the interval is exact, and so is the divisibility
    # Counted from their bounds all symbols are at least 0, so that a polynomial without a minus sign is, too.
    answer = claim(_counted_from_bounds(dim))
    if answer is not None:
        return answer
    answers = {claim(case) for case in _residue_cases(dim.terms)}
    return answers.pop() if len(answers) == 1 else None


def _counted_from_bounds(dim: Symbolic) -> Dim:
    def replacement(variable: _Variable) -> Dim:
        if variable.lower:
            (lower,) = variable.lower
            return lower + Symbol(variable.name, 0, variable.upper[0] - lower if variable.upper else None)
        if variable.upper:
            return variable.upper[0] - Symbol(variable.name)
        return Symbolic((((variable,), 1),))

    return _rebuilt(dim.terms, replacement)


def _residue_cases(terms: _Terms) -> Iterator[Dim]:
    """The dim for all residues of its symbols by the divisors in it: divisions of linear terms come out even then."""
    modulus = _modulus(terms)
    if not 1 < modulus <= MOST_CASES:
        return
    divided = sorted(set(_nested_variables(terms)))
    if not divided or modulus ** len(divided) > MOST_CASES:
        return
    for residues in itertools.product(range(modulus), repeat=len(divided)):
        choices = [_choice(variable, modulus, residue) for variable, residue in zip(divided, residues, strict=True)]
        values = {variable: choice for variable, choice in zip(divided, choices, strict=True) if choice is not None}
        if len(values) == len(divided):
            yield _counted(_rebuilt(terms, lambda variable, values=values: _chosen(values, variable)))


def _chosen(values: Mapping[_Variable, Dim], variable: _Variable) -> Dim:
    return values.get(variable, Symbolic((((variable,), 1),)))


def _counted(dim: Dim) -> Dim:
    return _counted_from_bounds(dim) if isinstance(dim, Symbolic) else dim


def _choice(variable: _Variable, modulus: int, residue: int) -> Dim | None:
    """`modulus * k + residue`; `None` where no admissible value has that residue."""
    lower = -((residue - variable.lower[0]) // modulus) if variable.lower else None
    upper = (variable.upper[0] - residue) // modulus if variable.upper else None
    if lower is not None and upper is not None and lower > upper:
        return None
    return modulus * Symbol(variable.name, lower, upper) + residue


def _modulus(terms: _Terms) -> int:
    """Least common multiple of the products of nested constant divisors; 0 where a divisor is symbolic or too large."""
    total = 1
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, _Variable):
                continue
            inner = math.lcm(*(_modulus(part) for part in _parts(atom)))
            if isinstance(atom, _Quotient):
                divisor = _dim(atom.denominator)
                inner *= divisor if isinstance(divisor, int) else 0
            total = math.lcm(total, inner)
            if not 0 < total <= MOST_CASES:
                return 0
    return total


# --- text -------------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(r"(?P<number>[0-9]+)|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`|(?P<sign>//|[-+*%(),])")
_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {"max": maximum, "min": minimum}
_Piece = tuple[int, list[str]]  # coefficient and texts of the factors
_DIGITS = len(str(_FARTHEST))
_MOST_BRACKETS = 3 * MOST_DEPTH  # a nested atom is written in at most three pairs of them


def _text(terms: _Terms) -> str:
    atom = _single(_dim(terms))
    if isinstance(atom, _Variable):
        return _lone_name(atom.name)
    remainders, others = _remainders(terms)
    constant = others[-1][1] if others and not others[-1][0] else 0
    body = others[:-1] if constant else others
    pieces: list[_Piece] = []
    for part in remainders:
        piece, added = _remainder_text(part, constant)
        pieces.append(piece)
        constant += added
    pieces += _term_pieces(body)
    if constant:
        pieces.append((constant, []))
    if pieces[0][0] < 0:
        pieces.insert(0, pieces.pop(next((place for place, piece in enumerate(pieces) if piece[0] > 0), 0)))
    return "".join(_piece_text(*piece, first=place == 0) for place, piece in enumerate(pieces))


def _term_pieces(terms: _Terms) -> list[_Piece]:
    pieces: list[_Piece] = []
    left = dict(terms)
    for monomial, coefficient in terms:
        mirrored = _mirrored(monomial, coefficient, left)
        if mirrored is None:
            continue
        leading, text = mirrored
        del left[monomial], left[leading]
        pieces.append((-coefficient, [text]))
    return pieces + [(coefficient, [_atom_text(atom) for atom in monomial]) for monomial, coefficient in left.items()]


def _mirrored(monomial: _Monomial, coefficient: int, left: Mapping[_Monomial, int]) -> tuple[_Monomial, str] | None:
    """The term that goes with a negative quotient, and the text of both: `H - (H+3)//4` is `(3*H)//4`."""
    atom = monomial[0] if len(monomial) == 1 else None
    if not isinstance(atom, _Quotient) or atom.denominator[0][0] or monomial not in left:
        return None
    (leading, number), *_ = atom.numerator
    divisor = atom.denominator[0][1]
    # At 2*number == divisor both forms are canonical, and the text must keep them apart.
    if coefficient > 0 or left.get(leading) != -coefficient or 2 * number == divisor:
        return None
    numerator = divisor * _dim(((leading, 1),)) + (divisor - 1 - _dim(atom.numerator))
    return leading, f"{_operand_text(_terms(numerator))}//{divisor}"


def _remainder_text(part: _Remainder, constant: int) -> tuple[_Piece, int]:
    """Sign and factors of a remainder, and what it adds to the constant."""
    scale, numerator, divisor = part.scale, part.numerator, _dim(part.denominator)
    added = 0
    # n-1 - x%n is (-x-1)%n: the padding 31-(H+31)%32 reads better as (-H)%32.
    if not part.cofactor and scale < 0 and isinstance(divisor, int) and constant == -scale * (divisor - 1):
        mirrored = -_dim(numerator) - 1
        offset = _terms(mirrored)[-1][1] if not _terms(mirrored)[-1][0] else 0
        numerator = _terms(mirrored - offset + offset % divisor)
        scale, added = -scale, -constant
    text = f"{_operand_text(numerator)}%{_operand_text(part.denominator)}"
    return (scale, [*map(_atom_text, part.cofactor), text]), added


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


def _atom_text(atom: _Atom) -> str:
    match atom:
        case _Variable():
            return _quoted(atom.name)
        case _Quotient():
            return f"{_operand_text(atom.numerator)}//{_operand_text(atom.denominator)}"
        case _Extreme():
            function = "max" if atom.kind == _MAXIMUM else "min"
            return f"{function}({','.join(_inner_text(operand) for operand in atom.operands)})"


def _inner_text(terms: _Terms) -> str:
    """Text of an expression within another one: unlike alone, a name is quoted here if it needs to be."""
    atom = _single(_dim(terms))
    if isinstance(atom, _Variable):
        return _quoted(atom.name)
    return _text(terms) if terms and terms[0][0] else str(_dim(terms))


def _operand_text(terms: _Terms) -> str:
    atom = _single(_dim(terms))
    number = _dim(terms)
    bare = isinstance(atom, (_Variable, _Extreme)) or (isinstance(number, int) and number >= 0)
    return _inner_text(terms) if bare else f"({_inner_text(terms)})"


def _quoted(name: str) -> str:
    if _NAME.fullmatch(name) and name not in _FUNCTIONS:
        return name
    return "`" + name.replace("`", "``") + "`"


def _lone_name(name: str) -> str:
    """The plain name, quoted only where it would be read as another expression."""
    if _NAME.fullmatch(name):
        return name
    other = _read(name, lambda inner: Symbol(inner, None))
    return name if other is None or str(other) != name else "`" + name.replace("`", "``") + "`"


class _Refused(Exception):  # noqa: N818  not a fault: the text is a name
    """The text is not an expression."""


def _read(text: str, named: Callable[[str], Symbolic]) -> Dim | None:
    """The dim that the text says, `None` where it says none."""
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        dim = _Reader(text, named).whole()
    except (_Refused, ZeroDivisionError):
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


# --- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Element:
    """An unknown number inside a NumPy object array, while a page computes on shapes.

    Arithmetic is that of `dim`, with Python and NumPy integers too, and gives an `int` where nothing unknown is left.
    Unlike those of a `Symbolic`, comparisons, `bool` and `int` ask for the number: they answer where the answer is the
    same for all admissible values and raise `Undecided` elsewhere. So elements have no hash.
    """

    __hash__: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride]

    dim: Symbolic

    def __repr__(self) -> str:
        return f"Element({self.dim})"

    def __str__(self) -> str:
        return str(self.dim)

    def __add__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a + b, self, other)

    def __radd__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a + b, other, self)

    def __sub__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a - b, self, other)

    def __rsub__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a - b, other, self)

    def __mul__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a * b, self, other)

    def __rmul__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a * b, other, self)

    def __floordiv__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a // b, self, other)

    def __rfloordiv__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a // b, other, self)

    def __mod__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a % b, self, other)

    def __rmod__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a % b, other, self)

    def __neg__(self) -> Element:
        return Element(-self.dim)

    def __pos__(self) -> Element:
        return self

    def __abs__(self) -> Element | int:
        return element(maximum(self.dim, -self.dim))

    def __eq__(self, other: object) -> bool:
        dim = _known(other)
        return NotImplemented if dim is None else _answer(decide_equal(self.dim, dim), self.dim, "==", dim)

    def __ne__(self, other: object) -> bool:
        dim = _known(other)
        return NotImplemented if dim is None else not _answer(decide_equal(self.dim, dim), self.dim, "!=", dim)

    def __lt__(self, other: object) -> bool:
        dim = _known(other)
        return NotImplemented if dim is None else _answer(decide_less(self.dim, dim), self.dim, "<", dim)

    def __le__(self, other: object) -> bool:
        dim = _known(other)
        return NotImplemented if dim is None else not _answer(decide_less(dim, self.dim), self.dim, "<=", dim)

    def __gt__(self, other: object) -> bool:
        dim = _known(other)
        return NotImplemented if dim is None else _answer(decide_less(dim, self.dim), self.dim, ">", dim)

    def __ge__(self, other: object) -> bool:
        dim = _known(other)
        return NotImplemented if dim is None else not _answer(decide_less(self.dim, dim), self.dim, ">=", dim)

    def __bool__(self) -> bool:
        return not _answer(decide_equal(self.dim, 0), self.dim, "!=", 0)

    def __index__(self) -> int:
        lower, upper = self.dim.bounds
        if lower is None or lower != upper:
            raise Undecided(f"{self.dim} is not one integer")
        return lower

    def __int__(self) -> int:
        return self.__index__()


def element(dim: Dim) -> Element | int:
    """The dim as an entry of a NumPy object array."""
    return Element(dim) if isinstance(dim, Symbolic) else int(dim)


def dim_of(x: object) -> Dim:
    """The dim of an entry of an array: an `Element`, a dim, or a NumPy integer.

    Raises:
        TypeError: it is none of them.
    """
    dim = _known(x)
    if dim is None:
        raise TypeError(f"{x!r} is not a dim")
    return dim


def _known(value: object) -> Dim | None:
    return value.dim if isinstance(value, Element) else _operand(value)


def _computed(operation: Callable[[Dim, Dim], Dim], left: object, right: object) -> Element | int:
    a, b = _known(left), _known(right)
    return NotImplemented if a is None or b is None else element(operation(a, b))


def _answer(decision: bool | None, left: Dim, sign: str, right: Dim) -> bool:  # noqa: FBT001  an answer, not a switch
    if decision is None:
        raise Undecided(f"whether {left} {sign} {right} is known at run time only")
    return decision

"""Bounds of the values of terms by interval arithmetic."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.dims.terms import (
    FARTHEST,
    MAXIMUM,
    MOST_DEPTH,
    MOST_TERMS,
    Atom,
    End,
    Extreme,
    Interval,
    Monomial,
    Quotient,
    Terms,
    sorted_terms,
    times,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Summand = tuple[Monomial, int, Interval]  # the product of the three


def end_of(value: float) -> End:
    """A number or infinity as an end inside an atom."""
    return () if math.isinf(value) else (int(value),)


def lowest(atom: Atom) -> float:
    """The lower end of an atom, minus infinity where there is none."""
    return atom.lower[0] if atom.lower else -math.inf


def highest(atom: Atom) -> float:
    """The upper end of an atom, infinity where there is none."""
    return atom.upper[0] if atom.upper else math.inf


def _outward(lower: float, upper: float) -> Interval:
    """The interval with ends that are too far from zero moved outward: hostile powers must not fill the memory."""
    low = -math.inf if lower < -FARTHEST else min(lower, FARTHEST)
    return low, math.inf if upper > FARTHEST else max(upper, -FARTHEST)


def _end_product(a: float, b: float) -> float:
    return a * b if a and b else 0


def interval_product(a: Interval, b: Interval) -> Interval:
    """Return the interval of the products of two intervals."""
    (low, high), (other_low, other_high) = _outward(*a), _outward(*b)
    ends = [_end_product(x, y) for x in (low, high) for y in (other_low, other_high)]
    return _outward(min(ends), max(ends))


def interval_quotient(a: Interval, b: Interval) -> Interval:
    """Return the interval of the floor quotients of two intervals; a divisor of 0 is excluded."""
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


def _monomial_interval(monomial: Monomial) -> Interval:
    return functools.reduce(interval_product, ((lowest(atom), highest(atom)) for atom in monomial), (1, 1))


def interval_of(terms: Terms) -> Interval:
    """Return an interval that contains the value: the intersection of the results of the rules below."""
    lower, upper = _linear_interval(terms) if is_linear(terms) else _interval_sum(_summands(terms))
    if not any(atom.depth for monomial, _ in terms for atom in monomial):
        return lower, upper
    for low, high in (*_relaxed_intervals(terms), *_extreme_intervals(terms)):
        lower, upper = max(lower, low), min(upper, high)
    return lower, upper


def is_linear(terms: Terms) -> bool:
    """Whether no monomial has two factors."""
    return len(terms[0][0]) <= 1 if terms else True


def _linear_interval(terms: Terms) -> Interval:
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


def _summands(terms: Terms) -> list[_Summand]:
    return [(monomial, coefficient, (1, 1)) for monomial, coefficient in terms]


def _relaxed_intervals(terms: Terms) -> Iterator[Interval]:
    """Bound the terms by replacing `x//n` by `(x - r)/n`, 0 <= r < n: this proves `H - H//2 >= 0` for `H >= 0`."""
    scale = 1
    slack: list[_Summand] = []
    current: dict[Monomial, int] = dict(terms)
    for _ in range(MOST_DEPTH):
        quotients = {monomial: found for monomial in current if (found := _constant_quotient(monomial)) is not None}
        if not quotients:
            break
        step = math.lcm(*(divisor for _, divisor in quotients.values()))
        scale *= step
        slack = [(monomial, coefficient * step, factor) for monomial, coefficient, factor in slack]
        relaxed: dict[Monomial, int] = {}
        for monomial, coefficient in current.items():
            if monomial not in quotients:
                relaxed[monomial] = relaxed.get(monomial, 0) + coefficient * step
                continue
            quotient, divisor = quotients[monomial]
            share = coefficient * step // divisor
            rest = without(monomial, (quotient,)) or ()
            slack.append((rest, -share, (0, divisor - 1)))
            for inner, number in quotient.numerator:
                key = times(inner, rest)
                relaxed[key] = relaxed.get(key, 0) + share * number
        if len(relaxed) > MOST_TERMS or scale > FARTHEST:
            return
        current = relaxed
    if scale > 1:
        low, high = _interval_sum([*_summands(tuple(current.items())), *slack])
        yield low if math.isinf(low) else -(-low // scale), high if math.isinf(high) else high // scale


def _constant_quotient(monomial: Monomial) -> tuple[Quotient, int] | None:
    for atom in monomial:
        if isinstance(atom, Quotient) and not atom.denominator[0][0]:
            return atom, atom.denominator[0][1]
    return None


def _extreme_intervals(terms: Terms) -> Iterator[Interval]:
    """Bound the terms by moving the sum into a maximum or minimum: this proves `N - min(N,1) >= 0`."""
    for monomial, coefficient in terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, Extreme):
            continue
        intervals: list[Interval] = []
        for operand in atom.operands:
            sums = {other: number for other, number in terms if other != monomial}
            for other, number in operand:
                sums[other] = sums.get(other, 0) + coefficient * number
            intervals.append(_interval_sum(_summands(tuple(sums.items()))))
        choose = max if (atom.kind == MAXIMUM) == (coefficient > 0) else min
        yield choose(low for low, _ in intervals), choose(high for _, high in intervals)


def _interval_sum(summands: Iterable[_Summand]) -> Interval:
    lower: float = 0
    upper: float = 0
    for monomial, coefficient, factor in summands:
        low, high = interval_product((coefficient, coefficient), factor)
        if monomial:
            low, high = interval_product((low, high), _monomial_interval(monomial))
        lower, upper = _outward(lower + low, upper + high)
    return lower, upper


class Remainder(NamedTuple):
    """`scale * cofactor * (numerator % denominator)`."""

    scale: int
    cofactor: Monomial
    numerator: Terms
    denominator: Terms


def split_remainders(terms: Terms) -> tuple[list[Remainder], Terms]:
    """Split the terms into remainders `x - n*(x//n)` and other terms."""
    found: list[Remainder] = []
    left = dict(terms)
    for monomial, _ in terms:
        for atom in dict.fromkeys(monomial):
            coefficient = left.get(monomial, 0)
            part = _remainder(atom, monomial, coefficient) if isinstance(atom, Quotient) and coefficient else None
            if part is None or not _remove_numerator(left, part):
                continue
            del left[monomial]
            found.append(part)
    return (found, sorted_terms(left)) if found else (found, terms)


def _remainder(atom: Quotient, monomial: Monomial, coefficient: int) -> Remainder | None:
    if len(atom.denominator) != 1:
        return None
    ((factor, divisor),) = atom.denominator
    cofactor = without(monomial, times((atom,), factor))
    if cofactor is None or coefficient % divisor:
        return None
    return Remainder(-coefficient // divisor, cofactor, atom.numerator, atom.denominator)


def _remove_numerator(left: dict[Monomial, int], part: Remainder) -> bool:
    """Remove the numerator of the remainder from `left`; return whether it was present."""
    wanted = {times(monomial, part.cofactor): part.scale * number for monomial, number in part.numerator}
    for monomial, number in wanted.items():
        present = left.get(monomial, 0)
        if monomial != part.cofactor and not (0 < number <= present or present <= number < 0):
            return False
    for monomial, number in wanted.items():
        left[monomial] = left.get(monomial, 0) - number
    return True

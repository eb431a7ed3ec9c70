"""Comparisons of dims that hold for all admissible values of their symbols."""

from __future__ import annotations

import math
from functools import lru_cache

from graphport.core.dims.symbolic import Dim, bounds, terms_of
from graphport.core.dims.terms import Undecided

_MOST_REMEMBERED = 4096


def decide_equal(a: Dim, b: Dim) -> bool | None:
    """Whether both are equal: `True` or `False` if that holds for all admissible values, `None` if not proven."""
    if a is b or (isinstance(a, int) and isinstance(b, int)):
        return a == b
    return _equal(a, b)


# The layers of a network repeat equal comparisons.
@lru_cache(maxsize=_MOST_REMEMBERED)
def _equal(a: Dim, b: Dim) -> bool | None:
    return _is_zero(a - b)


def settle_equal(a: Dim, b: Dim) -> bool:
    """Whether two dims are equal, for callers whose result depends on it.

    Raises:
        Undecided: they are equal for some admissible values and unequal for others.
    """
    answer = decide_equal(a, b)
    if answer is None:
        message = f"the result depends on whether {a} equals {b}, which is undecided before run time; bind the inputs"
        raise Undecided(message)
    return answer


def decide_less(a: Dim, b: Dim) -> bool | None:
    """Whether `a < b`: `True` or `False` if that holds for all admissible values, `None` if not proven."""
    # Most comparisons are between a dim and a number, and most are decided by the cached bounds of the dim.
    (low, high), (least, most) = bounds(a), bounds(b)
    if high is not None and least is not None and high < least:
        return True
    if low is not None and most is not None and low >= most:
        return False
    return _compare_less(a, b)


@lru_cache(maxsize=_MOST_REMEMBERED)
def _compare_less(a: Dim, b: Dim) -> bool | None:
    return _is_negative(a - b)


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

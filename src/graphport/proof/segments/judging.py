"""Whether two results of a segment differ by more than rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SCREEN = 1e-5
"""Difference, relative to an element and half the largest of its row, up to which results are equal."""
TIMES = 64.0
"""How many times the rounding error of both formulas in single precision two runtimes may differ by."""
RELATIVE = 1e-5
"""Difference, relative to the largest element of a row, that runtimes may have beyond that."""
TINY = 1e-12
"""Difference that never counts: float64 does not resolve it next to intermediate values of 1."""
SHARE = 0.2
"""The part of a difference that both formulas have in double precision, too, if it is no rounding error."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The largest difference of an element, and where it is."""

    max_abs: float
    first: tuple[int, ...]
    reason: str | None = None
    """A difference in NaN, infinity, integers or shapes, which no number describes."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Results of the formulas of both files in single and double precision."""

    a: Any
    b: Any
    wide_a: Any
    wide_b: Any


def find_suspicious(x: Any, y: Any) -> Any:
    """Return a mask of the elements that differ by more than runtimes usually do; `None` if there are none."""
    if x.shape != y.shape:
        return np.ones(x.shape, np.bool_)
    if x.dtype.kind in "iub" or y.dtype.kind in "iub":
        found = x != y
    else:
        one, two = x.astype(np.float64), y.astype(np.float64)
        with np.errstate(all="ignore"):
            found = np.abs(one - two) > SCREEN * (np.abs(one) + 0.5 * _largest_of_row(one)) + TINY
        found |= find_unlike(one, two)
    return found if found.any() else None


def find_unlike(x: Any, y: Any) -> Any:
    """Return the elements where one result is NaN or infinite and the results differ."""
    is_plain = np.isfinite(x) & np.isfinite(y)
    return ~is_plain & ~((x == y) | (np.isnan(x) & np.isnan(y)))


def difference(x: Any, y: Any, exact: Exact, *, has_nan: bool = False) -> Finding | None:
    """Return the difference of two runtimes' results that rounding does not explain; `None` without one.

    A difference counts where the formulas of both files differ in double precision as well, and where the exact result
    and one runtime's result are finite and the second runtime's is not.

    Args:
        x: of the first file.
        y: of the second.
        exact: by the reference interpreter.
        has_nan: whether there is NaN among the inputs, which the second file must not hide, either.
    """
    if x.shape != y.shape:
        return Finding(float("inf"), (), f"shape {list(x.shape)} against {list(y.shape)}")
    if x.dtype.kind in "iub" or y.dtype.kind in "iub":
        wrong = (x != y) & (exact.a != exact.b) & (exact.wide_a != exact.wide_b)
        return _finding(np.abs(x.astype(np.float64) - y.astype(np.float64)), wrong, "integers differ")
    one, two, wide_a, wide_b = (np.asarray(each, np.float64) for each in (x, y, exact.wide_a, exact.wide_b))
    with np.errstate(all="ignore"):
        gap, true_gap = np.abs(one - two), np.abs(wide_a - wide_b)
        noise = _error(exact.a, wide_a) + _error(exact.b, wide_b)
        bound = TIMES * noise + RELATIVE * _largest_of_row(wide_a) + TINY
        is_beyond = (gap > bound) & (true_gap > np.maximum(SHARE * gap, bound))
    overflow = _lost(one, two, wide_a, np.asarray(exact.b, np.float64))
    if has_nan:
        overflow |= np.isfinite(two) & np.isnan(one) & np.isnan(wide_a) & np.isfinite(wide_b)
    if overflow.any():
        return _finding(np.where(np.isfinite(gap), gap, 0), overflow, "NaN or infinity in different places")
    return _finding(gap, np.isfinite(gap) & is_beyond)


def _lost(x: Any, y: Any, wide_a: Any, narrow_b: Any) -> Any:
    """Return the elements where only the second file's formula, in float32, gives NaN or infinity.

    If only its runtime gives NaN or infinity, the file is not at fault.
    """
    limit = float(np.finfo(np.float32).max)
    is_representable = np.isfinite(wide_a) & (np.abs(wide_a) < limit / 1e3)
    return np.isfinite(x) & ~np.isfinite(y) & ~np.isfinite(narrow_b) & is_representable


def _error(narrow: Any, wide: Any) -> Any:
    """Return the largest |narrow - wide| of each element's row: the rounding error in single precision."""
    gap = np.abs(np.asarray(narrow, np.float64) - wide)
    return _largest_of_row(np.where(np.isfinite(gap), gap, 0.0))


def _largest_of_row(x: Any) -> Any:
    """The largest finite magnitude of the row (last axis) of each element."""
    magnitude = np.where(np.isfinite(x), np.abs(x), 0.0)
    return magnitude if x.ndim == 0 else np.max(magnitude, axis=-1, keepdims=True, initial=0.0)


def _finding(gap: Any, wrong: Any, reason: str | None = None) -> Finding | None:
    if not wrong.any():
        return None
    masked = np.where(wrong, gap, -1.0)
    first = tuple(int(index) for index in np.unravel_index(int(np.argmax(masked)), wrong.shape))
    return Finding(float(masked[first]), first, reason)

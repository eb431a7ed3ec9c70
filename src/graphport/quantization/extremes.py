"""Exact percentiles near 0 and 100: keep the smallest and largest elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

Array: TypeAlias = "np.ndarray[Any, Any]"

NUM_KEPT = 512
"""Elements kept at each end: percentile 99.999 is exact up to fifty million elements."""
_CHUNK = 1 << 16
"""Elements processed at a time: after the first block, few exceed the kept ones."""


@dataclass(slots=True, eq=False)
class Extremes:
    """The `KEPT` smallest and largest elements, both ascending; all elements if there are fewer."""

    least: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    largest: Array = field(default_factory=lambda: np.zeros(0, np.float32))

    def add(self, x: Array) -> None:
        """Add finite elements of any shape."""
        numbers = x.reshape(-1)
        for start in range(0, numbers.size, _CHUNK):
            part = numbers[start : start + _CHUNK]
            low = part[part < self.least[-1]] if self.least.size == NUM_KEPT else part
            high = part[part > self.largest[0]] if self.largest.size == NUM_KEPT else part
            if low.size:
                self.least = _least([self.least, low])
            if high.size:
                self.largest = _largest([self.largest, high])

    def merge(self, other: Extremes) -> Extremes:
        """Return the extremes of both."""
        return Extremes(_least([self.least, other.least]), _largest([self.largest, other.largest]))

    def at(self, rank: float, count: int) -> float | None:
        """Return the element at `rank` of all `count` sorted elements, from 0; `None` if it was not kept.

        A fractional rank is interpolated as in `numpy.percentile`.
        """
        before, part = int(rank), rank - int(rank)
        after = before + (part > 0)
        if after < self.least.size:
            ends = self.least[before], self.least[after]
        elif count - 1 - before < self.largest.size:
            ends = self.largest[before - count], self.largest[after - count]
        else:
            return None
        return float(ends[0]) + part * (float(ends[1]) - float(ends[0]))


def _least(parts: Iterable[Array]) -> Array:
    found = np.concatenate([*parts]).astype(np.float32, copy=False)
    return np.sort(np.partition(found, NUM_KEPT - 1)[:NUM_KEPT] if found.size > NUM_KEPT else found)


def _largest(parts: Iterable[Array]) -> Array:
    found = np.concatenate([*parts]).astype(np.float32, copy=False)
    return np.sort(np.partition(found, found.size - NUM_KEPT)[-NUM_KEPT:] if found.size > NUM_KEPT else found)

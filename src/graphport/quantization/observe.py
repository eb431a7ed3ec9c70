"""Statistics of values, collected as a stream: memory does not grow with the number of samples, and states merge.

A state of some samples merged with the state of others is the state of all of them, in whatever pieces they came:
counts are integers, and widths of bins are powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from graphport.quantization.extremes import Extremes
from graphport.quantization.power import power

Array: TypeAlias = "np.ndarray[Any, Any]"

BINS = 4096
"""Bins of a histogram on each side of zero."""
DECAY = 0.9
"""What a moving average keeps of what it was when a sample comes."""
_FINEST = -120
"""Exponent of the narrowest bin."""
_CHUNK = 1 << 15
"""Numbers that are counted at a time: what is computed of them stays in the cache of the processor."""


@dataclass(slots=True, eq=False)
class Histogram:
    """Counts of numbers in bins as wide as a power of two; bin `i` holds `(i - BINS) * width` to the next.

    When a number does not fit, two bins become one. So any two histograms have bins that one of them has, too.
    """

    exponent: int = _FINEST
    counts: Array = field(default_factory=lambda: np.zeros(2 * BINS, np.int64))

    @property
    def width(self) -> float:
        """Width of a bin."""
        return 2.0**self.exponent

    @property
    def centers(self) -> Array:
        """The middle of each bin."""
        return (np.arange(-BINS, BINS) + 0.5) * self.width

    def add(self, x: Array, largest: float | None = None) -> None:
        """Count finite numbers, any shape; `largest` is their largest magnitude, if somebody knows it."""
        if largest is None:
            largest = max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
        self._widen(_exponent(largest))
        numbers, times = x.reshape(-1), 1.0 / self.width
        # In double precision nothing is rounded on the way, so that narrow bins are cut where wide ones are.
        scaled, bins = np.empty(_CHUNK, np.float64), np.empty(_CHUNK, np.intp)
        for start in range(0, numbers.size, _CHUNK):
            part = numbers[start : start + _CHUNK]
            n = part.size
            np.multiply(part, times, out=scaled[:n], dtype=np.float64)
            np.floor(scaled[:n], out=scaled[:n])
            scaled[:n] += BINS
            bins[:n] = scaled[:n]
            self.counts += np.bincount(bins[:n], minlength=2 * BINS)

    def merge(self, other: Histogram) -> Histogram:
        """The counts of both."""
        both = Histogram(self.exponent, self.counts.copy())
        both._widen(other.exponent)
        more = Histogram(other.exponent, other.counts.copy())
        more._widen(both.exponent)
        both.counts += more.counts
        return both

    def _widen(self, exponent: int) -> None:
        while self.exponent < exponent:
            # After so many doublings whatever was counted lies in the two bins beside zero.
            if exponent - self.exponent > 2 * BINS.bit_length() and not self.counts.any():
                self.exponent = exponent
                return
            left, right = self.counts[:BINS], self.counts[BINS:]
            pad = np.zeros(BINS // 2, np.int64)
            self.counts = np.concatenate([pad, left[0::2] + left[1::2], right[0::2] + right[1::2], pad])
            self.exponent += 1


def _exponent(largest: float) -> int:
    """The exponent of the narrowest bins that reach `largest`."""
    if largest <= 0:
        return _FINEST
    exponent = int(np.ceil(np.log2(largest / BINS)))
    while BINS * 2.0**exponent <= largest:
        exponent += 1
    return max(exponent, _FINEST)


@dataclass(slots=True, eq=False)
class Statistics:
    """What was seen of one value.

    `lows` and `highs` are the ends for each entry of `axis` (all of them in one where it is `None`), `other_lows` and
    `other_highs` those without the sample that each end is of; `squares` is the sum of squares; `average` holds the
    moving averages of the ends of single samples, and what is left of the weight that they begin with.
    """

    axis: int | None = None
    samples: int = 0
    elements: int = 0
    lows: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    highs: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    squares: float = 0.0
    average: tuple[float, float, float] = (0.0, 0.0, 1.0)
    histogram: Histogram = field(default_factory=Histogram)
    extremes: Extremes = field(default_factory=Extremes)
    other_lows: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    other_highs: Array = field(default_factory=lambda: np.zeros(0, np.float32))

    @property
    def low(self) -> float:
        """The least number."""
        return float(self.lows.min(initial=np.inf)) if self.lows.size else 0.0

    @property
    def high(self) -> float:
        """The largest number."""
        return float(self.highs.max(initial=-np.inf)) if self.highs.size else 0.0

    @property
    def moving(self) -> tuple[float, float]:
        """The moving averages of the ends."""
        low, high, left = self.average
        return (low / (1 - left), high / (1 - left)) if left < 1 else (0.0, 0.0)

    def add(self, x: Array, *, samples: int) -> None:
        """See a batch of `samples` samples along axis 0 (or one that has no such axis).

        Raises:
            FloatingPointError: there is NaN or infinity in it.
        """
        if x.size == 0:
            return
        is_batch = samples > 1 and x.ndim > 0 and x.shape[0] == samples
        rows = x if is_batch else x[None]
        axis = None if self.axis is None else self.axis + (not is_batch)
        others = tuple(i for i in range(1, rows.ndim) if i != axis)
        lows, highs = rows.min(axis=others).reshape(len(rows), -1), rows.max(axis=others).reshape(len(rows), -1)
        for low, high in zip(lows.min(axis=1), highs.max(axis=1), strict=True):
            self._move(float(low), float(high))
        if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
            message = "NaN or infinity"
            raise FloatingPointError(message)
        self._widen(lows, highs)
        lows, highs = lows.min(axis=0), highs.max(axis=0)
        self.samples += samples
        self.elements += x.size
        flat = x.reshape(-1)
        self.squares += power(flat)
        self.extremes.add(flat)
        self.histogram.add(flat, max(float(highs.max(initial=0.0)), -float(lows.min(initial=0.0))))

    def merge(self, other: Statistics) -> Statistics:
        """The statistics of the samples of both, those of `other` after these."""
        left = other.average[2]
        both = Statistics(
            self.axis,
            self.samples + other.samples,
            self.elements + other.elements,
            self.lows.copy(),
            self.highs.copy(),
            self.squares + other.squares,
            (
                self.average[0] * left + other.average[0],
                self.average[1] * left + other.average[1],
                self.average[2] * left,
            ),
            self.histogram.merge(other.histogram),
            self.extremes.merge(other.extremes),
            self.other_lows.copy(),
            self.other_highs.copy(),
        )
        if other.lows.size:
            both._widen(np.stack([other.lows, other.other_lows]), np.stack([other.highs, other.other_highs]))
        return both

    def _move(self, low: float, high: float) -> None:
        was_low, was_high, left = self.average
        self.average = (
            DECAY * was_low + (1 - DECAY) * low,
            DECAY * was_high + (1 - DECAY) * high,
            DECAY * left,
        )

    def _widen(self, lows: Array, highs: Array) -> None:
        """See the ends of more samples, a row for each."""
        self.lows, self.other_lows = _two_least([self.lows, self.other_lows], lows)
        highest, other = _two_least([-self.highs, -self.other_highs], -highs)
        self.highs, self.other_highs = -highest, -other


def _two_least(known: list[Array], rows: Array) -> Array:
    """The least of each column and the next, of `rows` and of what is known; infinite where there is no other."""
    found = rows.astype(np.float32)
    if known[0].size:
        found = np.concatenate([np.stack(known), found])
    if len(found) == 1:
        found = np.concatenate([found, np.full_like(found, np.inf)])
    return np.partition(found, 1, axis=0)[:2]

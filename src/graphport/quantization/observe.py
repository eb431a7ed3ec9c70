"""Streaming statistics of values: memory does not grow with the number of samples, and states can be merged.

Merged states equal the state of all samples, regardless of how they were divided: counts are integers, and bin widths
are powers of two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from graphport.quantization.extremes import Extremes
from graphport.quantization.sums_of_squares import power

Array: TypeAlias = "np.ndarray[Any, Any]"

BINS = 4096
"""Bins of a histogram on each side of zero."""
DECAY = 0.9
"""Weight of the old moving average for each new sample."""
_FINEST = -120
"""Exponent of the narrowest bin width."""
_CHUNK = 1 << 15
"""Elements counted at a time, so that intermediate results stay in the cache."""


@dataclass(slots=True, eq=False)
class Histogram:
    """Counts of elements in bins with a power-of-two width; bin `i` is [(i - BINS) * width, (i - BINS + 1) * width).

    If an element is out of range, pairs of bins are merged. So the bins of any two histograms are compatible.
    """

    exponent: int = _FINEST
    counts: Array = field(default_factory=lambda: np.zeros(2 * BINS, np.int64))

    @property
    def width(self) -> float:
        """Width of a bin."""
        return 2.0**self.exponent

    @property
    def centers(self) -> Array:
        """Centers of the bins."""
        return (np.arange(-BINS, BINS) + 0.5) * self.width

    def add(self, x: Array, largest: float | None = None) -> None:
        """Count finite elements of any shape; `largest` is their largest magnitude, if known."""
        if largest is None:
            largest = max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
        self._widen(_exponent(largest))
        numbers, times = x.reshape(-1), 1.0 / self.width
        # float64 avoids rounding, so that narrow and wide bins have consistent limits.
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
        """Add the counts of another histogram."""
        both = Histogram(self.exponent, self.counts.copy())
        both._widen(other.exponent)
        more = Histogram(other.exponent, other.counts.copy())
        more._widen(both.exponent)
        both.counts += more.counts
        return both

    def _widen(self, exponent: int) -> None:
        while self.exponent < exponent:
            # After that many doublings all counts are in the two bins next to zero.
            if exponent - self.exponent > 2 * BINS.bit_length() and not self.counts.any():
                self.exponent = exponent
                return
            left, right = self.counts[:BINS], self.counts[BINS:]
            pad = np.zeros(BINS // 2, np.int64)
            self.counts = np.concatenate([pad, left[0::2] + left[1::2], right[0::2] + right[1::2], pad])
            self.exponent += 1


def _exponent(largest: float) -> int:
    """Return the exponent of the narrowest bins that cover `largest`."""
    if largest <= 0:
        return _FINEST
    exponent = int(np.ceil(np.log2(largest / BINS)))
    while BINS * 2.0**exponent <= largest:
        exponent += 1
    return max(exponent, _FINEST)


@dataclass(slots=True, eq=False)
class Statistics:
    """Statistics of one value.

    `lows` and `highs` are the ranges for each index of `axis` (one range if it is `None`), `other_lows` and
    `other_highs` those without the sample that each limit is from; `squares` is the sum of squares; `average` contains
    the moving averages of the samples' limits, and the remaining initial weight.
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
    def minimum(self) -> float:
        """The minimum."""
        return float(self.lows.min(initial=np.inf)) if self.lows.size else 0.0

    @property
    def maximum(self) -> float:
        """The maximum."""
        return float(self.highs.max(initial=-np.inf)) if self.highs.size else 0.0

    @property
    def moving(self) -> tuple[float, float]:
        """The moving averages of minimum and maximum."""
        low, high, left = self.average
        return (low / (1 - left), high / (1 - left)) if left < 1 else (0.0, 0.0)

    def add(self, x: Array, *, samples: int) -> None:
        """Add a batch of `samples` samples along axis 0 (or one without such an axis).

        Raises:
            FloatingPointError: it contains NaN or infinity.
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
        """Add the statistics of later samples."""
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
        """Update the ranges with more samples, a row for each."""
        self.lows, self.other_lows = _two_least([self.lows, self.other_lows], lows)
        highest, other = _two_least([-self.highs, -self.other_highs], -highs)
        self.highs, self.other_highs = -highest, -other


def _two_least(known: list[Array], rows: Array) -> Array:
    """Return the two smallest elements of each column of `rows` and the known ones; infinite if there is no second."""
    found = rows.astype(np.float32)
    if known[0].size:
        found = np.concatenate([np.stack(known), found])
    if len(found) == 1:
        found = np.concatenate([found, np.full_like(found, np.inf)])
    return np.partition(found, 1, axis=0)[:2]

"""Statistics of weights."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphport.core.storage import Storage

BINS = 24
"""Number of bins of a histogram."""
SAMPLE = 1 << 16
"""Limit of elements that are read of one weight."""
_NUM_BLOCKS = 16
_MAX_PACKED_ELEMENTS = 1 << 24
"""Limit of elements narrower than a byte, which are unpacked all at once."""
_BYTE = 8


class Budget:
    """The number of elements that may still be read, for all weights of a report together."""

    def __init__(self, elements: int) -> None:
        self.left = elements


def statistics(storage: Storage, budget: Budget) -> dict[str, Any] | None:
    """Return minimum, maximum, mean, standard deviation, share of zeros and a histogram.

    A weight of more than `SAMPLE` elements is sampled in evenly spaced blocks; `sampled` is the number of elements.
    Returns None for strings, empty and complex tensors, and when the budget is exhausted.
    """
    if not storage.count or storage.dtype.kind not in "biuf":
        return None
    if budget.left < min(storage.count, SAMPLE) or (
        storage.dtype.bits < _BYTE and storage.count > _MAX_PACKED_ELEMENTS
    ):
        return None
    numbers = _sample(storage.numpy().reshape(-1)).astype(np.float64)
    budget.left -= numbers.size
    finite = numbers[np.isfinite(numbers)]
    found: dict[str, Any] = {"sampled": numbers.size} if numbers.size < storage.count else {}
    if finite.size < numbers.size:
        found["not_finite"] = int(numbers.size - finite.size)
    if not finite.size:
        return found
    low, high = float(finite.min()), float(finite.max())
    found |= {"min": low, "max": high, "mean": float(finite.mean()), "zeros": float((finite == 0).mean())}
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(finite.std())
        found |= {"std": spread} if np.isfinite(spread) else {}
        if np.isfinite(high - low):
            # Neighbouring bin bounds may be closer than the spacing of floats.
            with suppress(ValueError):
                found["histogram"] = np.histogram(finite, BINS, (low, high))[0].tolist()
    return found


def _sample(flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return evenly spaced blocks of a large array; of a mapped file only their pages are read."""
    if flat.size <= SAMPLE:
        return flat
    length = SAMPLE // _NUM_BLOCKS
    starts = np.linspace(0, flat.size - length, _NUM_BLOCKS).astype(np.int64)
    return np.concatenate([flat[start : start + length] for start in starts])

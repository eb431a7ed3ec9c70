"""What the numbers of a weight are like."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphport.core.storage import Storage

BINS = 24
"""Of a histogram."""
SAMPLE = 1 << 16
"""Elements of one weight that are looked at."""
_PIECES = 16
_UNPACKED = 1 << 24
"""Elements narrower than a byte are unpacked all at once: of more of them none are."""
_BYTE = 8


class Budget:
    """Elements that may still be looked at, in all weights of a report together."""

    def __init__(self, elements: int) -> None:
        self.left = elements


def statistics(storage: Storage, budget: Budget) -> dict[str, Any] | None:
    """Least and largest number, mean, standard deviation, part of zeros, and a histogram between the ends.

    Of a weight of more than `SAMPLE` elements as many are looked at, in pieces that lie evenly; `sampled` tells how
    many. `None` for text, empty and complex tensors, and where the budget is spent.
    """
    if not storage.count or storage.dtype.kind not in "biuf":
        return None
    if budget.left < min(storage.count, SAMPLE) or (storage.dtype.bits < _BYTE and storage.count > _UNPACKED):
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
            # Numbers may lie closer together than so many different bounds.
            with suppress(ValueError):
                found["histogram"] = np.histogram(finite, BINS, (low, high))[0].tolist()
    return found


def _sample(flat: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of many elements some pieces; a mapped file is read where these are."""
    if flat.size <= SAMPLE:
        return flat
    length = SAMPLE // _PIECES
    starts = np.linspace(0, flat.size - length, _PIECES).astype(np.int64)
    return np.concatenate([flat[start : start + length] for start in starts])

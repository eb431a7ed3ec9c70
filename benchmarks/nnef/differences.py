"""Compare the outputs of two runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def difference(found: Sequence[Any], right: Sequence[Any], tolerance: float) -> str:
    """Return a description of the first difference; empty if there is none."""
    if len(found) != len(right):
        return f"{len(found)} outputs, {len(right)} expected"
    for place, (one, other) in enumerate(zip(found, right, strict=True)):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape:
            return f"output {place} is {list(a.shape)}, {list(b.shape)} expected"
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            far = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y) / np.maximum(1, np.abs(y)))
        if far.size and not far.max() <= tolerance:
            return f"output {place} by {far.max():.3g}"
    return ""

"""Differences that rounding explains: of large numbers, where a model multiplies what its inputs are rounded by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.comparison.metrics import Difference
    from graphport.proof.test_inputs import TestInput

_STEPS = 8.0
"""How many times the change that one step of its inputs makes two runtimes may differ by."""


def nudged(draw: TestInput) -> TestInput | None:
    """`draw` with each real number moved to a neighbour, up or down by chance; `None` where there are none."""
    random = np.random.default_rng(draw.seed)
    moved = {name: _nudged(array, random) for name, array in draw.arrays.items()}
    return None if all(moved[name] is draw.arrays[name] for name in moved) else replace(draw, arrays=moved)


def _nudged(array: Any, random: np.random.Generator) -> Any:
    dtype: Any = getattr(array, "dtype", None)
    if dtype not in _NUMBERS:
        return array
    return np.nextafter(array, np.where(random.random(np.shape(array)) < 0.5, -np.inf, np.inf).astype(dtype))


_NUMBERS = (np.float16, np.float32, np.float64)
"""What NumPy itself knows the neighbours of."""


def explained(found: Sequence[Difference], outputs: Sequence[Any], again: Sequence[Any]) -> frozenset[int]:
    """The outputs, by position, whose difference is of the size of what nudged inputs change.

    Args:
        found: how two sides differ.
        outputs: what the first computed, of the inputs.
        again: the same of the nudged inputs.
    """
    return frozenset(
        position
        for position, (each, one, two) in enumerate(zip(found, outputs, again, strict=True))
        if each.max_abs is not None and each.reason is None and each.max_abs <= _STEPS * _change(one, two)
    )


def _change(one: Any, two: Any) -> float:
    """The largest change of an output; 0 where it is none of finite real numbers."""
    if getattr(one, "dtype", None) not in _NUMBERS or np.shape(one) != np.shape(two):
        return 0.0
    change = np.abs(np.asarray(one, np.float64) - np.asarray(two, np.float64)).max(initial=0.0)
    return float(change) if np.isfinite(change) else 0.0

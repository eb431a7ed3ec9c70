"""Differences of large values that rounding explains: models that amplify the rounding of their inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.comparison.metrics import Difference
    from graphport.proof.test_inputs import TestInput

_STEPS = 8.0
"""Factor by which two runtimes may differ beyond the change of an output by one ulp of its inputs."""


def nudged(test_input: TestInput) -> TestInput | None:
    """Return a copy with every float moved by one ulp, up or down at random; `None` without floats."""
    random = np.random.default_rng(test_input.seed)
    moved = {name: _nudged(array, random) for name, array in test_input.arrays.items()}
    return None if all(moved[name] is test_input.arrays[name] for name in moved) else replace(test_input, arrays=moved)


def _nudged(array: Any, random: np.random.Generator) -> Any:
    dtype: Any = getattr(array, "dtype", None)
    if dtype not in _NUMBERS:
        return array
    return np.nextafter(array, np.where(random.random(np.shape(array)) < 0.5, -np.inf, np.inf).astype(dtype))


_NUMBERS = (np.float16, np.float32, np.float64)
"""Element types that `np.nextafter` supports."""


def explained(found: Sequence[Difference], outputs: Sequence[Any], again: Sequence[Any]) -> frozenset[int]:
    """Return the outputs whose difference is at most about their change by nudged inputs.

    Args:
        found: differences of the two sides.
        outputs: outputs of side `a`.
        again: its outputs for the nudged inputs.
    """
    return frozenset(
        position
        for position, (each, one, two) in enumerate(zip(found, outputs, again, strict=True))
        if each.max_abs is not None and each.reason is None and each.max_abs <= _STEPS * _change(one, two)
    )


def _change(one: Any, two: Any) -> float:
    """Largest change of an output; 0 if it is not of finite floats."""
    if getattr(one, "dtype", None) not in _NUMBERS or np.shape(one) != np.shape(two):
        return 0.0
    change = np.abs(np.asarray(one, np.float64) - np.asarray(two, np.float64)).max(initial=0.0)
    return float(change) if np.isfinite(change) else 0.0

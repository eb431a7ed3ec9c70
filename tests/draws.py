"""The number of examples of property tests.

In CI it is the full number with fixed examples; elsewhere a quarter, different each time; ten times as many with `make
laws`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

USUAL = 40
EXAMPLES = int(os.environ.get("GRAPHPORT_EXAMPLES", USUAL if os.environ.get("CI") else USUAL // 4))
"""What a law is tried with that says nothing else."""


def spread(cases: Sequence[T], *, start: int = 0) -> Sequence[T]:
    """Return all cases in CI, and every fourth one elsewhere: for many expensive, independent cases.

    Tests of the same cases select others if `start` differs.
    """
    step = max(USUAL // EXAMPLES, 1)
    return cases[start % step :: step]


def times(count: int) -> int:
    """Scale a number of examples for this run."""
    return max(count * EXAMPLES // USUAL, 1)

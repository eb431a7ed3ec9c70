"""How many examples random laws are tried with: a number as it stands in CI, a quarter as many elsewhere, ten times as many
by `make laws`. Elsewhere they are others every time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

USUAL = 40
EXAMPLES = int(os.environ.get("GRAPHPORT_EXAMPLES", USUAL if os.environ.get("CI") else USUAL // 4))
"""What a law is tried with that says nothing else."""


def spread(cases: Sequence[T], *, start: int = 0) -> Sequence[T]:
    """All of the cases in CI, and every fourth one elsewhere: of many that cost, and of which each has its own say.

    Tests of the same cases have others where they start elsewhere.
    """
    step = max(USUAL // EXAMPLES, 1)
    return cases[start % step :: step]


def times(count: int) -> int:
    """As many examples as a law asks for, in the same measure."""
    return max(count * EXAMPLES // USUAL, 1)

"""Models are timed by one run or two: which of two is quicker, no test asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def few_turns() -> Iterator[pytest.MonkeyPatch]:
    """Let `quantize` time what it chooses from by a run each, and the command both models by two."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("graphport.quantization.optimise.costs._SECONDS", 0.0)
        patched.setattr("graphport.quantization.optimise.costs._TURNS", 1)
        patched.setattr("graphport.quantization.optimise.costs._LEAST_TURNS", 1)
        patched.setattr("graphport.cli.quantize._TURNS", 2)
        yield patched

"""What the tests of quantization have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def few_turns() -> Iterator[None]:
    """A few runs are enough to time a model: which of two is quicker, no test asks."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("graphport.quantization.optimise.costs._SECONDS", 0.004)
        patched.setattr("graphport.quantization.optimise.costs._TURNS", 3)
        yield

"""What the tests of quantization have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import turns


@pytest.fixture(scope="module", autouse=True)
def few_turns() -> Iterator[None]:
    with turns.few_turns():
        yield

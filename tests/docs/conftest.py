"""Fixtures of the tests of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.turns import few_turns


@pytest.fixture(scope="module", autouse=True)
def one_runtime() -> Iterator[None]:
    """Measure latencies in one runtime only; tests/quantization covers all runtimes."""
    with few_turns() as patched:
        from graphport.cli import quantize

        real = quantize._times_on
        patched.setattr(
            quantize, "_times_on", lambda name, *given: real(name, *given) if name == "onnxruntime" else None
        )
        yield

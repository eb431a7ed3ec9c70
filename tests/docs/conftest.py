"""What the tests of the documentation have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_runtime() -> Iterator[None]:
    """`quantize` times a few runs in one runtime; that it takes all there are is shown in tests/quantization."""
    with pytest.MonkeyPatch.context() as patched:
        from graphport.cli import quantize

        real = quantize._times_on
        patched.setattr(
            quantize, "_times_on", lambda name, *given: real(name, *given) if name == "onnxruntime" else None
        )
        patched.setattr(quantize, "_TURNS", 10)
        patched.setattr("graphport.quantization.optimise.costs._SECONDS", 0.004)
        patched.setattr("graphport.quantization.optimise.costs._TURNS", 3)
        yield

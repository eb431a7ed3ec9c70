"""Weights times factors, made in pieces."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.spill import spilling
from graphport.passes import substitution
from graphport.passes.substitution import Scaled


@pytest.mark.parametrize("is_spilled", [False, True], ids=["in memory", "in a file"])
@pytest.mark.parametrize(
    ("shape", "factor"),
    [
        pytest.param((7, 5, 3), (7, 1, 1), id="along the first axis"),
        pytest.param((7, 5, 3), (1, 5, 1), id="along another axis"),
        pytest.param((7, 5, 3), (1, 1, 1), id="one for all"),
        pytest.param((1, 9, 4), (1, 9, 1), id="behind an axis of one entry"),
        pytest.param((1, 1), (1, 1), id="one number"),
        pytest.param((0, 3), (1, 3), id="no numbers"),
    ],
)
def test_pieces_are_what_the_whole_would_be(shape, factor, is_spilled, monkeypatch):
    monkeypatch.setattr(substitution, "_PIECE", 11)
    monkeypatch.setattr("graphport.core.spill.LEAST", 1 if is_spilled else 1 << 30)
    random = np.random.default_rng(0)
    w, k = random.normal(size=shape).astype(np.float32), random.normal(size=factor)
    with spilling():
        found = Scaled(w, k).rounded(DType.FLOAT32)
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), (w.astype(np.float64) * k).astype(np.float32))


def test_products_that_are_not_finite_are_none():
    w = np.array([[1.0, 3e38], [1.0, 1.0]], np.float32)
    assert Scaled(w, np.full((2, 1), 10.0)).rounded(DType.FLOAT32) is None


def test_a_large_weight_takes_little_memory():
    w = np.ones((1024, 8192), np.float32)
    tracemalloc.start()
    with spilling():
        found = Scaled(w, np.full((1024, 1), 2.0)).rounded(DType.FLOAT32)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert peak < w.nbytes

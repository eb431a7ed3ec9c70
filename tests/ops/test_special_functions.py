"""Sums and shares in types of few digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.ops.special_functions import narrow_sum, softmax_rounded

BFLOAT16 = DType.BFLOAT16.numpy


@given(st.integers(0, 999), st.integers(1, 8))
def test_narrow_sum_of_a_short_axis_is_sequential(seed, n):
    x = np.random.default_rng(seed).random((3, n)).astype(BFLOAT16)
    total = x[:, :1]
    for place in range(1, n):
        total = (total.astype(np.float32) + x[:, place : place + 1].astype(np.float32)).astype(BFLOAT16)
    np.testing.assert_array_equal(narrow_sum(x), total)


@pytest.mark.parametrize("n", [9, 300, 5000])
def test_a_long_axis_costs_few_digits(n):
    # One after another the sum of ones would stay at 256: 257 has nine digits, and the type has eight.
    assert narrow_sum(np.ones((2, n), BFLOAT16)).astype(float).tolist() == [[pytest.approx(n, rel=0.02)]] * 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, BFLOAT16], ids=str)
def test_rounded_softmax_sums_to_1(dtype):
    x = np.random.default_rng(0).normal(size=(4, 50)).astype(dtype)
    found = softmax_rounded(x)
    assert found.dtype == dtype
    assert found.astype(np.float64).sum(-1) == pytest.approx(np.ones(4), rel=2e-2 if found.itemsize == 2 else 1e-6)


def test_equal_numbers_share_equally_however_many_they_are():
    found = softmax_rounded(np.zeros((1, 1024), BFLOAT16)).astype(float)
    assert found.tolist() == [[1 / 1024] * 1024]

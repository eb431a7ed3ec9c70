"""Sums of squares."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.quantization.sums_of_squares import power


def test_squares_are_added_up():
    assert power(np.asarray([[1, 2], [3, -4]], np.float32)) == 30


@pytest.mark.filterwarnings("error")
def test_power_of_large_values_uses_float64():
    assert power(np.asarray([-3e38, 4e38 / 2], np.float32)) == pytest.approx(13e76, rel=1e-6)


def test_power_of_an_empty_array_is_0():
    assert power(np.zeros((0, 3), np.float32)) == 0

"""Reasons why layers are noisy."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.quantization.analyse import reasons
from graphport.quantization.observe import Statistics
from graphport.quantization.parameters import asymmetric, symmetric


@pytest.fixture
def state():
    found = Statistics()
    found.add(np.linspace(-1, 1, 800, dtype=np.float32).reshape(16, 50), samples=16)
    return found


def test_numbers_beyond_the_range_are_reported(state):
    assert reasons(state, asymmetric(-0.5, 1, DType.UINT8))[0].startswith("saturated: 2")


@pytest.mark.parametrize(("beyond", "is_told"), [(1, False), (2, True)], ids=["a thousandth", "two"])
def test_more_than_a_thousandth_beyond_the_range_is_reported(beyond, is_told):
    x = np.full(1000, 0.5, np.float32)
    x[:beyond] = 4.0
    found = Statistics()
    found.add(x.reshape(20, 50), samples=20)
    told = reasons(found, asymmetric(0, 1, DType.UINT8))
    assert told == (("saturated: 0.20 % of the elements are outside of the range",) if is_told else ())


def test_less_than_half_a_step_beyond_the_range_is_not_beyond_it(state):
    assert reasons(state, symmetric(0.998, DType.INT8)) == ()


@pytest.mark.parametrize("dtype", [DType.FLOAT8E4M3FN, DType.FLOAT8E5M2])
def test_float8_saturates_only_outside_its_range(state, dtype):
    assert reasons(state, symmetric(1.0, dtype)) == ()
    assert reasons(state, symmetric(0.5, dtype))[0].startswith("saturated: 5")

"""Compiled functions against wider arithmetic, and at the ends of their ranges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphport.expression.expression import Expression
from graphport.expression.functions import NUMPY_FUNCTIONS, Function, Signature
from graphport.expression.fused.mathematics import DOUBLE_ERROR, SINGLE_ERROR

pytest.importorskip("llvmlite")

HAS_WIDE = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant
TABLE = {**NUMPY_FUNCTIONS, "sigmoid": Function("sigmoid", Signature((1,), "f", floats=True), np.tanh)}
COUNT = 200_003
DRAWS = np.random.default_rng(7)


def around_zero():
    return DRAWS.standard_normal(COUNT) * np.exp(DRAWS.uniform(-60, -1, COUNT))


def spread(low, high):
    return DRAWS.uniform(low, high, COUNT)


def computed(function, *operands):
    text = f"{function}({','.join(f'@{index}' for index in range(len(operands)))})"
    return Expression(text, TABLE, tier="fused")(*operands)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.array([math.erf(number) for number in x.astype(np.float64)])


CASES = [
    pytest.param("exp", np.exp, [(-87.3, 88.7)], [(-708, 709.7)], id="exp"),
    pytest.param("expm1", np.expm1, [(-20, 88), None], [(-40, 709), None], id="expm1"),
    pytest.param("log", np.log, [(1e-37, 1e38), (0.5, 2)], [(1e-307, 1e308), (0.5, 2)], id="log"),
    pytest.param("log1p", np.log1p, [(-0.999999, 1e6), None], [(-0.999999, 1e9), None], id="log1p"),
    pytest.param("tanh", np.tanh, [(-12, 12), None], [(-25, 25), None], id="tanh"),
    pytest.param("sigmoid", sigmoid, [(-80, 80)], [(-700, 700)], id="sigmoid"),
    pytest.param("erf", erf, [(-4.5, 4.5), None], [(-6.5, 6.5), None], id="erf"),
]


def largest_error(result, expected):
    is_normal = np.abs(expected) >= np.finfo(result.dtype).tiny
    wide = result.astype(expected.dtype)[is_normal]
    return np.max(np.abs(wide - expected[is_normal]) / np.abs(expected[is_normal]))


@pytest.mark.parametrize(("name", "reference", "ranges", "_wide"), CASES)
def test_float32_functions_meet_the_error_bound(name, reference, ranges, _wide):
    for limits in ranges:
        x = (around_zero() if limits is None else spread(*limits)).astype(np.float32)
        assert largest_error(computed(name, x), reference(x.astype(np.float64))) < SINGLE_ERROR


@pytest.mark.skipif(not HAS_WIDE, reason="this machine has nothing wider than doubles")
@pytest.mark.parametrize(("name", "reference", "_narrow", "ranges"), CASES)
def test_float64_functions_meet_the_error_bound(name, reference, _narrow, ranges):
    for limits in ranges:
        x = around_zero() if limits is None else spread(*limits)
        # The reference of erf is itself a double, and half a unit off.
        allowed = DOUBLE_ERROR + (1.2e-16 if name == "erf" else 0)
        assert largest_error(computed(name, x), reference(x.astype(np.longdouble))) < allowed


def test_float32_pow_meets_the_error_bound():
    x, y = np.exp(spread(-5, 5)).astype(np.float32), spread(-16, 16).astype(np.float32)
    assert largest_error(computed("pow", x, y), x.astype(np.float64) ** y) < SINGLE_ERROR


def test_logaddexp_is_accurate_up_to_cancellation():
    x, y = spread(-50, 50).astype(np.float32), spread(-50, 50).astype(np.float32)
    expected = np.logaddexp(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(computed("logaddexp", x, y), expected, rtol=SINGLE_ERROR, atol=1.2e-7)


ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-42, -1e-42, 100.0, -110.0, 88.8, 3.0, -3.0, 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "erf"])
def test_the_ends_of_the_range(name, dtype):
    x = np.array([*ENDS, np.finfo(dtype).tiny, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal], dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(NUMPY_FUNCTIONS[name].compute(x.astype(np.float64))).astype(dtype)
    result = computed(name, x)
    rtol = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=float(np.finfo(dtype).smallest_subnormal))
    is_zero = expected == 0
    assert (np.signbit(result[is_zero]) == np.signbit(expected[is_zero])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["pow", "logaddexp", "fmod", "remainder", "floor_divide", "atan2", "maximum"])
def test_the_ends_of_two_ranges(name, dtype):
    numbers = np.array([*ENDS, 2.0, -2.0, 7.0, 1e20, 0.25], dtype)
    x, y = (pair.ravel() for pair in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        expected = np.asarray(NUMPY_FUNCTIONS[name].compute(x, y))
    np.testing.assert_allclose(computed(name, x, y), expected, rtol=1e-6 if dtype is np.float32 else 1e-14)


def test_subnormal_results_are_not_lost():
    x = np.array([-90, -95, -100, -103], np.float32)
    np.testing.assert_allclose(computed("exp", x), np.exp(x.astype(np.float64)), rtol=0.3)

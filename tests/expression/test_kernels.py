from __future__ import annotations

import math

import numpy as np
import pytest

from graphport.expression.approximations import erf_of
from graphport.expression.faults import Fault
from graphport.expression.functions import SIGNATURES
from graphport.expression.kernels import KERNELS, logaddexp, power, sign
from tests.expression.arrays import f32, f64, i32


def test_every_function_has_a_kernel():
    assert SIGNATURES.keys() <= KERNELS.keys()


def test_erf_is_accurate_to_2_ulp():
    x = np.concatenate([np.linspace(-7, 7, 20_001), np.geomspace(1e-300, 1, 500), [np.inf, -np.inf]])
    expected = f64([math.erf(number) for number in x])
    assert np.max(np.abs(erf_of(x) - expected) / np.spacing(np.abs(expected))) <= 2
    assert np.isnan(erf_of(f64([np.nan]))).all()
    assert np.signbit(erf_of(f64([-0.0]))).all()


def test_the_sign_of_no_number_is_zero():
    assert sign(f32([np.nan, -0.0, -3])).tolist() == [0, 0, -1]
    assert sign(np.array(np.nan)) == 0


def test_integer_powers_with_negative_exponents_have_no_fraction():
    bases, exponents = i32([2, 1, -1, -1, 0, 3]), i32([-1, -5, -3, -4, -2, 2])
    assert power(bases, exponents).tolist() == [0, 1, -1, 1, 0, 9]


def test_power_one_half_differs_from_sqrt_at_minus_infinity():
    with np.errstate(all="ignore"):
        assert power(f32([-np.inf, 4, -1]), np.array(0.5, np.float32))[:2].tolist() == [np.inf, 2]


def test_logaddexp_does_not_overflow():
    assert logaddexp(f32([1000]), f32([1000])) == pytest.approx(1000.6931)
    with np.errstate(all="ignore"):
        assert logaddexp(np.array([1000 + 1j]), np.array([0j])) == pytest.approx(1000 + 1j)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integers_are_not_divided_by_zero(name):
    with pytest.raises(Fault) as caught:
        KERNELS[name](i32([1, 2]), i32([1, 0]))
    assert caught.value.code == "EXPR0204"
    with np.errstate(all="ignore"):
        assert not np.isfinite(KERNELS[name](f32([1]), f32([0]))).any()


@pytest.mark.parametrize("name", ["erf", "rsqrt", "sign", "pow", "logaddexp", "copy"])
def test_kernels_write_to_out(name):
    x = f32([0.5, 2.0])
    arguments = [x, x] if name in {"pow", "logaddexp"} else [x]
    out = np.empty_like(x)
    assert KERNELS[name](*arguments, out=out) is out
    np.testing.assert_array_equal(out, KERNELS[name](*arguments))

"""Quantization in NNEF, by its formulas."""

from typing import Any

import numpy as np
import pytest

from graphport.ops.declare import ShapeError
from graphport.ops.definitions.quantization import DequantizeLinear
from tests.ops.oracle import compare, run_word, there_and_back


def random(*shape, seed=0):
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * 3).astype(np.float32)


def half_up(x):
    return np.floor(x + 0.5)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_steps_between_a_minimum_and_a_maximum(signed, symmetric, bits):
    x, low, high = random(2, 3, 4), -np.abs(random(1, 3)), np.abs(random(1, 3, seed=1)) + 1
    flags: dict[str, Any] = {"bits": bits, "signed": signed, "symmetric": symmetric}
    (found,) = run_word("nnef", "min_max_linear_quantize", [x, low, high], **flags)
    a, b = low.reshape(1, 3, 1), high.reshape(1, 3, 1)
    r = 2**bits - 1 - (signed and symmetric)
    p = 2 ** (bits - 1) - symmetric if signed else 0
    q = half_up((np.clip(x, a, b) - a) / (b - a) * r) - p
    compare(found, ((q + p) / r * (b - a) + a).astype(np.float32), tolerance=1e-5)


def test_linear_quantization_is_unsigned():
    x, low, high = random(2, 3), np.float32(-2), np.float32(3)
    inputs = [x, np.asarray(low), np.asarray(high)]
    (found,) = run_word("nnef", "linear_quantize", inputs, literals=(1, 2), bits=3)
    compare(found, half_up((np.clip(x, low, high) - low) / 5 * 7) / np.float32(7) * 5 + low, tolerance=1e-5)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_steps_around_a_zero_point(signed, symmetric):
    x, scale = random(2, 3, 4) * 5, np.abs(random(1, 3)) * 0.1 + 0.05
    zero = np.array([[3, 0, 5]], np.int64)
    flags: dict[str, Any] = {"bits": 5, "signed": signed, "symmetric": symmetric}
    (found,) = run_word("nnef", "zero_point_linear_quantize", [x, zero, scale], **flags)
    z, s = zero.reshape(1, 3, 1), scale.reshape(1, 3, 1)
    r = 2**4 - 1 if signed else 2**5 - 1
    q = np.clip(half_up(x / s) + z, 0 if not signed else -r if symmetric else -r - 1, r)
    compare(found, ((q - z) * s).astype(np.float32), tolerance=1e-5)


def test_powers_of_two():
    x, most = random(3, 4), np.asarray(np.float32(5.0))
    x[0, 0] = 0
    (found,) = run_word("nnef", "logarithmic_quantize", [x, most], literals=(1,), bits=3)
    with np.errstate(divide="ignore"):
        q = half_up(np.clip(np.log2(np.abs(x)), 3 - 7, 3))
    compare(found, (np.sign(x) * 2.0**q).astype(np.float32), tolerance=1e-5)


@pytest.mark.parametrize("exponent", [*range(-30, 31, 5), 13, 26, -15])
def test_a_power_of_two_is_its_own_limit(exponent):
    limit = np.asarray(np.float32(2.0**exponent))
    x = np.float32([2.0**exponent, 2.0 ** (exponent + 1), 0.0])
    (found,) = run_word("nnef", "logarithmic_quantize", [x, limit], literals=(1,), bits=3)
    compare(found, np.float32([limit, limit, 0]), tolerance=0)


def test_powers_of_two_of_the_provisional_edition():
    x, most, bits = random(3, 4), np.asarray(np.float32(5.0)), 3
    (found,) = run_word("nnef", "provisional.logarithmic_quantize", [x, most], literals=(1,), bits=bits)
    top = 2.0 ** np.ceil(np.log2(5.0))
    least = 2.0 ** (np.log2(top) - bits)
    compare(found, np.exp2(half_up(np.log2(np.clip(x, least, top) / least))).astype(np.float32), tolerance=1e-5)


def test_bits_are_counted():
    with pytest.raises(ShapeError, match="bits is 0"):
        run_word("nnef", "linear_quantize", [random(2), random(2), random(2)], bits=0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_weights_in_blocks_are_the_numbers_that_they_stand_for(dtype):
    codes = np.arange(64).reshape(4, 16).astype(dtype)
    scales, points = np.abs(random(4, 2)) + 1, np.arange(8).reshape(4, 2).astype(dtype)
    settings: dict[str, Any] = {"axis": 1, "block_size": 8}
    assert there_and_back(DequantizeLinear, [codes, scales, points], constants=(0, 1, 2), **settings) == ["copy"]
    assert there_and_back(DequantizeLinear, [codes, scales, points], constants=(1, 2), **settings) is None

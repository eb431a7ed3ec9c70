"""Grids: what is on them, and what is nearest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.ops.registry import op_defs
from graphport.quantization.parameters import QuantizationParameters, activation_qparams, asymmetric, limits, symmetric

reals = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize(("dtype", "is_symmetric", "expected"), [
    pytest.param(DType.UINT8, False, (0, 255), id="all codes"),
    pytest.param(DType.INT8, False, (-128, 127), id="all signed codes"),
    pytest.param(DType.INT8, True, (-127, 127), id="as many below zero as above"),
    pytest.param(DType.INT4, True, (-7, 7), id="narrow"),
    pytest.param(DType.UINT16, False, (0, 65535), id="wide"),
])  # fmt: skip
def test_limits(dtype, is_symmetric, expected):
    assert limits(dtype, symmetric=is_symmetric) == expected


@given(reals, reals, st.sampled_from([DType.UINT8, DType.INT8, DType.UINT16]))
def test_zero_is_on_an_asymmetric_grid(a, b, dtype):
    qparams = asymmetric(min(a, b), max(a, b), dtype)
    assert qparams.nearest(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


@given(reals, reals)
def test_an_asymmetric_grid_reaches_both_ends_to_within_a_step(a, b):
    low, high = min(a, b, 0), max(a, b, 0)
    qparams = asymmetric(low, high, DType.UINT8)
    step = float(qparams.scale)
    assert qparams.min_value <= low + step
    assert qparams.max_value >= high - step


@given(st.lists(reals, min_size=1, max_size=30), st.sampled_from([DType.UINT8, DType.INT8]))
def test_numbers_inside_move_by_half_a_step_at_most(numbers, dtype):
    x = np.asarray(numbers, np.float32)
    qparams = asymmetric(float(x.min()), float(x.max()), dtype)
    inside = (x >= qparams.min_value) & (x <= qparams.max_value)
    gap = np.abs(qparams.nearest(x) - x)[inside]
    assert np.all(gap <= 0.5001 * qparams.scale + 1e-6 * np.abs(x[inside]))


@given(st.lists(reals, min_size=1, max_size=30), st.booleans())
def test_codes_are_those_of_the_page(numbers, is_symmetric):
    x = np.asarray(numbers, np.float32)
    qparams = activation_qparams(float(x.min()), float(x.max()), DType.INT8, is_symmetric=is_symmetric)
    op_def = op_defs()["QuantizeLinear"](x, qparams.scale, qparams.zero_point)
    # A symmetric grid leaves out the least code, which the page has.
    assert np.array_equal(np.maximum(op_def, qparams.least), qparams.codes(x))
    assert np.allclose(
        op_defs()["DequantizeLinear"](qparams.codes(x), qparams.scale, qparams.zero_point), qparams.nearest(x)
    )


def test_qparams_may_be_per_channel():
    qparams = symmetric(np.asarray([127.0, 12.7]), DType.INT8, axis=1)
    assert qparams.codes(np.asarray([[127.0, 12.7], [1.0, 0.1]], np.float32)).tolist() == [[127, 127], [1, 1]]


def test_blocks_share_a_scale():
    scale = np.asarray([[1.0, 2.0]], np.float32)
    qparams = QuantizationParameters(DType.INT8, scale, np.zeros((1, 2), np.int8), -127, 127, axis=1, block=2)
    assert qparams.codes(np.asarray([[4, 4, 4]], np.float32)).tolist() == [[4, 4, 2]]


@pytest.mark.parametrize("bound", [0.3, 1.0, 1.5, 127.0])
def test_power_of_two_scales_cover_the_range(bound):
    qparams = symmetric(bound, DType.INT8, power_of_two=True)
    assert np.log2(float(qparams.scale)) == round(np.log2(float(qparams.scale)))
    assert qparams.max_value >= bound * (1 - 1e-6)


@pytest.mark.parametrize(("dtype", "most"), [(DType.FLOAT8E4M3FN, 448.0), (DType.FLOAT8E5M2, 57344.0)])
def test_narrow_floats_use_their_whole_range(dtype, most):
    qparams = symmetric(10.0, dtype)
    codes = qparams.codes(np.asarray([10.0, 1000.0], np.float32)).astype(np.float32)
    assert codes.tolist() == [most, most]
    assert (qparams.min_value, qparams.max_value) == pytest.approx((-10.0, 10.0))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT8E5M2])
def test_values_far_outside_the_range_are_clipped_without_warning(dtype):
    qparams = symmetric(1e-30, dtype)
    found = qparams.nearest(np.asarray([-3e38, 0.0, 3e38], np.float32))
    np.testing.assert_allclose(found, [qparams.min_value, 0.0, qparams.max_value])


def test_a_tensor_of_zeros_has_a_grid():
    assert asymmetric(0.0, 0.0, DType.UINT8).nearest(np.zeros(2, np.float32)).tolist() == [0, 0]


def test_an_unsigned_symmetric_grid_has_zero_in_its_middle():
    qparams = symmetric(np.asarray([1.0]), DType.UINT8)
    assert qparams.zero_point.tolist() == [128]
    assert qparams.codes(np.asarray([0.0, -1.0, 1.0], np.float32)).tolist() == [128, 1, 255]

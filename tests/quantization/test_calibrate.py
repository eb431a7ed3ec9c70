"""Ranges against independent formulas and exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.quantization.calibrate import METHODS, calibrate, divergences, ends, least_divergence, squared_error
from graphport.quantization.observe import Statistics
from graphport.quantization.parameters import activation_qparams
from graphport.quantization.unseen_error import unseen_errors


def _state(x):
    state = Statistics()
    state.add(x, samples=len(x))
    return state


def _numbers(kind, seed=0):
    r = np.random.default_rng(seed)
    x = r.normal(size=(20, 500)).astype(np.float32)
    match kind:
        case "normal":
            return x
        case "rectified":
            return np.maximum(x, 0)
        case "heavy":
            return (np.sign(x) * np.abs(x) ** 3).astype(np.float32)
        case _:
            return np.abs(r.uniform(size=x.shape)).astype(np.float32) + 3


KINDS = ["normal", "rectified", "heavy", "far from zero"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percent", [90.0, 99.0, 99.9, 99.99])
def test_percentiles_are_those_of_numpy_to_within_a_bin(kind, percent):
    x = _numbers(kind)
    state = _state(x)
    low, high = ends(state, DType.UINT8, "percentile", is_symmetric=False, percentile=percent)
    # Between two numbers every one is a percentile; the histogram may choose another than numpy.
    lower = np.percentile(x, 100 - percent, method="lower"), np.percentile(x, 100 - percent, method="higher")
    upper = np.percentile(x, percent, method="lower"), np.percentile(x, percent, method="higher")
    width = state.histogram.width
    assert lower[0] - 2 * width <= low <= lower[1] + 2 * width
    assert upper[0] - 2 * width <= high <= upper[1] + 2 * width


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percent", [98.0, 99.9, 99.999, 100.0])
def test_percentiles_near_the_ends_are_exactly_those_of_numpy(kind, percent):
    x = _numbers(kind)
    found = ends(_state(x), DType.UINT8, "percentile", is_symmetric=False, percentile=percent)
    expected = np.percentile(x.astype(np.float64), [100 - percent, percent])
    assert found == pytest.approx(tuple(expected), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("percent", [55.0, 75.0, 90.0])
def test_other_percentiles_are_those_of_numpy_to_a_2048th_of_the_largest(kind, percent):
    x = np.tile(_numbers(kind), (3, 1))
    found = ends(_state(x), DType.UINT8, "percentile", is_symmetric=False, percentile=percent)
    expected = np.percentile(x.astype(np.float64), [100 - percent, percent])
    assert np.abs(np.asarray(found) - expected).max() <= np.abs(x).max() / 2048


def test_an_outlier_does_not_blur_the_percentiles_before_it():
    x = _numbers("normal")
    x[3, 4] = 1e7
    found = ends(_state(x), DType.UINT8, "percentile", is_symmetric=False, percentile=99.9)
    assert found == pytest.approx(tuple(np.percentile(x.astype(np.float64), [0.1, 99.9])), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_squared_error_is_that_of_the_numbers(kind):
    x = _numbers(kind)
    state = _state(x)
    for part in (0.3, 0.7, 1.0):
        qparams = activation_qparams(state.minimum * part, state.maximum * part, DType.UINT8, is_symmetric=False)
        true = np.sum((qparams.nearest(x) - x).astype(np.float64) ** 2)
        assert squared_error(state.histogram, qparams) == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_symmetric", [False, True], ids=["asymmetric", "symmetric"])
def test_the_least_error_is_nearly_that_of_exhaustive_search(kind, is_symmetric):
    x = _numbers(kind)
    state = _state(x)
    qparams = calibrate(state, DType.UINT8 if not is_symmetric else DType.INT8, "mse", is_symmetric=is_symmetric)
    parts = np.linspace(0.05, 1.0, 60)

    def error(candidate):
        return np.sum((candidate.nearest(x) - x).astype(np.float64) ** 2)

    lows = [0.0] if state.minimum >= 0 else state.minimum * parts
    every = [
        activation_qparams(float(low), state.maximum * float(part), qparams.dtype, is_symmetric=is_symmetric)
        for low in lows for part in parts
    ]  # fmt: skip
    assert error(qparams) <= 1.06 * min(error(candidate) for candidate in every)


@pytest.mark.parametrize("kind", ["normal", "rectified", "heavy"])
def test_the_least_divergence_is_nearly_that_of_exhaustive_search(kind):
    state = _state(_numbers(kind))
    counts = state.histogram.counts
    half = len(counts) // 2
    folded = counts[half:] + counts[:half][::-1]
    folded[0] = folded[1]
    used = int(np.flatnonzero(folded).max()) + 1
    levels = 128 if state.minimum < 0 else 256
    found = {stop: _divergence(folded[:used], stop, levels) for stop in range(levels, used + 1, 16)}
    low, high = least_divergence(state, DType.UINT8)
    chosen = max(high, -low)
    at = min(found, key=lambda stop: abs(stop * state.histogram.width - chosen))
    span = max(found.values()) - min(found.values())
    assert found[at] <= min(found.values()) + 0.1 * span


def _divergence(counts, stop, levels):
    """Bin by bin, as the definition says it."""
    p = counts[:stop].astype(np.float64)
    q = np.zeros(stop)
    steps = np.arange(stop) * levels // stop
    for first, last in zip(
        np.searchsorted(steps, range(levels)), np.searchsorted(steps, range(1, levels + 1)), strict=True
    ):
        bins = first + np.flatnonzero(counts[first:last])
        q[bins] = np.sum(counts[bins]) / max(len(bins), 1)
    p[-1] += counts[stop:].sum()
    p, q = p / p.sum(), np.maximum(q / max(q.sum(), 1e-30), 1e-12)
    return float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0])))


@pytest.mark.parametrize("seed", range(8))
def test_divergences_of_many_cuts_are_those_of_each(seed):
    r = np.random.default_rng(seed)
    counts = r.integers(0, 5, 90) * r.integers(0, 2, 90)
    counts[3] = 1
    stops = np.arange(8, 91)
    expected = [_divergence(counts, stop, 8) for stop in stops]
    assert divergences(counts, stops, 8) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_divergence_of_equal_distributions_is_zero():
    counts = np.asarray([5, 5, 3, 3, 2, 2, 1, 1])
    assert divergences(counts, np.asarray([8]), 4) == pytest.approx([0.0], abs=1e-9)


def test_divergence_equals_the_formula():
    counts = np.asarray([4, 2, 1, 1])
    p, q = np.asarray([4, 2, 1, 1]) / 8, np.asarray([3, 3, 1, 1]) / 8
    assert divergences(counts, np.asarray([4]), 2) == pytest.approx([float(np.sum(p * np.log(p / q)))])


@pytest.mark.parametrize("kind", KINDS)
def test_auto_has_the_least_squared_error_of_the_methods(kind):
    """On the samples that were seen, and as is expected on others."""
    state = _state(_numbers(kind))
    all_qparams = {method: calibrate(state, DType.UINT8, method) for method in METHODS}
    errors = {
        method: squared_error(state.histogram, qparams) + state.samples * unseen_errors(state, qparams).sum()
        for method, qparams in all_qparams.items()
    }
    assert errors["auto"] <= 1.0001 * min(errors.values())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_holds_a_constant(method):
    qparams = calibrate(_state(np.full((4, 50), 2.5, np.float32)), DType.UINT8, method)
    assert qparams.nearest(np.asarray([2.5], np.float32)) == pytest.approx([2.5], rel=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_holds_zeros(method):
    assert calibrate(_state(np.zeros((2, 9), np.float32)), DType.UINT8, method).nearest(np.zeros(1, np.float32)) == [0]


def test_min_max_reaches_every_number():
    x = _numbers("heavy")
    qparams = calibrate(_state(x), DType.UINT8, "min-max")
    assert np.abs(qparams.nearest(x) - x).max() <= 1.01 * float(qparams.scale)


def test_the_moving_average_leaves_a_single_outlier_out():
    x = np.ones((50, 10), np.float32)
    x[10, 3] = 100
    assert calibrate(_state(x), DType.UINT8, "moving-average").max_value < 10


def test_mse_calibration_clips_each_end_separately():
    """A few numbers far below zero are cut off, and the many above it keep their end."""
    x = np.random.default_rng(0).uniform(0, 10, size=(20, 500)).astype(np.float32)
    x[3, :2] = -5
    qparams = calibrate(_state(x), DType.UINT4, "mse")
    assert qparams.max_value > 9.5
    assert qparams.min_value > -2

    def error(low, high):
        return float(
            np.sum(
                (activation_qparams(low, high, DType.UINT4, is_symmetric=False).nearest(x) - x).astype(np.float64) ** 2
            )
        )

    common = min(error(-5 * part, 10 * part) for part in np.linspace(0.2, 1, 81))
    assert float(np.sum((qparams.nearest(x) - x).astype(np.float64) ** 2)) < common

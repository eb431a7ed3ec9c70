"""Intervals of estimates hold on samples that were not seen."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.quantization.confidence_interval import ratio_interval, share_interval
from graphport.quantization.engine import Noise


@pytest.mark.parametrize(
    ("count", "spread", "least"), [(4, 0.5, 0.93), (12, 0.5, 0.93), (64, 0.5, 0.93), (64, 1.5, 0.93)]
)
def test_ratio_interval_covers_the_population_ratio(count, spread, least):
    """In about 95 % of all draws, also where most of the noise is that of few samples."""
    r = np.random.default_rng(3)
    signals = r.chisquare(8, size=(2000, count))
    noises = 1e-3 * signals**0.5 * np.exp(r.normal(0, spread, size=(2000, count)))
    x = r.chisquare(8, size=1_000_000)
    true = np.sum(1e-3 * x**0.5 * np.exp(r.normal(0, spread, size=x.size))) / np.sum(x)
    found = [ratio_interval(s, n) for s, n in zip(signals, noises, strict=True)]
    held = np.mean([low <= true <= high for low, high in found])
    assert held > least
    assert np.mean([low > true for low, _ in found]) < 0.06
    assert np.median([high / low for low, high in found]) < (30 if count == 4 else 10)


def test_ratio_interval_needs_4_samples():
    assert ratio_interval([1.0] * 3, [0.1, 0.2, 0.3]) is None
    assert ratio_interval([1.0] * 4, [0.0] * 4) == (0.0, 0.0)
    assert share_interval(0, 0) is None


def test_share_interval_equals_the_wilson_interval():
    """The bounds of Wilson's interval for 10 of 10 and 5 of 20, as Brown, Cai and DasGupta's formula (4) gives them."""
    assert share_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-3)
    assert share_interval(5, 20) == pytest.approx((0.1119, 0.4687), abs=1e-3)


def test_noise_is_distinguished_by_samples():
    """The same numbers in one run and in runs of one sample; without an axis of samples a run is one."""
    r = np.random.default_rng(5)
    x, y = r.normal(size=(2, 6, 3))
    whole, single, flat = Noise(), Noise(), Noise()
    whole.add({"y": x}, {"y": y}, 6)
    for i in range(6):
        single.add({"y": x[i : i + 1]}, {"y": y[i : i + 1]})
        flat.add({"y": x[i]}, {"y": y[i]}, 5)
    assert whole.snr_range == pytest.approx(single.snr_range)
    assert whole.snr_range == pytest.approx(flat.snr_range)
    low, high = whole.snr_range
    assert low < whole.snr < high


@pytest.mark.parametrize("count", [2, 12])
def test_a_margin_leads_to_the_lower_end(count):
    r = np.random.default_rng(count)
    noise = Noise()
    x = r.normal(size=(count, 4)).astype(np.float32)
    noise.add({"y": x}, {"y": x + r.normal(0, 0.1, x.shape).astype(np.float32)}, count)
    assert noise.margin == (0.0 if noise.snr_range is None else pytest.approx(noise.snr - noise.snr_range[0]))
    assert (noise.margin > 0) is (count == 12)

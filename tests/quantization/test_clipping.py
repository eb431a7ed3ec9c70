"""A method that cuts off too much is told, whichever it is."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.quantization import nets


def _warnings(data, method, **changes):
    report = gp.quantize(nets.residual(), {"x": data}, preset="fast", method=method, **changes).report
    return [finding for finding in report.findings if finding.code == "QUANT0019"], report.snr_db


def _uneven():
    """Samples the last of which are far smaller than others: what moves along with them forgets those."""
    return nets.samples(nets.residual(), 40)["x"] * np.geomspace(50, 0.1, 40).astype(np.float32)[:, None, None, None]


def test_a_moving_average_over_uneven_samples_is_told():
    (finding,), snr = _warnings(_uneven(), "moving-average")
    assert "the method moving-average cuts so much off" in finding.message
    assert "--method auto" in finding.help
    assert finding.severity == "warning"
    assert _warnings(_uneven(), "auto")[1] > snr + 10


def test_a_percentile_that_keeps_half_is_told():
    assert _warnings(nets.samples(nets.residual(), 40)["x"], "percentile", percentile=60.0)[0]


@pytest.mark.parametrize("method", ["auto", "min-max", "mse", "percentile"])
def test_methods_that_do_no_harm_are_not(method):
    assert _warnings(nets.samples(nets.residual(), 40)["x"], method)[0] == []

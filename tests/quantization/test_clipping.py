"""A method that cuts off too much is told, whichever it is."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph
from graphport.quantization.calibrate import squared_error
from graphport.quantization.clipping import clipping
from graphport.quantization.observe import Statistics
from graphport.quantization.parameters import symmetric
from tests.quantization import nets


def _warnings(data, method, **changes):
    report = gp.quantize(nets.residual(), {"x": data}, preset="fast", method=method, **changes).report
    return [finding for finding in report.findings if finding.code == "QUANT0019"], report.snr_db


def _uneven():
    """Samples the last of which are far smaller than others: what moves along with them forgets those."""
    return nets.samples(nets.residual(), 40)["x"] * np.geomspace(50, 0.1, 40).astype(np.float32)[:, None, None, None]


def test_a_moving_average_over_uneven_samples_is_reported():
    (finding,), snr = _warnings(_uneven(), "moving-average")
    assert "the method moving-average clips" in finding.message
    assert "--method auto" in finding.help
    assert finding.severity == "warning"
    assert _warnings(_uneven(), "auto")[1] > snr + 10


def test_a_percentile_that_keeps_half_is_reported():
    assert _warnings(nets.samples(nets.residual(), 40)["x"], "percentile", percentile=60.0)[0]


@pytest.mark.parametrize("method", ["auto", "min-max", "mse", "percentile"])
def test_methods_that_do_no_harm_are_not(method):
    assert _warnings(nets.samples(nets.residual(), 40)["x"], method)[0] == []


@pytest.mark.parametrize(
    ("times", "is_told"),
    [
        pytest.param(2.0, False, id="four times the noise is not told"),
        pytest.param(2.01, True, id="a little more is"),
        pytest.param(1.9, False, id="less is not"),
    ],
)
def test_more_than_four_times_the_noise_of_the_whole_range_is_reported(times, is_told):
    """Steps within a bin of the histogram make noise of step² / 12: twice the step is four times the noise, 6 dB."""
    state = Statistics()
    state.add(np.linspace(-1, 1, 5000, dtype=np.float32).reshape(50, 100), samples=50)
    value = Graph("g").add_input("x", TensorFact(DType.FLOAT32, (50, 100)))
    qparams, whole = symmetric(1.1 * times, DType.INT16), symmetric(1.1, DType.INT16)
    assert squared_error(state.histogram, qparams) == pytest.approx(times**2 * squared_error(state.histogram, whole))
    found = clipping("mse", {value: qparams}, {value: state}, lambda _: whole)
    assert bool(found) is is_told
    if is_told:
        assert "clips 1 of 1 values" in found[0].message
        assert "up to 6.1 dB ('x')" in found[0].message

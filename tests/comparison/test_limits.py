"""What passes as equal: each limit that is given holds, and only those."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from graphport.comparison import difference
from graphport.comparison.limits import Limits

A = np.array([4.0, 0.0])
B = A + np.array([0.0, 0.1])
NOISE = difference("v", A, B).snr_db or 0.0


def negative_gap(a, b):
    return -float(np.abs(a - b).max())


def test_all_given_limits_apply():
    """Exactly on a limit passes, a little beyond does not, whichever others there are."""
    for tolerance, ratio, measure in product((None, 0.1, 0.09), (None, NOISE, NOISE + 0.1), (None, -0.1, -0.09)):
        limits = Limits(
            absolute=tolerance and tolerance + 1e-12,
            least_snr=ratio,
            least_metric=measure and measure - 1e-12,
            metric=negative_gap,
        )
        given = (tolerance, ratio, measure) != (None, None, None)
        found = limits.difference("v", A, B)
        assert found.passed is (given and tolerance != 0.09 and ratio in (None, NOISE) and measure != -0.09)
        assert found.first == (None if found.passed or tolerance == 0.1 else (1,))
        assert found.metric == pytest.approx(-0.1)
        assert limits.difference("v", A, A.copy()).passed


def test_default_tolerances_add_up_and_given_ones_replace_them():
    def passes(gap, **given):
        return Limits(**given).difference("v", A, A + np.array([0.0, gap])).passed

    for gap, passed in ((4.0e-4, True), (4.02e-4, False)):
        assert passes(gap) is passed
    assert passes(0.399, relative=0.1)
    assert not passes(0.401, relative=0.1)
    assert passes(0.099, absolute=0.1)
    assert not passes(0.1001, absolute=0.1)
    assert passes(0.499, relative=0.1, absolute=0.1)
    assert not passes(0.501, relative=0.1, absolute=0.1)
    assert not passes(1e-9, relative=0.0)
    assert passes(0.0, absolute=0.0)


def test_shape_and_nan_differences_pass_no_limit():
    loose = Limits(least_snr=-1000, least_metric=-1000, metric=negative_gap)
    for a, b in ((A, A[:1]), (A, np.array([4.0, np.nan])), (A, None)):
        found = loose.difference("v", a, b)
        assert (found.passed, found.metric) == (False, None)
    found = loose.difference("v", np.array([1, 2]), np.array([1, 3]))
    assert (found.passed, found.metric, found.first) == (False, -1.0, (1,))
    assert loose.difference("v", np.array([1, 2]), np.array([1, 2])).passed


def test_per_value_limits_replace_the_general_limits():
    own = Limits(of={"v": Limits(absolute=1.0)}, absolute=1e-9, metric=negative_gap)
    found = own.difference("v", A, B, other="w")
    assert (found.passed, found.metric, found.other) == (True, pytest.approx(-0.1), "w")
    assert not own.difference("w", A, B).passed
    measured = Limits(of={"v": Limits(metric=lambda _, __: 7.0, least_metric=7.0)}, metric=negative_gap)
    assert measured.difference("v", A, B).metric == 7.0


def test_least_metric_requires_a_metric():
    with pytest.raises(ValueError, match="a minimum of 3 is set for the metric"):
        Limits(least_metric=3.0).difference("v", A, B)
    assert Limits(of={"v": Limits(least_metric=-1.0)}, metric=negative_gap).difference("v", A, B).passed

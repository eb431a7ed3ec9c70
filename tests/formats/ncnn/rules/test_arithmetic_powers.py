"""Powers, which ncnn has of numbers above 0 alone."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.ncnn.rules.written import check
from tests.models import node

pytest.importorskip("ncnn")

BASES = np.array([[-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 0, -7, 0.25]], np.float32)
POWER = [node("Pow", ["x", "n"], ["y"])]


@pytest.mark.parametrize("exponent", [9, 8, 3, 2, 1, 0, 65, 0.5, 1.5, 0.7, -0.0])
def test_one_exponent(tmp_path, exponent):
    check(tmp_path, POWER, {"x": BASES}, {"n": np.array(exponent, np.float32)})


@pytest.mark.parametrize("exponent", [-1, -2, -3, -0.5, -0.7])
def test_below_zero(tmp_path, exponent):
    """Of 0 the runtime has no reciprocal."""
    check(tmp_path, POWER, {"x": BASES[BASES != 0][None]}, {"n": np.array(exponent, np.float32)})


def test_whole_exponents_of_integers(tmp_path):
    check(tmp_path, POWER, {"x": BASES}, {"n": np.array(3, np.int64)})


EACH = np.array([[2, 3, -1, -2, 0, 1, 0.5, 1.5, 0, 0.1, 5, -3]], np.float32)


@pytest.mark.parametrize("is_known", [True, False])
def test_an_exponent_for_each(tmp_path, is_known):
    rows = np.stack([np.roll(EACH, place, 1) for place in range(EACH.size)], 1)
    given = {"x": np.broadcast_to(BASES[:, None], rows.shape).copy()}
    check(tmp_path, POWER, given if is_known else {**given, "n": rows}, {"n": rows} if is_known else {}, rtol=1e-4)


@pytest.mark.parametrize("base", [2.0, 0.0, -2.0])
def test_a_base_that_is_known(tmp_path, base):
    check(tmp_path, POWER, {"n": EACH}, {"x": np.array(base, np.float32)}, rtol=1e-4)

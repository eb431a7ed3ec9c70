"""Codes searched for along several ways: never worse than where they start, and the best ones of small layers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import graphport as gp
from graphport.quantization import round as rounding
from graphport.quantization.choices import Choices
from graphport.quantization.refine import errors, refined
from graphport.quantization.round import Codes
from graphport.quantization.settings import Settings
from graphport.quantization.weights import PAIR, pair_sums
from tests.every import every
from tests.quantization import nets


def _problem(seed, depth, rows=2, groups=1, common=0.9):
    """Rows that are alike, so that errors can make each other good; a weight with coarse scales."""
    r = np.random.default_rng(seed)
    x = common * r.normal(size=(groups, 200, 1)) + (1 - common) * r.normal(size=(groups, 200, depth))
    weight = r.normal(size=(groups, rows, depth)).astype(np.float32)
    scale = r.uniform(0.3, 0.7, size=(groups, rows, 1)).astype(np.float32) * np.ones_like(weight)
    codes = Codes(np.clip(np.rint(weight / scale), -7, 7), scale, -7, 7, has_pairs=False)
    return codes, weight, rounding.moments(x.astype(np.float32))


def _exhaustive(codes, weight, second):
    """The least error of each row over all codes: those of -2 to 3 above the floor, and with few columns all."""
    groups, rows, depth = weight.shape
    least = np.empty((groups, rows))
    for group, row in np.ndindex(groups, rows):
        w, scale = weight[group, row].astype(np.float64), codes.scale[group, row].astype(np.float64)
        near = range(-2, 4) if depth < 7 else range(2)
        every = np.clip(np.floor(w / scale) + np.asarray(list(product(near, repeat=depth))), codes.least, codes.most)
        gaps = every * scale - w
        least[group, row] = np.einsum("nd,de,ne->n", gaps, second[group].astype(np.float64), gaps, optimize=True).min()
    return least


def _rounded(codes, weight, second):
    return rounding.descend(rounding.second_order(codes, weight, second), weight, second, 64)


@every("depth", [1, 2, 3, 4, 5, 6])
@every("seed", range(4))
def test_small_layers_get_the_codes_of_exhaustive_search(seed, depth):
    codes, weight, second = _problem(seed, depth, groups=1 + seed % 2)
    found = errors(refined(_rounded(codes, weight, second), weight, second), weight, second)
    assert found == pytest.approx(_exhaustive(codes, weight, second), rel=1e-6)


@pytest.mark.parametrize("depth", [8, 10, 12])
@pytest.mark.parametrize("seed", range(3))
def test_refinement_is_optimal_up_to_12_weights(seed, depth):
    codes, weight, second = _problem(seed, depth, rows=1)
    found = errors(refined(codes, weight, second), weight, second)
    assert np.all(found <= _exhaustive(codes, weight, second) * (1 + 1e-6))


@pytest.mark.parametrize("shape", [(1, 6, 40), (5, 1, 9), (2, 3, 17), (1, 2, 130)], ids=str)
@pytest.mark.parametrize("start", ["nearest", "second order"])
def test_no_row_is_worse_than_its_start(shape, start):
    groups, rows, depth = shape
    codes, weight, second = _problem(7, depth, rows, groups)
    begun = codes if start == "nearest" else _rounded(codes, weight, second)
    before = errors(begun, weight, second)
    after = errors(refined(begun, weight, second), weight, second)
    assert np.all(after <= before)
    assert after.sum() < 0.999 * before.sum()


def test_most_rows_get_better_than_column_by_column():
    before, after = 0.0, 0.0
    for seed in range(4):
        codes, weight, second = _problem(seed, 32, rows=4, common=0.5)
        begun = _rounded(codes, weight, second)
        before += errors(begun, weight, second).sum()
        after += errors(refined(begun, weight, second), weight, second).sum()
    assert after < 0.95 * before


def test_refinement_keeps_optimal_codes():
    codes, weight, _ = _problem(0, 9)
    second = np.eye(9, dtype=np.float32)[None]
    assert np.array_equal(refined(codes, weight, second).numbers, codes.numbers)


def test_the_error_equals_the_formula():
    codes, weight, second = _problem(3, 5, rows=3, groups=2)
    gap = codes.numbers.astype(np.float64) * codes.scale - weight
    assert errors(codes, weight, second) == pytest.approx(np.einsum("god,gde,goe->go", gap, second, gap), rel=1e-5)


def test_codes_stay_on_the_grid():
    codes, weight, second = _problem(1, 20)
    numbers = refined(_rounded(codes, 20 * weight, second), 20 * weight, second).numbers
    assert np.abs(numbers).max() <= 7
    assert np.array_equal(numbers, np.rint(numbers))


@pytest.mark.parametrize("depth", [6, 7])
def test_refined_pairs_never_overflow_16_bits(depth):
    r = np.random.default_rng(0)
    weight = (r.normal(size=(1, 8, depth)) * 100).astype(np.float32)
    codes = Codes(np.zeros_like(weight), np.ones_like(weight), -127, 127, has_pairs=True)
    x = r.normal(size=(1, 100, depth)) + r.normal(size=(1, 100, 1))
    second = rounding.moments(x.astype(np.float32))
    begun = _rounded(codes, weight, second)
    made = refined(begun, weight, second)
    assert pair_sums(made.numbers).max() <= PAIR
    assert np.all(errors(made, weight, second) <= errors(begun, weight, second))


def test_refinement_skips_layers_without_moments():
    weight = np.ones((1, 1, 1025), np.float32)
    codes = Codes(weight, weight, -7, 7, has_pairs=False)
    assert refined(codes, weight, np.zeros((1, 1, 1))) is codes


def test_only_preset_best_refines_by_default():
    assert [Choices.of(Settings(preset=preset)).refines for preset in ("fast", "balanced", "best")] == [
        False,
        False,
        True,
    ]
    assert not Choices.of(Settings(preset="best", refine=False)).refines


@pytest.mark.parametrize("seed", range(3))
def test_refinement_is_kept_only_if_it_improves_the_snr(seed):
    found = nets.depthwise(seed)
    steps = gp.quantize(found, nets.samples(found, 32), weight_bits=4, refine=True).report.steps
    refining = [step for step in steps if step.name == "refine"]
    others = [step.snr_db for step in steps if step.is_kept and step.name != "refine" and "itself" not in step.name]
    assert len(refining) == 1
    assert refining[0].is_kept == (refining[0].snr_db > max(others))


@pytest.mark.parametrize("name", ["residual", "products"])
def test_refining_by_request_is_good(name):
    found = getattr(nets, name)()
    data = nets.samples(found, 32)
    plain, fine = (gp.quantize(found, data, weight_bits=4, refine=flag).report.snr_db for flag in (False, True))
    assert fine >= plain

"""Resizing by whole factors in NNEF."""

from typing import Any

import numpy as np
import pytest

from graphport.ops.declare import ShapeError
from graphport.ops.resize import Resize
from tests.ops.oracle import compare, lowered_nodes, run_word, there_and_back

MODES: dict[str, Any] = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "reflect-even": "symmetric"}


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("symbolic", [False, True])
def test_sampling_up_and_down_are_their_definitions(symbolic):
    x = random(1, 2, 4, 6)
    (found,) = run_word("nnef", "nearest_upsample", [x], factor=(2, 3), symbolic=symbolic)
    compare(found, x.repeat(2, axis=2).repeat(3, axis=3))
    (found,) = run_word("nnef", "nearest_downsample", [x], factor=(2, 3), symbolic=symbolic)
    compare(found, x[:, :, ::2, ::3])
    (found,) = run_word("nnef", "area_downsample", [x], factor=(2, 3), symbolic=symbolic)
    compare(found, x.reshape(1, 2, 2, 2, 2, 3).mean(axis=(3, 5)), tolerance=1e-5)


def interpolated(x, factor, method, border):
    """The definition along the last axis."""
    n = x.shape[-1]
    grown = np.pad(x, (1, 1), MODES[border])
    y = []
    for place in range(n * factor):
        if method == "aligned":
            at = place * (n - 1) / (n * factor - 1)
        else:
            at = (place + 0.5) / factor - 0.5 if method == "symmetric" else place / factor
        low = int(np.floor(at))
        y.append(grown[low + 1] * (low + 1 - at) + grown[min(low + 2, n + 1)] * (at - low))
    return np.array(y, np.float32)


@pytest.mark.parametrize("border", sorted(MODES))
@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_interpolation_reads_what_the_border_puts_beyond_the_edge(method, border, factor):
    x = random(5)
    word: dict[str, Any] = {"factor": (factor,), "method": method, "border": border}
    (found,) = run_word("nnef", "multilinear_upsample", [x.reshape(1, 1, 5)], **word)
    compare(found[0, 0], interpolated(x, factor, method, border), tolerance=1e-5)


@pytest.mark.parametrize(
    ("word", "attributes", "message"),
    [
        ("nearest_upsample", {"factor": (2,)}, "2 spatial axes"),
        ("nearest_upsample", {"factor": (2, 0)}, "factor"),
        ("area_downsample", {"factor": (3, 2)}, "does not divide"),
        ("multilinear_upsample", {"factor": (2, 2), "method": "cubic", "border": "replicate"}, "'cubic'"),
        ("multilinear_upsample", {"factor": (2, 2), "method": "symmetric", "border": "wrap"}, "'wrap'"),
    ],
)
def test_sampling_refuses(word, attributes, message):
    with pytest.raises(ShapeError, match=message):
        lowered_nodes("nnef", word, [(1, 2, 4, 6)], **attributes)


SCALES = np.array([1, 1, 2, 3], np.float32)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, ["nearest_upsample"]),
        ({}, ["nearest_upsample"]),
        ({"coordinate_transformation_mode": "pytorch_half_pixel"}, ["nearest_upsample"]),
        ({"nearest_mode": "floor"}, None),
        ({"coordinate_transformation_mode": "align_corners"}, None),
        ({"mode": "linear"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, ["multilinear_upsample"]),
        ({"mode": "cubic"}, None),
        ({"mode": "linear", "antialias": 1}, None),
    ],
)
def test_saying_a_resizing_keeps_its_meaning(attributes, words):
    x = random(1, 2, 3, 4)
    assert there_and_back(Resize, [x, None, SCALES], constants=(2,), tolerance=1e-5, **attributes) == words
    sizes = np.array([1, 2, 6, 12])
    assert there_and_back(Resize, [x, None, None, sizes], constants=(3,), tolerance=1e-5, **attributes) == words


def test_whole_divisors_of_the_extents_are_said():
    down: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = np.array([1, 1, 0.5, 0.25], np.float32)
    assert there_and_back(Resize, [random(1, 2, 4, 8), None, scales], constants=(2,), **down) == ["nearest_downsample"]
    assert there_and_back(Resize, [random(1, 2, 5, 8), None, scales], constants=(2,), **down) is None


def test_other_factors_are_not_said():
    x = random(1, 2, 4, 4)
    assert there_and_back(Resize, [x, None, np.array([1, 1, 1.5, 2], np.float32)], constants=(2,)) is None
    assert there_and_back(Resize, [x, None, np.array([1, 2, 1, 2], np.float32)], constants=(2,)) is None
    assert there_and_back(Resize, [x, None, SCALES]) is None

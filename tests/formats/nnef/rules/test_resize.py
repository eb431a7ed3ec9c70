"""Resizing in NNEF: words for whole factors, picks and products for others."""

from typing import Any

import numpy as np
import pytest

from graphport.ops.declare import ShapeError
from graphport.ops.definitions.resize import Resize
from tests.every import every
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


@every("border", sorted(MODES))
@every("method", ["symmetric", "asymmetric", "aligned"])
@every("factor", [1, 2, 3])
def test_interpolation_reads_what_the_border_puts_beyond_the_edge(method, border, factor):
    x = random(5)
    op_type: dict[str, Any] = {"factor": (factor,), "method": method, "border": border}
    (found,) = run_word("nnef", "multilinear_upsample", [x.reshape(1, 1, 5)], **op_type)
    compare(found[0, 0], interpolated(x, factor, method, border), tolerance=1e-5)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("nearest_upsample", {"factor": (2,)}, "2 spatial axes"),
        ("nearest_upsample", {"factor": (2, 0)}, "factor"),
        ("area_downsample", {"factor": (3, 2)}, "does not divide"),
        ("multilinear_upsample", {"factor": (2, 2), "method": "cubic", "border": "replicate"}, "'cubic'"),
        ("multilinear_upsample", {"factor": (2, 2), "method": "symmetric", "border": "wrap"}, "'wrap'"),
    ],
)
def test_sampling_refuses(op_type, attributes, message):
    with pytest.raises(ShapeError, match=message):
        lowered_nodes("nnef", op_type, [(1, 2, 4, 6)], **attributes)


SCALES = np.array([1, 1, 2, 3], np.float32)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, ["nearest_upsample"]),
        ({}, ["nearest_upsample"]),
        ({"coordinate_transformation_mode": "pytorch_half_pixel"}, ["nearest_upsample"]),
        ({"nearest_mode": "floor"}, ["gather", "gather"]),
        ({"coordinate_transformation_mode": "align_corners"}, ["gather", "gather"]),
        ({"mode": "linear"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, ["multilinear_upsample"]),
        ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, ["multilinear_upsample"]),
        ({"mode": "cubic"}, ["matmul", "matmul"]),
        ({"mode": "linear", "antialias": 1}, ["matmul", "matmul"]),
    ],
)
def test_exporting_a_resizing_preserves_its_semantics(attributes, words):
    x = random(1, 2, 3, 4)
    assert there_and_back(Resize, [x, None, SCALES], constants=(2,), tolerance=1e-5, **attributes) == words
    sizes = np.array([1, 2, 6, 12])
    assert there_and_back(Resize, [x, None, None, sizes], constants=(3,), tolerance=1e-5, **attributes) == words


def test_whole_divisors_of_the_extents_are_written():
    down: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = np.array([1, 1, 0.5, 0.25], np.float32)
    assert there_and_back(Resize, [random(1, 2, 4, 8), None, scales], constants=(2,), **down) == ["nearest_downsample"]
    uneven = there_and_back(Resize, [random(1, 2, 5, 8), None, scales], constants=(2,), **down)
    assert uneven == ["gather", "gather"]


@every(
    "settings",
    [
        pytest.param({"mode": "nearest"}, id="nearest"),
        pytest.param({"mode": "nearest", "nearest_mode": "ceil"}, id="nearest above"),
        pytest.param({"mode": "linear"}, id="linear"),
        pytest.param({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, id="corners"),
        pytest.param({"mode": "linear", "antialias": 1}, id="antialias"),
        pytest.param({"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}, id="cubic"),
        pytest.param({"mode": "linear", "keep_aspect_ratio_policy": "not_larger"}, id="ratio kept"),
    ],
)
@every("sizes", [(2, 2, 7, 9), (2, 2, 3, 2), (3, 1, 5, 6)])
def test_other_factors_are_picks_or_products_along_each_axis(settings, sizes):
    x = random(2, 2, 5, 6)
    words = there_and_back(Resize, [x, None, None, np.array(sizes)], constants=(3,), tolerance=1e-5, **settings)
    assert words is not None
    assert set(words) <= {"gather", "matmul", "transpose", "copy", "unsqueeze"}
    scales = np.array([1, 1, 1.3, 0.6], np.float32)
    if "keep_aspect_ratio_policy" not in settings:
        assert there_and_back(Resize, [x, None, scales], constants=(2,), tolerance=1e-5, **settings)


def test_what_only_are_computed_at_run_time_and_crops_are_not_written():
    x = random(1, 2, 4, 4)
    assert there_and_back(Resize, [x, None, SCALES]) is None
    scales = np.array([1, 1, 1.5, 2], np.float32)
    assert there_and_back(Resize, [x, None, scales], constants=(2,), symbolic=True) is None
    crop: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    operands = [x, np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float32), scales]
    assert there_and_back(Resize, operands, constants=(1, 2), **crop) is None

"""Regions of interest in NNEF, by loops over their points and entries."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from graphport.ops.declare import ShapeError
from tests.ops.oracle import compare, run_word

RANDOM = np.random.default_rng(7)


def images(*spatial):
    return RANDOM.normal(size=(2, 3, *spatial)).astype(np.float32)


def regions(*spatial, count=4, beyond=1.5):
    """Beginnings and ends, some of them outside of the image."""
    low = RANDOM.uniform(-beyond, 0.6, (count, len(spatial))) * spatial * 0.5
    high = low + RANDOM.uniform(0.2, 1, (count, len(spatial))) * spatial
    return np.concatenate([low, high], axis=1).astype(np.float32), RANDOM.integers(0, 2, count)


def interpolated(image, point):
    """The value at a point of an image whose border is repeated."""
    total = np.zeros(image.shape[0])
    for corner in product((0, 1), repeat=len(point)):
        share, place = 1.0, []
        for p, side, length in zip(point, corner, image.shape[1:], strict=True):
            fraction = p - np.floor(p)
            share *= fraction if side else 1 - fraction
            place.append(int(np.clip(np.floor(p) + side, 0, length - 1)))
        total += share * image[:, *place]
    return total


def points(begin, end, size, method):
    steps = np.arange(size)
    match method:
        case "symmetric":
            return begin + (steps + 0.5) * (end - begin) / size - 0.5
        case "asymmetric":
            return begin + steps * (end - begin) / size
        case _:
            return begin + steps * (end - begin - 1) / max(size - 1, 1)


def resampled(x, rois, batch, sizes, method):
    count = len(sizes)
    y = np.zeros((len(rois), x.shape[1], *sizes))
    for n, (roi, image) in enumerate(zip(rois.astype(np.float64), batch, strict=True)):
        axes = [points(roi[k], roi[k + count], sizes[k], method) for k in range(count)]
        for place in product(*map(range, sizes)):
            y[n, :, *place] = interpolated(x[image], [axis[i] for axis, i in zip(axes, place, strict=True)])
    return y.astype(np.float32)


def cells(begin, end, size, length):
    begin, end = np.floor(begin + 0.5), np.floor(end + 0.5)
    each = max(end - begin, 0) / size
    for i in range(size):
        first = begin + i * np.floor(each)
        behind = first + np.ceil(each)
        yield slice(int(np.clip(first, 0, length)), int(np.clip(behind, 0, length)))


def pooled(x, rois, batch, sizes, reduce):
    count = len(sizes)
    y = np.zeros((len(rois), x.shape[1], *sizes), np.float32)
    for n, (roi, image) in enumerate(zip(rois, batch, strict=True)):
        axes = [[*cells(roi[k], roi[k + count], sizes[k], x.shape[k + 2])] for k in range(count)]
        for place in product(*map(range, sizes)):
            inside = x[image][:, *(axis[i] for axis, i in zip(axes, place, strict=True))].reshape(x.shape[1], -1)
            if inside.shape[1]:
                y[n, :, *place] = reduce(inside, axis=1)
    return y


SHAPES = [
    pytest.param((9,), (4,), id="1 axis"),
    pytest.param((7, 9), (3, 4), id="2 axes"),
    pytest.param((5, 6, 4), (2, 3, 2), id="3 axes"),
]


@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
@pytest.mark.parametrize(("spatial", "sizes"), SHAPES)
def test_points_of_a_region_are_interpolated(spatial, sizes, method):
    x, (rois, batch) = images(*spatial), regions(*spatial)
    given = [x, rois, batch]
    (found,) = run_word("nnef", "roi_resample", given, output_size=sizes, method=method)
    compare(found, resampled(x, rois, batch, sizes, method), tolerance=1e-4)


def test_a_region_that_is_the_image_at_its_size_is_the_image():
    x = images(4, 6)
    rois = np.array([[0, 0, 4, 6], [0, 0, 4, 6]], np.float32)
    for method in ("symmetric", "asymmetric", "aligned"):
        (found,) = run_word("nnef", "roi_resample", [x, rois, np.array([[1], [0]])], output_size=(4, 6), method=method)
        compare(found, x[::-1], tolerance=1e-5)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("spatial", "sizes"), SHAPES)
@pytest.mark.parametrize(("op_type", "reduce"), [("max_roi_pool", np.max), ("avg_roi_pool", np.mean)])
def test_entries_of_a_region_are_pooled(op_type, reduce, spatial, sizes, symbolic):
    x, (rois, batch) = images(*spatial), regions(*spatial, count=6)
    (found,) = run_word("nnef", op_type, [x, rois, batch], output_size=sizes, symbolic=symbolic)
    compare(found, pooled(x, rois, batch, sizes, reduce), tolerance=1e-5)


@pytest.mark.parametrize("op_type", ["max_roi_pool", "avg_roi_pool"])
def test_a_region_outside_of_the_image_is_zero(op_type):
    rois = np.array([[20, 20, 25, 25]], np.float32)
    (found,) = run_word("nnef", op_type, [images(5, 5), rois, np.array([0])], output_size=(2, 2))
    compare(found, np.zeros((1, 3, 2, 2), np.float32))


@pytest.mark.parametrize(("op_type", "reduce"), [("max_roi_align", np.max), ("avg_roi_align", np.mean)])
def test_points_of_a_cell_are_pooled(op_type, reduce):
    x, (rois, batch) = images(7, 9), regions(7, 9)
    (found,) = run_word("nnef", op_type, [x, rois, batch], output_size=(3, 4), sampling_rate=(2, 3))
    points = resampled(x, rois, batch, (6, 12), "symmetric").reshape(4, 3, 3, 2, 4, 3)
    compare(found, reduce(points, axis=(3, 5)), tolerance=1e-4)


def test_lengths_that_only_are_computed_at_run_time_make_no_difference():
    x, (rois, batch) = images(7, 9), regions(7, 9)
    (found,) = run_word("nnef", "roi_resample", [x, rois, batch], output_size=(3, 4), symbolic=True)
    compare(found, resampled(x, rois, batch, (3, 4), "symmetric"), tolerance=1e-4)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        pytest.param("roi_resample", {"output_size": (2, 2), "method": "cubic"}, "'cubic'", id="method"),
        pytest.param("roi_resample", {"output_size": (2,)}, "rank 4", id="too few sizes"),
        pytest.param("avg_roi_pool", {"output_size": (2, 0)}, "rank 4", id="no cells"),
        pytest.param("max_roi_align", {"output_size": (2, 2), "sampling_rate": (1,)}, "sampling_rate", id="rate"),
    ],
)
def test_what_does_not_fit_is_refused(op_type, attributes, message):
    rois, batch = regions(5, 5)
    with pytest.raises(ShapeError, match=message):
        run_word("nnef", op_type, [images(5, 5), rois, batch], **attributes)


def test_regions_have_two_coordinates_an_axis():
    with pytest.raises(ShapeError, match="rois have the shape"):
        run_word("nnef", "avg_roi_pool", [images(5), regions(5, 5)[0], np.array([0, 0, 0, 0])], output_size=(2,))

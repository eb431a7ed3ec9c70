"""Boxes against ONNX Runtime, and what their shape rules refuse."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.definitions.detection import NonMaxSuppression, RoiAlign
from tests.draws import times
from tests.ops.facts import f32, facts_of, i64, refuse, single
from tests.ops.oracle import check_operator, old_opset


def boxes(rng, batch, count, *, centred):
    first, second = rng.random((2, batch, count, 2)).astype(np.float32)
    return np.concatenate([first, np.abs(second - first) if centred else second], -1)


@settings(max_examples=times(100))
@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(1, 2), st.integers(1, 8), st.integers(0, 1), st.data())
def test_suppression_is_that_of_onnx_runtime(seed, batch, classes, count, centred, data):
    rng = np.random.default_rng(seed)
    given_boxes = boxes(rng, batch, count, centred=bool(centred))
    scores = rng.random((batch, classes, count)).astype(np.float32)
    if data.draw(st.booleans()):
        scores = np.round(scores * 3) / single(3)  # equal scores: the first comes first
    operands = [
        given_boxes,
        scores,
        np.array([data.draw(st.integers(0, 5))]),
        np.array([data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))], np.float32),
        data.draw(st.sampled_from([None, single([0.3])])),
    ]
    check_operator(NonMaxSuppression, operands, center_point_box=centred)


def test_nonmaxsuppression_selects_no_boxes_by_default():
    rng = np.random.default_rng(0)
    check_operator(NonMaxSuppression, [boxes(rng, 1, 5, centred=False), rng.random((1, 1, 5)).astype(np.float32)])


def test_nonmaxsuppression_accepts_corners_in_any_order():
    box = single([[[0, 0, 1, 1], [1, 1, 0, 0.05]]])
    scores = single([[[0.5, 0.9]]])
    check_operator(NonMaxSuppression, [box, scores, np.array([5]), single([0.5])])


def test_nonmaxsuppression_infers_shapes():
    n = Symbol("N", 1)
    (fact,) = facts_of(NonMaxSuppression, [f32(1, n, 4), f32(1, 80, n)], {}, 1)
    assert fact.rank == 2
    assert fact.shape[1] == 3


@pytest.mark.parametrize(
    ("facts", "attributes", "match"),
    [
        ([f32(1, 5, 4), f32(1, 2, 6)], {}, "number of boxes and scores: 5 and 6 differ"),
        ([f32(2, 5, 4), f32(1, 2, 5)], {}, "batch of boxes and scores: 2 and 1 differ"),
        ([f32(1, 5, 5), f32(1, 2, 5)], {}, "numbers that describe a box: 4 and 5 differ"),
        ([f32(5, 4), f32(1, 2, 5)], {}, "boxes has rank 2, expected 3"),
        ([f32(1, 5, 4), f32(2, 5)], {}, "scores has rank 2, expected 3"),
        ([f32(1, 5, 4), f32(1, 2, 5)], {"center_point_box": 2}, "center_point_box is 2"),
        ([f32(1, 5, 4), f32(1, 2, 5), None, TensorFact(DType.FLOAT32, (1,), reals=(1.5,))], {}, "iou_threshold is 1.5"),
    ],
)
def test_nonmaxsuppression_rejects_mismatched_operands(facts, attributes, match):
    refuse(NonMaxSuppression, facts, match, **attributes)


@settings(max_examples=times(100))
@given(st.integers(0, 2**32), st.sampled_from(["avg", "max"]), st.data())
def test_aligned_regions_are_those_of_onnx_runtime(seed, mode, data):
    rng = np.random.default_rng(seed)
    n, c, h, w, r = (data.draw(st.integers(1, high)) for high in (2, 2, 6, 7, 4))
    x = rng.normal(size=(n, c, h, w)).astype(np.float32)
    corners = rng.uniform(-3, 12, (r, 2, 2))
    corners.sort(1)
    check_operator(
        RoiAlign,
        [x, corners.reshape(r, 4).astype(np.float32), rng.integers(0, n, r)],
        mode=mode,
        output_height=data.draw(st.integers(1, 3)),
        output_width=data.draw(st.integers(1, 3)),
        sampling_ratio=data.draw(st.integers(0, 3)),
        spatial_scale=data.draw(st.sampled_from([1.0, 0.5])),
        coordinate_transformation_mode=data.draw(st.sampled_from(["half_pixel", "output_half_pixel"])),
        tolerance=1e-4,
        opset=16,
    )


def test_roialign_of_an_empty_region_matches_onnx_runtime():
    x, roi, batch = np.ones((1, 1, 4, 4), np.float32), single([[2, 2, 2, 2]]), np.array([0])
    check_operator(RoiAlign, [x, roi, batch], opset=16)
    check_operator(RoiAlign, [x, roi, batch], coordinate_transformation_mode="output_half_pixel", opset=16)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_aligned_regions_know_every_type(dtype):
    rng = np.random.default_rng(0)
    x, rois = rng.normal(size=(1, 2, 5, 5)), np.array([[0, 1, 3.5, 4], [1, 1, 2, 2]])
    wide = RoiAlign(x.astype(dtype).astype(np.float32), rois.astype(np.float32), np.array([0, 0]), output_height=2)
    found = RoiAlign(x.astype(dtype), rois.astype(dtype), np.array([0, 0]), output_height=2)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(np.float64), wide, rtol=1e-2, atol=1e-2)


def test_roialign_infers_shapes():
    r = Symbol("R", 1)
    unknown = TensorFact(DType.FLOAT32, None)
    for rois, batch in ((f32(r, 4), i64(r)), (unknown, i64(r)), (f32(r, 4), TensorFact(DType.INT64, None))):
        (fact,) = facts_of(RoiAlign, [f32(1, 8, 9, 9), rois, batch], {"output_height": 2, "output_width": 3}, 1)
        assert fact.shape == (r, 8, 2, 3)
    (fact,) = facts_of(RoiAlign, [unknown, f32(r, 4), i64(r)], {}, 1)
    assert fact.rank == 4


@pytest.mark.parametrize(
    ("facts", "attributes", "match"),
    [
        ([f32(1, 8, 9, 9), f32(3, 4), i64(2)], {}, "number of regions: 3 and 2 differ"),
        ([f32(1, 8, 9, 9), f32(3, 5), i64(3)], {}, "numbers that describe a region: 4 and 5 differ"),
        ([f32(8, 9, 9), f32(3, 4), i64(3)], {}, "x has rank 3, expected 4"),
        ([f32(1, 8, 9, 9), f32(3, 4), i64(3, 1)], {}, "batch_indices has rank 2, expected 1"),
        ([f32(1, 8, 9, 9), f32(3, 4), i64(3)], {"mode": "sum"}, "mode is 'sum'"),
        ([f32(1, 8, 9, 9), f32(3, 4), i64(3)], {"coordinate_transformation_mode": "no"}, "'no'"),
        ([f32(1, 8, 9, 9), f32(3, 4), i64(3)], {"output_height": 0}, "the output is 0 by 1"),
        ([f32(1, 8, 9, 9), f32(3, 4), i64(3)], {"sampling_ratio": -1}, "sampling_ratio -1"),
    ],
)
def test_roialign_rejects_mismatched_operands(facts, attributes, match):
    refuse(RoiAlign, facts, match, **attributes)


@pytest.mark.parametrize("opset", [10, 15])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_older_regions_have_pixels_at_whole_numbers(opset, mode):
    rng = np.random.default_rng(0)
    x, rois = rng.normal(size=(1, 2, 5, 5)).astype(np.float32), single([[0, 1, 3.5, 4], [1, 1, 2, 2]])
    old_opset(
        "RoiAlign", opset, [x, rois, np.array([0, 0])], mode=mode, output_height=2, sampling_ratio=2, tolerance=1e-5
    )


@pytest.mark.parametrize("opset", [10, 11])
def test_unchanged_suppression_is_that_of_onnx_runtime(opset):
    rng = np.random.default_rng(1)
    operands = [
        boxes(rng, 1, 6, centred=False),
        rng.random((1, 2, 6)).astype(np.float32),
        np.array([3]),
        single([0.2]),
    ]
    old_opset("NonMaxSuppression", opset, operands)

"""Detections of many classes in OpenVINO, held against its plugin on random boxes."""

import numpy as np

from graphport.core.dtypes import DType
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(5)
LOW = RANDOM.uniform(0, 10, (2, 9, 2))
BOXES = np.concatenate([LOW, LOW + RANDOM.uniform(1, 6, (2, 9, 2))], axis=2).astype(np.float32)
SCORES = RANDOM.permutation(54).reshape(2, 3, 9).astype(np.float32) / 54
SORTED = [("none", False), ("score", True), ("classid", True), ("classid", False)]


@at_once(("order", "across"), SORTED)
@at_once("limits", [(-1, -1), (4, 3)])
@at_once("function", ["linear", "gaussian"])
def test_scores_fall_with_the_overlap(function, limits, order, across):
    check_word(
        "opset8.MatrixNms",
        [BOXES, SCORES],
        outputs=3,
        sort_result_type=order,
        sort_result_across_batch=across,
        nms_top_k=limits[0],
        keep_top_k=limits[1],
        decay_function=function,
        score_threshold=0.2,
        post_threshold=0.1,
        background_class=1,
        normalized=function == "linear",
    )


def test_no_class_is_the_background():
    check_word("opset8.MatrixNms", [BOXES, SCORES], outputs=3, background_class=-1, score_threshold=0.2)


@at_once(("order", "across"), SORTED)
@at_once("limits", [(-1, -1), (5, 4)])
@at_once("eta", [1.0, 0.6])
def test_covered_boxes_of_a_class_are_omitted(eta, limits, order, across):
    flags = {"sort_result_type": order, "sort_result_across_batch": across, "nms_eta": eta, "iou_threshold": 0.6}
    flags |= {"nms_top_k": limits[0], "keep_top_k": limits[1], "score_threshold": 0.1, "normalized": eta == 1}
    check_word("opset9.MulticlassNms", [BOXES, SCORES], outputs=3, **flags)
    check_word("opset8.MulticlassNms", [BOXES, SCORES], outputs=3, output_type=DType.INT32, **flags)


def test_pictures_own_parts_of_the_boxes():
    counts = np.array([4, 0, 5], np.int64)
    flags = {"iou_threshold": 0.3, "score_threshold": 0.1, "keep_top_k": 5}
    check_word("opset9.MulticlassNms", [BOXES, SCORES[0, :2], counts], outputs=3, **flags)


def test_no_box_is_good_enough():
    found = check_word("opset9.MulticlassNms", [BOXES, SCORES], outputs=3, iou_threshold=0.3, score_threshold=2.0)
    assert found[0].shape == (0, 6)
    assert found[2].tolist() == [0, 0]


def test_of_equal_scores_the_first_box_is_kept():
    boxes = np.repeat(BOXES[:, :1], 4, axis=1)
    scores = np.full((2, 1, 4), 0.5, np.float32)
    found = check_word("opset9.MulticlassNms", [boxes, scores], outputs=3, iou_threshold=0.5)
    assert found[1].tolist() == [[0], [4]]


@at_once("sigma", [0.2, 0.7])
@at_once("encoding", ["corner", "center"])
@at_once("ordered", [False, True])
def test_suppression_that_lowers_scores(sigma, encoding, ordered):
    limits = [np.array(5), np.array(0.3, np.float32), np.array(0.15, np.float32), np.array(sigma, np.float32)]
    operands, flags = [BOXES, SCORES, *limits], {"box_encoding": encoding, "sort_result_descending": ordered}
    for version in (5, 9):
        check_word(f"opset{version}.NonMaxSuppression", operands, constants=(2, 3, 4, 5), outputs=3, **flags)


TURNED = np.concatenate(
    [RANDOM.uniform(0, 8, (2, 9, 2)), RANDOM.uniform(1, 6, (2, 9, 2)), RANDOM.uniform(-3.2, 3.2, (2, 9, 1))], axis=2
).astype(np.float32)


@at_once("clockwise", [False, True])
@at_once("ordered", [False, True])
@at_once("most", [2, 20])
def test_boxes_at_an_angle(most, ordered, clockwise):
    limits = [np.array(most), np.array(0.2, np.float32), np.array(0.1, np.float32)]
    flags = {"sort_result_descending": ordered, "clockwise": clockwise}
    check_word("opset13.NMSRotated", [TURNED, SCORES, *limits], constants=(2, 3, 4), outputs=3, **flags)


def test_the_same_box_at_an_angle_is_kept_once():
    boxes = np.repeat(TURNED[:1, :1], 5, axis=1)
    scores = np.array([[[0.1, 0.5, 0.3, 0.9, 0.2]]], np.float32)
    limits = [np.array(9), np.array(0.9, np.float32), np.array(0.0, np.float32)]
    found = check_word("opset13.NMSRotated", [boxes, scores, *limits], constants=(2, 3, 4), outputs=3)
    assert found[0].tolist() == [[0, 0, 3]]

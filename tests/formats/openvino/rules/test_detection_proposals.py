"""Proposals of two-stage detectors in OpenVINO, held against its plugin."""

import numpy as np

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(11)
N, A, H, W = 2, 2, 2, 3


def reals(*shape, spread=0.4):
    return RANDOM.normal(0, spread, shape).astype(np.float32)


def boxes(*shape):
    low = RANDOM.uniform(0, 20, (*shape, 2))
    return np.concatenate([low, low + RANDOM.uniform(1, 10, (*shape, 2))], axis=-1).astype(np.float32)


def distinct(*shape):
    return (RANDOM.permutation(int(np.prod(shape))).reshape(shape) / np.prod(shape)).astype(np.float32)


@at_once("picture", [(30, 35, 1.5), (30, 35, 1.0, 1.5)])
@at_once("counts", [(5, 3), (100, 50)])
@at_once("normalized", [False, True])
def test_regions_of_pictures(picture, counts, normalized):
    operands = [np.array([picture] * N, np.float32), boxes(H, W, A), reals(N, A * 4, H, W), distinct(N, A, H, W)]
    flags = {"min_size": 2.0, "nms_threshold": 0.3, "normalized": normalized}
    flags |= {"pre_nms_count": counts[0], "post_nms_count": counts[1]}
    check_word("opset9.GenerateProposals", operands, outputs=3, tolerance=1e-4, **flags)


@at_once("counts", [(5, 3), (100, 50)])
def test_regions_of_one_picture(counts):
    op_type = "opset6.ExperimentalDetectronGenerateProposalsSingleImage"
    operands = [np.array([30, 35, 1], np.float32), boxes(H * W * A), reals(A * 4, H, W), distinct(A, H, W)]
    flags = {"nms_threshold": 0.3, "pre_nms_count": counts[0], "post_nms_count": counts[1]}
    check_word(op_type, operands, outputs=2, tolerance=1e-4, **flags)


@at_once("flatten", [False, True])
@at_once("said", [{}, {"h": H, "w": W, "stride_x": 4.0, "stride_y": 5.0}])
def test_a_grid_of_boxes(said, flatten):
    operands = [reals(A, 4, spread=9), np.zeros((1, 2, H, W), np.float32), np.zeros((1, 3, 40, 50), np.float32)]
    check_word("opset6.ExperimentalDetectronPriorGridGenerator", operands, flatten=flatten, **said)


def test_the_best_regions():
    check_word("opset6.ExperimentalDetectronTopKROIs", [boxes(7), distinct(7)], max_rois=3)


def test_regions_that_are_missing_are_zeros():
    # OpenVINO leaves what the memory held there.
    expected = np.zeros((4, 4), np.float32)
    expected[:2] = [[5, 6, 7, 8], [1, 2, 3, 4]]
    operands = [np.arange(1, 9, dtype=np.float32).reshape(2, 4), np.array([0.1, 0.2], np.float32)]
    check_word("opset6.ExperimentalDetectronTopKROIs", operands, max_rois=4, expected=[expected])


@at_once("most", [2, 100])
@at_once("least", [0.05, 0.4])
def test_what_is_found_in_regions(most, least):
    operands = [boxes(6), reals(6, 12, spread=1), distinct(6, 3), np.array([[30, 35, 1]], np.float32)]
    flags = {"score_threshold": least, "nms_threshold": 0.4, "max_delta_log_wh": 4.1, "num_classes": 3}
    flags |= {"post_nms_count": most, "max_detections_per_image": 6, "deltas_weights": (10.0, 10.0, 5.0, 5.0)}
    check_word("opset6.ExperimentalDetectronDetectionOutput", operands, outputs=3, tolerance=1e-4, **flags)

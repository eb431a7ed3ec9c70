"""Boxes in OpenVINO."""

import numpy as np

from graphport.ops.definitions.detection import NonMaxSuppression, RoiAlign
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(1)
CORNERS = RANDOM.uniform(0, 10, (2, 12, 4)).astype(np.float32)
CORNERS[..., 2:] = CORNERS[..., :2] + RANDOM.uniform(3, 6, (2, 12, 2)).astype(np.float32)
SCORES = RANDOM.uniform(0, 1, (2, 3, 12)).astype(np.float32)
LIMITS = [np.array(4), np.array(0.3, np.float32), np.array(0.2, np.float32)]


@at_once("encoding", ["corner", "center"])
@at_once("ordered", [False, True])
def test_suppression(encoding, ordered):
    flags = {"box_encoding": encoding, "sort_result_descending": ordered}
    operands = [CORNERS, SCORES, *LIMITS]
    found = check_word("opset9.NonMaxSuppression", operands, constants=(2, 3, 4), outputs=3, **flags)
    assert len(found[0]) == 24
    expected = [found[0]]
    for version in (1, 3, 4):
        # These give a table of fixed length with rows of nothing at the end.
        check_word(f"opset{version}.NonMaxSuppression", operands, constants=(2, 3, 4), expected=expected, **flags)
    check_word("opset5.NonMaxSuppression", operands, constants=(2, 3, 4), outputs=3, expected=found, **flags)


X = RANDOM.normal(size=(2, 3, 10, 12)).astype(np.float32)
ROIS = np.array([[1, 2, 9, 8], [0, 0, 4, 3.5], [3, 3, 3.2, 3.1], [2, 1, 11, 9]], np.float32)
OWNERS = np.array([0, 1, 1, 0], np.int32)


@at_once("ratio", [0, 2])
@at_once("aligned", ["asymmetric", "half_pixel", "half_pixel_for_nn"])
def test_regions(ratio, aligned):
    said = {"pooled_h": 2, "pooled_w": 3, "sampling_ratio": ratio, "spatial_scale": 0.75, "mode": "avg"}
    check_word("opset9.ROIAlign", [X, ROIS, OWNERS], tolerance=1e-4, aligned_mode=aligned, **said)
    if aligned == "asymmetric":
        check_word("opset3.ROIAlign", [X, ROIS, OWNERS], tolerance=1e-4, **said)


def test_exporting_a_suppression():
    operands = [CORNERS, SCORES, *LIMITS]
    assert check_operator(NonMaxSuppression, operands, constants=(2, 3, 4)) is not None
    assert check_operator(NonMaxSuppression, operands[:4], constants=(2, 3), center_point_box=1) is not None
    assert check_operator(NonMaxSuppression, operands[:2]) is None


@at_once("coordinates", ["half_pixel", "output_half_pixel"])
def test_exporting_regions(coordinates):
    flags = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.75}
    operands = [X, ROIS, OWNERS.astype(np.int64)]
    said = check_operator(RoiAlign, operands, tolerance=1e-4, coordinate_transformation_mode=coordinates, **flags)
    assert said is not None

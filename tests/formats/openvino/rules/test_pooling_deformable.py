"""Poolings of moved regions in OpenVINO."""

import numpy as np
import pytest

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(32)
X = RANDOM.normal(size=(2, 16, 6, 7)).astype(np.float32)
ROIS = np.array([[0, 1, 2, 8.5, 9], [1, -3, 0.5, 5, 4], [0, 12, 12, 13, 13], [-1, 0, 0, 4, 4]], np.float32)


def said(**given):
    return {"output_dim": 4, "spatial_scale": 0.5, "group_size": 2, "mode": "bilinear_deformable"} | given


@at_once("points", [(1, 1), (3, 2)])
def test_cells_where_they_are(points):
    check_word(
        "opset1.DeformablePSROIPooling",
        [X, ROIS],
        tolerance=1e-4,
        **said(spatial_bins_x=points[0], spatial_bins_y=points[1]),
    )


@at_once("classes", [1, 2, 4])
def test_cells_that_offsets_move(classes):
    moves = RANDOM.normal(size=(4, 2 * classes, 3, 3)).astype(np.float32)
    flags = said(spatial_bins_x=2, spatial_bins_y=3, part_size=3, trans_std=0.3)
    check_word("opset1.DeformablePSROIPooling", [X, ROIS, moves], tolerance=1e-4, **flags)


def test_maps_that_are_no_cells_are_refused():
    with pytest.raises(AssertionError, match="16 feature maps, expected 3 times 2 by 2"):
        check_word("opset1.DeformablePSROIPooling", [X, ROIS], expected=[X], **said(output_dim=3))
    with pytest.raises(AssertionError, match="16 feature maps, expected 3 times 2 by 2"):
        check_word("opset1.PSROIPooling", [X, ROIS], expected=[X], **said(output_dim=3, mode="average"))

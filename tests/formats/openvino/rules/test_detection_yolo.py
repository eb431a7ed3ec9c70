"""The last layer of YOLO in OpenVINO."""

import numpy as np

from tests.ops.openvino_oracle import check_word

X = np.random.default_rng(17).normal(size=(2, 24, 3, 4)).astype(np.float32)


def test_regions():
    flags = {"axis": 1, "coords": 4, "classes": 3, "end_axis": 3, "num": 3, "anchors": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)}
    check_word("opset1.RegionYolo", [X], tolerance=1e-5, do_softmax=True, mask=(0, 1, 2), **flags)
    check_word("opset1.RegionYolo", [X], tolerance=1e-5, do_softmax=False, mask=(0, 1, 2), **flags)

"""Regions read from pyramids of feature maps in OpenVINO, held against its plugin."""

import numpy as np
import pytest

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(23)
MAPS = [RANDOM.normal(size=(1, 3, 512 // scale, 640 // scale)).astype(np.float32) for scale in (16, 32, 64)]


def regions():
    low = RANDOM.uniform(0, 100, (7, 2))
    sides = np.array([20, 70, 130, 200, 300, 400, 30])[:, None] * RANDOM.uniform(0.8, 1.1, (7, 2))
    sides[-1] = 0
    return np.concatenate([low, low + sides], axis=1).astype(np.float32)


@at_once("aligned", [False, True])
@at_once("ratio", [0, 2])
def test_each_region_is_read_from_the_map_of_its_size(aligned, ratio):
    said = {"output_size": 3, "sampling_ratio": ratio, "pyramid_scales": (16, 32, 64), "aligned": aligned}
    op_type = "opset6.ExperimentalDetectronROIFeatureExtractor"
    features, _ = check_word(op_type, [regions(), *MAPS], outputs=2, tolerance=1e-4, **said)
    assert not features[-1].any()


def test_scales_that_are_missing_are_refused():
    with pytest.raises(AssertionError, match="3 maps with the scales"):
        check_word(
            "opset6.ExperimentalDetectronROIFeatureExtractor",
            [regions(), *MAPS],
            expected=[],
            output_size=3,
            pyramid_scales=(16,),
        )

"""Batches and channels spread over spaces in OpenVINO."""

import numpy as np

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word


@at_once("symbolic", [False, True], ids=["known", "symbolic"])
def test_spaces_of_any_extent(symbolic):
    random = np.random.default_rng(7)
    reals = [random.normal(size=shape).astype(np.float32) for shape in ((2, 8, 3, 2, 2), (2, 3, 4, 6), (4, 3, 4))]
    for mode in ("blocks_first", "depth_first"):
        check_word("opset1.DepthToSpace", reals[:1], symbolic=symbolic, block_size=2, mode=mode)
        check_word("opset1.SpaceToDepth", reals[1:2], symbolic=symbolic, block_size=2, mode=mode)
    block, begin, end = np.array([1, 2, 2]), np.array([0, 1, 0]), np.array([0, 0, 1])
    for constants in ((1, 2, 3), (1,)):
        check_word("opset2.BatchToSpace", [reals[2], block, begin, end], constants=constants, symbolic=symbolic)
    edges = np.array([0, 1, 2]), np.array([0, 0, 0])
    for constants in ((1, 2, 3), (1,)):
        check_word("opset2.SpaceToBatch", [reals[2], block, *edges], constants=constants, symbolic=symbolic)

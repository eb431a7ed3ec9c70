"""Signals put together again in OpenVINO."""

import numpy as np

from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(8)


@at_once(("size", "step", "own"), [(8, 3, 8), (8, 8, 5), (9, 4, 6)])
@at_once("length", [None, 9, 40])
@at_once("center", [False, True])
@at_once("normalized", [False, True])
def test_frames_are_added_up(size, step, own, length, center, normalized):
    spectra = RANDOM.normal(size=(2, size // 2 + 1, 4, 2)).astype(np.float32)
    window = RANDOM.uniform(0.1, 1, own).astype(np.float32)
    operands = [spectra, window, np.array(size), np.array(step), *([] if length is None else [np.array(length)])]
    flags = {"center": center, "normalized": normalized}
    check_word("opset16.ISTFT", operands, constants=(2, 3, 4), tolerance=1e-3, **flags)
    operands[0] = spectra[0]
    check_word("opset16.ISTFT", operands, constants=(2, 3, 4), tolerance=1e-3, **flags)

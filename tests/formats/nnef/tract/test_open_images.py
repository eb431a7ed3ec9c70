"""Graphs with open height and width are written for tract, and tract computes them at three sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import graphport as gp
from tests.formats import open_images

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {"pad_to_multiple", "pad_reflect_to_multiple"}
SAMPLE = {
    *("conv_same_lower", "maxpool_ceil", "avgpool_ceil", "resize_three_halves", "resize_like", "resize_like_nearest"),
    *("deconv3", "unet", "fpn", "pyramid_pooling", "pixel_unshuffle", "windows", "window_attention", "flip"),
}
CASES = tuple(case for case in open_images.graphs() if case.name in SAMPLE | REFUSED)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_open_image(case: open_images.Case, tmp_path: Path) -> None:
    onnx.save(case.model, tmp_path / "m.onnx")
    written = tmp_path / "m.nnef.tgz"
    if case.name in REFUSED:
        with pytest.raises(gp.DiagnosticError, match="LEG0002"):
            gp.save(gp.load(tmp_path / "m.onnx"), written, flavour="tract")
        return
    gp.save(gp.load(tmp_path / "m.onnx"), written, flavour="tract")
    read = gp.load(written)
    for x, expected in open_images.runs(case):
        for backend in ("tract", "reference"):
            (found, *_) = gp.run(read, {"x": x}, backend=backend).values()
            np.testing.assert_allclose(found, expected, 1e-4, 1e-4)

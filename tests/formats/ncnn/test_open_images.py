"""Graphs with open height and width are written as ncnn, and ncnn computes them at three sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import graphport as gp
from tests.formats import open_images

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = {
    "resize_three_halves",
    "pixel_unshuffle",
    "windows",
    "window_attention",
    "pad_reflect_to_multiple",
    "topk_channels",
}
CASES = tuple(open_images.graphs())


def _written(case: open_images.Case, folder: Path) -> gp.Model:
    onnx.save(case.model, folder / "m.onnx")
    gp.save(gp.load(folder / "m.onnx"), folder / "m.ncnn.param")
    return gp.load(folder / "m.ncnn.param")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_open_image(case: open_images.Case, tmp_path: Path) -> None:
    if case.name in REFUSED:
        with pytest.raises(gp.DiagnosticError, match="LEG0002"):
            _written(case, tmp_path)
        return
    read = _written(case, tmp_path)
    for x, expected in open_images.runs(case):
        (found, *_) = gp.run(read, {"x": x}, backend="ncnn").values()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "slice_neg",
            "slice_steps",
            "flip",
            "focus",
            "roll",
            "pad_to_multiple",
            "resize_half",
            "conv_same",
            "yolo_grid",
        ),
        *("conv_same_lower", "resize_cubic", "resize_asymmetric", "coordinates"),
    ],
)
def test_open_image_is_read_back(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == name)
    read = _written(case, tmp_path)
    for x, expected in open_images.runs(case):
        (found, *_) = gp.run(read, {"x": x}, backend="reference").values()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)

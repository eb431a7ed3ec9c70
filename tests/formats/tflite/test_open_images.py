"""Graphs with open height and width are written as TFLite, and LiteRT computes them at three sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import graphport as gp
from tests.formats import open_images
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from pathlib import Path

CASES = tuple(open_images.graphs())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_open_image(case: open_images.Case, tmp_path: Path) -> None:
    onnx.save(case.model, tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as runtime:
        for x, expected in open_images.runs(case):
            (found, *_) = runtime(tmp_path / "m.tflite", [x])
            np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["deconv3", "resize_half", "avgpool_pad", "pad_edge"])
def test_open_image_is_read_back(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == name)
    onnx.save(case.model, tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    read = gp.load(tmp_path / "m.tflite")
    for x, expected in open_images.runs(case):
        (found,) = gp.run(read, {"x": x}, backend="reference").values()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)

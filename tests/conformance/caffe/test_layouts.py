"""Published networks at full width against OpenCV, and through ONNX back to it."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.conformance.caffe import layouts
from tests.formats.caffe.opencv import assert_agrees, inputs_for, outputs_of_opencv

NETWORKS = {"resnet50": 53, "mobilenet": 27, "googlenet": 0, "unet": 0}
"""Layouts, and how many normalizations are to become weights."""

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("name", NETWORKS)
def test_a_published_network_agrees_with_opencv_before_and_after_onnx(tmp_path, name):
    path = getattr(layouts, name)().save(tmp_path)
    model = assert_agrees(path)
    assert gp.convert(path, tmp_path / "there.onnx").passed
    assert gp.convert(tmp_path / "there.onnx", tmp_path / "back.prototxt").passed
    inputs = inputs_for(model)
    ours = gp.run(model, inputs)["prob"]
    theirs = outputs_of_opencv(tmp_path / "back.prototxt", inputs, ["prob"])["prob"]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * np.abs(theirs).max())


@pytest.mark.parametrize(("name", "count"), NETWORKS.items())
def test_a_published_network_is_prepared(tmp_path, name, count):
    model = gp.load(getattr(layouts, name)().save(tmp_path))
    prepared, report = gp.prepare(model)
    assert report.passed
    assert report.verification is not None
    assert report.changes["fuse-batchnorm"] == count
    assert "BatchNormalization" not in {node.op for node in prepared.graph}


def test_the_detections_of_ssd300_agree_with_opencv(tmp_path):
    path = layouts.ssd300().save(tmp_path)
    model = gp.load(path)
    assert model.outputs["found"].fact.shape[-1] == 7
    inputs = inputs_for(model)
    ours = gp.run(model, inputs)["found"].reshape(-1, 7)
    theirs = outputs_of_opencv(path, inputs, ["found"])["found"].reshape(-1, 7)
    assert len(ours) == len(theirs) > 20
    apart = np.abs(ours[:, None] - theirs[None]).max(axis=-1)
    pairs = apart.argmin(axis=1)
    assert sorted(pairs) == list(range(len(ours)))
    assert apart.min(axis=1).max() < 2e-3

"""Nets from pnnx, exported to ncnn: its runtime computes PyTorch's results."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.conformance.pnnx.test_models import models, unpack
from tests.formats.ncnn.test_layers import run_ncnn
from tests.formats.pnnx.samples import draw

NETS = ("convnext", "lstm_text", "mamba", "opt0_unet", "se", "sppf", "vit", "yolo", "opt0_gpt")


@pytest.mark.parametrize("name", NETS)
def test_ncnn_conversion_matches_pytorch(tmp_path, name):
    model = gp.load(unpack(name, tmp_path))
    path = tmp_path / "net.ncnn.param"
    inputs = [draw(each) for each in models()[name]["inputs"]]
    gp.save(model, path)
    spoken = [array[0].astype(np.int32 if array.dtype.kind == "i" else np.float32) for array in inputs]
    given = dict(zip(model.inputs, spoken, strict=True))
    found = run_ncnn(path, given, list(model.outputs))
    for result, expected in zip(found.values(), models()[name]["outputs"], strict=True):
        values = np.frombuffer(bytes.fromhex(expected["values"]), expected["dtype"])
        np.testing.assert_allclose(result.reshape(-1)[:: expected["every"]], values, rtol=1e-3, atol=1e-4)

"""Networks that are converted from ONNX and fine-tuned in torch: the module that they come from trains equally."""

import json
import subprocess
from pathlib import Path

import pytest

import graphport as gp
from tests.conformance.pytorch import programs

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not programs.PYTHON, reason="GRAPHPORT_PYTHON_TORCH names no Python that has torch"),
]


def run_script(verb, folder):
    script = Path(__file__).with_name("train_networks.py")
    subprocess.run([programs.PYTHON, "-W", "ignore", str(script), verb, str(folder)], check=True, timeout=1200)


def test_converted_networks_train_as_the_original_modules(tmp_path):
    run_script("export", tmp_path)
    for path in sorted(tmp_path.glob("*.onnx")):
        gp.save(gp.load(path), path.with_suffix(".pt2"))
    run_script("train", tmp_path)
    results = json.loads((tmp_path / "training.json").read_text())
    assert len(results) == 10
    for name, result in results.items():
        assert result["losses"][-1] < result["losses"][0], name
        assert result["compared"] == result["parameters"], name
        assert result["gradients"] < 1e-4, name
        # A zero bias that the exporter of PyTorch adds to a convolution is trainable as well.
        assert result["trainable"] > result["original"] or result["training"] < 1e-4, name

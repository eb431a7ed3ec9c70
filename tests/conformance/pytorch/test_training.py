"""Networks that are converted from ONNX and fine-tuned in torch: the module that they come from trains equally."""

import json
import subprocess
from pathlib import Path

import numpy as np
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


def test_converted_networks_train_like_the_original_modules(tmp_path):
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


def test_the_tutorial_trains_the_program_that_is_stored(tmp_path):
    root = Path(__file__).parents[3]
    network = root / "tests" / "formats" / "pytorch" / "pt2" / "programs" / "network.pt2"
    gp.save(gp.load(network), tmp_path / "network.onnx")
    gp.save(gp.load(tmp_path / "network.onnx"), tmp_path / "trainable.pt2")
    page = (root / "docs" / "tutorial-fine-tune.md").read_text(encoding="utf-8")
    listing = page.split("```py\n")[1].split("```")[0]
    subprocess.run([programs.PYTHON, "-W", "ignore", "-c", listing], check=True, cwd=tmp_path, timeout=600)
    x = np.random.default_rng(0).normal(size=(1, 2, 16, 16)).astype(np.float32)
    found, expected = (
        next(iter(gp.run(gp.load(path), {"x": x}).values()))
        for path in (tmp_path / "tuned.pt2", root / "tests" / "docs" / "tuned.pt2")
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)

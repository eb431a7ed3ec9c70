"""The classifier that ships, trained: quantized for three runtimes, run by each, with ten dB to spare."""

from __future__ import annotations

from importlib.resources import files
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.cli import arrays
from graphport.formats.onnx import runtime as onnxruntime
from graphport.quantization.engine import session
from tests.draws import spread
from tests.quantization import nets
from tests.quantization.targets.test_ncnn import Net
from tests.quantization.targets.test_openvino import Compiled

CALIBRATION, JUDGED = 64, 96


@pytest.fixture(scope="module")
def digits():
    folder = Path(str(files("graphport"))) / "examples" / "digits"
    test = arrays.read(folder / "test.npz")
    return gp.load(folder), test["image"], test["digit"]


RUNS = {
    "onnxruntime": lambda made, _: onnxruntime.prepare(made.graph).run,
    "openvino": lambda made, place: Compiled(made, place).run,
    "ncnn": lambda made, place: Net(made, place).run,
}


@pytest.mark.parametrize(("preset", "target"), spread(list(product(["fast", "balanced"], RUNS))))
def test_runtime_results_equal_the_simulation(digits, target, preset, tmp_path):
    found, images, labels = digits
    made = gp.quantize(found, {"image": images[:CALIBRATION]}, target, preset=preset)
    run = RUNS[target](made, tmp_path)
    said, real, computed = [], [], []
    exact, simulated = session(found.graph), session(made.graph, optimize=False)
    for image in images[-JUDGED:]:
        x = {"image": image[None]}
        real.append(exact.run(x)["probability"])
        said.append(simulated.run(x)["probability"])
        computed.append(run(x)["probability"].reshape(real[-1].shape))
    real, said, computed = (np.concatenate(each) for each in (real, said, computed))
    assert nets.snr(said, computed) > nets.snr(real, said) + 10
    right = [np.mean(scores.argmax(axis=1) == labels[-JUDGED:]) for scores in (real, computed)]
    assert right[1] > right[0] - 0.03

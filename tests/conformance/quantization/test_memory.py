"""What a quantization holds in memory does not grow with the number of samples, nor with the size of their file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import graphport as gp
from tests.models import model, node

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]

_ALWAYS = pytest.mark.conformance(always=True)

_PROGRAM = """
import sys
import graphport as gp

def items(path):
    import numpy as np
    with np.load(path) as file:
        x = file["x"]
    for sample in x:
        yield sample[None]

net, data, way = sys.argv[1:]
gp.quantize(gp.load(net), items(data) if way == "generator" else data, threads=1, front=way == "front")
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")))
"""
"""Quantizes, and tells the peak of its memory in KiB."""

FEW, MANY = 64, 256
"""Samples: of both numbers there are several batches."""
LIMIT = 1.1
"""How many times the memory of few samples many may take; with activations that are kept it is 1.5 times as much."""


def _net():
    r = np.random.default_rng(0)
    weights = {"w1": (16, 3, 3, 3), "w2": (16, 16, 3, 3), "w3": (16, 16, 3, 3), "w4": (8, 16)}
    constants = {name: (r.normal(size=shape) / 8).astype(np.float32) for name, shape in weights.items()}
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"),
        node("Relu", ["a"], ["ar"]),
        node("Conv", ["ar", "w2"], ["b"], pads=[1, 1, 1, 1], name="second"),
        node("Relu", ["b"], ["br"]),
        node("Conv", ["br", "w3"], ["c"], pads=[1, 1, 1, 1], name="third"),
        node("GlobalAveragePool", ["c"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "w4"], ["y"], transB=1, name="head"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 3, 32, 32])], [("y", ["N", 8])], constants))


def _peak(net, data, way):
    command = [sys.executable, "-c", _PROGRAM, str(net), str(data), way]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=_ALWAYS) for way in ("stored", "front")), "compressed", "generator"]
)
def test_memory_does_not_grow_with_samples(tmp_path, way):
    gp.save(_net(), tmp_path / "net.onnx")
    x = np.random.default_rng(1).normal(size=(MANY, 3, 32, 32)).astype(np.float32)
    save = np.savez_compressed if way == "compressed" else np.savez
    peaks = []
    for count in (FEW, MANY):
        save(tmp_path / f"{count}.npz", x=x[:count])
        peaks.append(_peak(tmp_path / "net.onnx", tmp_path / f"{count}.npz", way))
    assert peaks[1] < LIMIT * peaks[0], peaks

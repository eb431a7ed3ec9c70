"""`--operators` and `--ort-library`: custom operators in run, compare, verify and quantize."""

from __future__ import annotations

import os

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import save

from graphport.cli.main import cli
from graphport.ops.declare import OWN
from graphport.runtimes.custom_libraries import LIBRARIES
from tests.models import model, node

DEFINITION = """
import graphport as gp

@gp.operator("my.custom")
def Twice(x):
    return x + x
"""


@pytest.fixture
def place(tmp_path):
    r = np.random.default_rng(0)
    weights = {name: r.normal(size=(4, 4, 3, 3)).astype(np.float32) / 6 for name in "wv"}
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        node("Twice", ["a"], ["b"], domain="my.custom"),
        node("Conv", ["b", "v"], ["y"], pads=[1] * 4),
    ]
    shape = [1, 4, 6, 6]
    save(model(nodes, [("x", shape)], [("y", shape)], weights, domains={"my.custom": 1}), tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", x=r.normal(size=(16, 4, 6, 6)).astype(np.float32))
    (tmp_path / "operators.py").write_text(DEFINITION)
    return tmp_path


def _run(place, verb, *arguments):
    paths = [str(place / each) if "." in each and not each.startswith("-") else each for each in arguments]
    return CliRunner().invoke(cli, [verb, *paths])


def test_a_python_file_defines_operators(place):
    given = ("--operators", "operators.py")
    found = _run(place, "quantize", "net.onnx", "q.onnx", "--calibration", "samples.npz", "--no-latency", *given)
    assert found.exit_code == 0, found.output
    assert "consistent" in found.output
    assert _run(place, "run", "q.onnx", *given).exit_code == 0
    assert _run(place, "verify", "net.onnx", "net.onnx", *given).exit_code == 0
    compared = _run(place, "compare", "net.onnx", "q.onnx", *given, "--min-snr", "25")
    assert compared.exit_code == 0, compared.output
    assert ("my.custom", "Twice") not in OWN


def test_an_unknown_operator_is_reported_with_the_options(place):
    found = _run(place, "quantize", "net.onnx", "q.onnx", "--calibration", "samples.npz", "--no-latency")
    assert found.exit_code == 1
    assert "RUN0003" in found.output
    assert "--operators FILE.py" in found.output


def test_a_python_file_that_fails_is_reported(place):
    (place / "operators.py").write_text("1 / 0")
    found = _run(place, "run", "net.onnx", "--operators", "operators.py")
    assert found.exit_code == 2
    assert "ZeroDivisionError" in found.output


def test_onnx_runtime_loads_the_library(place):
    (place / "custom.so").write_text("no library")
    found = _run(place, "run", "net.onnx", "--backend", "onnxruntime", "--ort-library", "custom.so")
    assert found.exit_code == 1
    assert "custom.so" in found.output
    assert LIBRARIES not in os.environ

"""`doctor` lists installed packages; check, convert, simplify, run and prove need no optional package."""

from __future__ import annotations

import json
import sys
from importlib.metadata import requires

import numpy as np
import pytest
from click.testing import CliRunner

from graphport.backends import BACKENDS
from graphport.cli.main import cli
from graphport.core.packages import install, is_older, requirement
from tests.models import perceptron, write_onnx


def told(*arguments: object, code: int = 0):
    result = CliRunner().invoke(cli, [*map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@pytest.fixture
def no_runtime(monkeypatch):
    for module in ("onnxruntime", "openvino", "ncnn", "ai_edge_litert", "tract"):
        monkeypatch.setitem(sys.modules, module, None)


def test_it_reports_every_runtime_with_its_version():
    pieces = {piece["module"]: piece for piece in told("doctor")["pieces"]}
    assert {backend.package for backend in BACKENDS.values()} - {"numpy"} <= set(pieces)
    import onnxruntime

    assert pieces["onnxruntime"]["version"] == onnxruntime.__version__
    assert pieces["onnxruntime"]["least"] == "1.20"
    assert any("negative step" in fault for fault in pieces["tract"]["faults"])


def test_doctor_reports_missing_packages_and_install_commands(no_runtime):
    text = CliRunner().invoke(cli, ["doctor"]).output
    assert "pip install 'openvino" in text
    assert not any(piece["is_usable"] for piece in told("doctor")["pieces"] if piece["module"] in ("ncnn", "tract"))


def test_without_any_runtime_models_are_checked_converted_and_proven_by_the_reference(no_runtime, tmp_path):
    net = write_onnx(tmp_path / "net.onnx", perceptron())
    assert told("check", net)["valid"]
    assert told("shapes", net)["values"]["y"]["dtype"] == "float32"
    proof = told("convert", net, tmp_path / "net.tflite", "--input", "x=1x4")["verify"]
    assert proof["passed"]
    assert not proof["is_independent"]
    assert {seen["runtime"] for seen in proof["witnesses"] if seen["ran"]} == {"reference"}
    assert told("simplify", net, tmp_path / "small.onnx")["verify"]["passed"]
    assert told("compare", net, tmp_path / "small.onnx")["passed"]
    np.savez(tmp_path / "samples.npz", x=np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32))
    samples = tmp_path / "samples.npz"
    assert told("quantize", net, tmp_path / "q.onnx", "--calibration", samples, "--preset", "fast")["snr_db"] > 20
    refused = told("run", net, "--backend", "onnxruntime", code=1)
    assert refused["diagnostics"][0]["help"] == install("onnxruntime")


def test_remedies_contain_the_declared_requirement():
    for stated in requires("graphport") or []:
        name = stated.partition(";")[0].strip()
        package = next(part for part in (name.split(sign)[0] for sign in ("<", ">", "=", "[")) if part != name)
        if not package.startswith("graphport"):
            assert requirement(package) == name
    assert requirement("no-such-package") == "no-such-package"
    assert "graphport" not in install("ray")


def test_versions_are_ordered_by_their_numbers():
    assert is_older("1.9.3", "1.20")
    assert not is_older("1.20.0", "1.20")
    assert not is_older("2026.4.1", "1.20")
    assert not is_older("unknown", "1.20")

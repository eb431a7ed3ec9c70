"""The example of a format plugin: registered by its entry point, read, converted, and refused where it is faulty."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

FOLDER = Path(__file__).parents[2] / "examples" / "format_plugin"
MODEL = {
    "format": "mlp",
    "input": 3,
    "layers": [
        {"weight": [[1, -1], [0, 2], [1, 1]], "bias": [0.5, -1], "activation": "relu"},
        {"weight": [[1], [3]], "bias": [0]},
    ],
}


def install(site: Path, target: str | None = None) -> dict[str, str]:
    """Write the metadata that pip would, and return an environment that finds the package."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    metadata = site / f"graphport_mlp-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    ((name, registered),) = project["entry-points"]["graphport.formats"].items()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[graphport.formats]\n{name} = {target or registered}\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(FOLDER), *sys.path])}


def graphport(environment, *arguments):
    command = [sys.executable, "-m", "graphport", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_registered_format_is_listed_and_converted(tmp_path):
    environment = install(tmp_path / "site")
    (tmp_path / "net.txt").write_text(json.dumps(MODEL))
    assert "perceptron in JSON" in graphport(environment, "formats").stdout
    done = graphport(environment, "convert", tmp_path / "net.txt", tmp_path / "net.onnx")
    assert done.returncode == 0, done.stderr
    x = np.array([[1, 2, 3]], np.float32)
    hidden = np.maximum(x @ np.array([[1, -1], [0, 2], [1, 1]]) + [0.5, -1], 0)
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    found = np.asarray(session.run(None, {"x": x})[0])
    np.testing.assert_allclose(found, hidden @ [[1], [3]], rtol=1e-6)


def test_an_onnx_file_becomes_a_file_of_the_format_again(tmp_path):
    environment = install(tmp_path / "site")
    (tmp_path / "net.mlp").write_text(json.dumps(MODEL))
    for source, target in (("net.mlp", "net.onnx"), ("net.onnx", "again.mlp"), ("net.mlp", "copy.mlp")):
        done = graphport(environment, "convert", tmp_path / source, tmp_path / target)
        assert done.returncode == 0, done.stderr
    for name in ("again.mlp", "copy.mlp"):
        assert json.loads((tmp_path / name).read_text()) == MODEL


def test_a_graph_that_is_no_chain_of_layers_is_refused(tmp_path):
    environment = install(tmp_path / "site")
    shared = helper.make_node("Add", ["x", "x"], ["y"])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3]) for name in "xy"]
    graph = helper.make_graph([shared], "net", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "a.onnx")
    done = graphport(environment, "convert", tmp_path / "a.onnx", tmp_path / "a.mlp")
    assert done.returncode == 1
    assert "MLP0002" in done.stderr


def test_a_fault_of_the_input_is_a_diagnostic(tmp_path):
    environment = install(tmp_path / "site")
    (tmp_path / "net.mlp").write_text('{"format": "mlp"}')
    done = graphport(environment, "check", tmp_path / "net.mlp")
    assert done.returncode == 1
    assert "error[MLP0001]: not a perceptron" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("graphport_mlp:absent", id="no such object"),
        pytest.param("graphport_mlp:versions", id="not a format"),
        pytest.param("graphport.formats.onnx:FORMAT", id="the name of a built-in format"),
        pytest.param("no_such_module", id="no such module"),
    ],
)
def test_a_faulty_registration_is_named(tmp_path, target):
    done = graphport(install(tmp_path / "site", target), "formats")
    assert done.returncode == 1
    assert "error[IO0016]: the format plugin 'mlp' of graphport-mlp cannot be used" in done.stderr

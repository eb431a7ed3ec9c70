"""`graphport cut`: files that are parts of others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError
from tests.ir.test_subgraph import looped
from tests.models import model, node, perceptron, write_nnef, write_onnx


def cut(*arguments: object, code: int = 0):
    result = CliRunner().invoke(cli, ["cut", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def net(tmp_path):
    return write_onnx(tmp_path / "net.onnx", perceptron())


def computed(path, **inputs) -> list[Any]:
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def test_part_matches_onnx_runtime(net, tmp_path):
    document = json.loads(cut(net, tmp_path / "part.onnx", "--from", "hidden", "--to", "scores", "--json").stdout)
    assert document["schema"] == "graphport/cut/1"
    assert document["inputs"] == {"hidden": {"dtype": "float32", "shape": ["N", 5]}}
    assert (document["nodes"], document["added"], document["verify"]["passed"]) == (2, [], True)
    hidden = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    weight = onnx.numpy_helper.to_array(next(t for t in onnx.load(net).graph.initializer if t.name == "v"))
    (found,) = computed(tmp_path / "part.onnx", hidden=hidden)
    np.testing.assert_allclose(found, np.maximum(hidden, 0) @ weight, rtol=1e-5, atol=1e-6)


def test_part_in_the_source_format_keeps_the_source_nodes(tmp_path):
    nodes = [node("Clip", ["x"], ["c"], min=0.0, max=6.0, name="clip"), node("Foo", ["c"], ["y"], domain="com.example")]
    proto = model(nodes, [("x", [2])], [("y", [2])], opset=6, domains={"com.example": 1})
    net = write_onnx(tmp_path / "net.onnx", proto)
    cut(net, tmp_path / "part.onnx", "--to", "c")
    found = onnx.load(tmp_path / "part.onnx")
    assert [(each.op_type, each.name, len(each.attribute)) for each in found.graph.node] == [("Clip", "clip", 2)]
    assert {each.version for each in found.opset_import if each.domain in ("", "ai.onnx")} == {6}


@pytest.mark.parametrize("names", [["hidden", "active"], ["hidden,active"]], ids=["blanks", "commas"])
def test_one_option_accepts_several_names(net, tmp_path, names):
    cut(net, tmp_path / "part.onnx", "--to", *names)
    assert list(gp.load(tmp_path / "part.onnx").outputs) == ["hidden", "active"]


def test_options_may_precede_the_files(net, tmp_path):
    cut("--to", "hidden", "--no-verify", net, tmp_path / "part.onnx")
    assert list(gp.load(tmp_path / "part.onnx").outputs) == ["hidden"]


def test_node_name_selects_its_operands_and_results(tmp_path):
    net = write_onnx(tmp_path / "net.onnx", looped())
    document = json.loads(cut(net, tmp_path / "part.onnx", "--from", "loop", "--to", "loop", "--json").stdout)
    assert (list(document["inputs"]), list(document["outputs"])) == (["x", "outer"], ["last"])
    assert document["verify"]["passed"]


def test_further_requirements_are_reported(tmp_path):
    proto = model([node("Neg", ["x"], ["h"]), node("Mul", ["h", "m"], ["y"])], [("x", [2]), ("m", [2])], [("y", [2])])
    net = write_onnx(tmp_path / "net.onnx", proto)
    result = cut(net, tmp_path / "part.onnx", "--from", "h")
    assert "EDIT0006" in result.stderr
    assert list(gp.load(tmp_path / "part.onnx").inputs) == ["h", "m"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--from", "hiden"], "EDIT0001", id="no such name"),
        pytest.param(["--from", "y", "--to", "y"], "EDIT0003", id="given and wanted"),
        pytest.param(["--from", "scores", "--to", "hidden"], "EDIT0004", id="the wrong way round"),
    ],
)
def test_invalid_cuts_are_refused(net, tmp_path, arguments, code):
    document = json.loads(cut(net, tmp_path / "part.onnx", *arguments, "--json", code=1).stdout)
    assert [finding["code"] for finding in document["diagnostics"]] == [code]
    assert not (tmp_path / "part.onnx").exists()


def test_unused_input_is_kept_with_a_warning(net):
    found = gp.cut(gp.load(net), ["x", "hidden"], ["scores"])
    assert list(found.inputs) == ["x", "hidden"]
    assert [finding.code for finding in found.findings] == ["EDIT0005"]


def test_a_name_of_two_values_is_refused():
    proto = model(
        [node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))],
        [("x", [2]), onnx.helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])],
        [("y", [2])],
    )
    with pytest.raises(DiagnosticError, match="EDIT0002"):
        gp.cut(gp.from_onnx(proto), outputs=["inner"])


def branch(op: str) -> onnx.GraphProto:
    result = onnx.helper.make_tensor_value_info("inner", onnx.TensorProto.FLOAT, [2])
    return onnx.helper.make_graph([node(op, ["x"], ["inner"])], op, [], [result])


def test_other_formats_are_cut_into(tmp_path):
    pytest.importorskip("openvino")
    pytest.importorskip("tract")
    folder = write_nnef(tmp_path / "small")
    cut(folder, tmp_path / "part.xml", "--to", "h", "--verify")
    cut(folder, tmp_path / "part", "--from", "h", "--verify")
    assert (tmp_path / "part" / "graph.nnef").exists()


def test_shapes_bind_inputs_of_the_part(net, tmp_path):
    cut(net, tmp_path / "part.onnx", "--from", "hidden", "--input", "hidden=7x5")
    assert str(gp.load(tmp_path / "part.onnx").outputs["y"].fact) == "float32[7, 3]"

"""`graphport simplify`: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from graphport.cli.main import cli
from graphport.passes.simplify import SIMPLIFY
from tests.models import write_onnx
from tests.passes.cases import info, model, node


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def net(tmp_path) -> Path:
    nodes = [node("Relu", "x", "a"), node("Relu", "x", "b"), node("Identity", "b", "c"), node("Add", "a c", "y")]
    return write_onnx(tmp_path / "net.onnx", model(nodes, [info("x", ["N", 4])], [info("y", ["N", 4])], opset=13))


def test_the_document_has_passes_nodes_and_the_verification(net, tmp_path):
    result = run("simplify", net, tmp_path / "small.onnx", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [each["name"] for each in document["passes"]] == ["upgrade", *(each.name for each in SIMPLIFY)]
    assert (document["nodes_before"], document["nodes_after"]) == (4, 2)
    assert document["verify"]["passed"] is True
    small = onnx.load(tmp_path / "small.onnx")
    assert [each.op_type for each in small.graph.node] == ["Relu", "Add"]
    assert small.opset_import[0].version == 13


def test_passes_of_the_other_verb_are_wrong_usage(net, tmp_path):
    result = run("simplify", net, tmp_path / "small.onnx", "--skip", "split-parameters")
    assert result.exit_code == 2
    assert "no pass 'split-parameters'" in result.stderr


def test_every_change_is_reported(net, tmp_path):
    told = run("simplify", net, tmp_path / "small.onnx", "-v").stdout
    assert "merge-duplicates did:\n  Relu b: Relu a computes an equal result" in told
    assert "verified: ONNX Runtime on net.onnx and ONNX Runtime on small.onnx agree on 7 test inputs of 3 sizes" in told


def test_the_opset_is_chosen_and_options_of_others_are_wrong_usage(net, tmp_path):
    assert run("simplify", net, tmp_path / "small.onnx", "--opset", 20).exit_code == 0
    assert onnx.load(tmp_path / "small.onnx").opset_import[0].version == 20
    assert run("simplify", net, tmp_path / "small.onnx", "--flatten").exit_code == 2


def test_model_contents_are_reported_before_and_after(net, tmp_path):
    told = run("simplify", net, tmp_path / "small.onnx", "--no-verify").stdout
    lines = [line.split() for line in told.splitlines()]
    assert ["before", "after"] in lines
    assert ["operators", "4", "2"] in lines
    assert ["Relu", "2", "1"] in lines
    assert ["parameters", "0", "0"] in lines
    assert "fuse-batchnorm" not in told, "a pass that found nothing"


def test_work_is_reported_of_both_at_the_same_sizes(tmp_path):
    nodes = [node("MatMul", "x z", "a"), node("Identity", "a", "b"), node("MatMul", "b z", "y")]
    shapes = [info("x", ["N", "K"]), info("z", ["K", "K"])]
    net = write_onnx(tmp_path / "net.onnx", model(nodes, shapes, [info("y", ["N", "K"])], opset=13))
    document = json.loads(run("simplify", net, tmp_path / "small.onnx", "--no-verify", "--json").stdout)
    assert document["before"]["operators"] == {"MatMul": 2, "Identity": 1}
    assert document["after"]["operators"] == {"MatMul": 2}
    assert document["before"]["macs"] == document["after"]["macs"] == "2*K*K*N"

"""`graphport prepare`: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from graphport.cli.main import cli
from graphport.formats import Format
from graphport.passes.prepare import PREPARE
from tests.models import write_nnef, write_onnx
from tests.passes.cases import bn, info, model, node, norm, some
from tests.sabotage import scale_weight


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def net(tmp_path) -> Path:
    proto = model(
        [node("Conv", "x w", "h", name="c"), bn("h", "k"), node("Clip", "k", "y", min=0.0)],
        [info("x", ["N", 4, 7])],
        [info("y", ["N", 6, 5])],
        {"w": some(6, 4, 3), **norm(6)},
        opset=10,
    )
    return write_onnx(tmp_path / "net.onnx", proto)


def test_the_document_has_passes_nodes_and_the_verification(net, tmp_path):
    result = run("prepare", net, tmp_path / "ready.onnx", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert [each["name"] for each in document["passes"]] == ["upgrade", *(each.name for each in PREPARE)]
    assert {each["name"]: each["changes"] for each in document["passes"]}["fuse-batchnorm"] == 1
    assert (document["nodes_before"], document["nodes_after"]) == (3, 2)
    assert document["verify"]["passed"] is True
    assert [each.op_type for each in onnx.load(tmp_path / "ready.onnx").graph.node] == ["Conv", "Clip"]


def test_verbose_table_lists_changes_and_reasons(net, tmp_path):
    plain = run("prepare", net, tmp_path / "ready.onnx")
    assert plain.exit_code == 0
    assert (
        "verified: ONNX Runtime on net.onnx and ONNX Runtime on ready.onnx agree on 7 test inputs of 3 sizes"
        in plain.stdout
    )
    assert "folded into the weights" not in plain.stdout
    told = run("prepare", net, tmp_path / "ready.onnx", "-v", "--skip", "fuse-batchnorm", "--skip", "batchnorm-to-conv")
    assert "onnx.Clip y: upgraded to the current opset from onnx 10" in told.stdout
    assert "batchnorm-to-scale did:\n  BatchNormalization k: is a Mul and an Add" in told.stdout


def test_only_option_runs_one_pass(net, tmp_path):
    result = run("prepare", net, tmp_path / "ready.onnx", "--only", "name-nodes", "--no-verify", "--json")
    document = json.loads(result.stdout)
    assert [each["name"] for each in document["passes"]] == ["upgrade", "name-nodes"]
    assert (document["verify"], document["skipped"]) == (None, "not requested")


def test_an_unknown_pass_is_wrong_usage(net, tmp_path):
    result = run("prepare", net, tmp_path / "ready.onnx", "--only", "fuse")
    assert result.exit_code == 2
    assert "no pass 'fuse'" in result.stderr
    assert not (tmp_path / "ready.onnx").exists()


def test_outputs_that_differ_end_with_1(net, tmp_path, monkeypatch):
    (tmp_path / "ready.onnx").write_bytes(b"what was there")
    write = Format.write

    def spoiled(kind, graph, path, **options):
        scale_weight(graph)
        return write(kind, graph, path, **options)

    monkeypatch.setattr(Format, "write", spoiled)
    result = run("prepare", net, tmp_path / "ready.onnx")
    assert result.exit_code == 1
    assert "verification failed: the outputs differ: " in result.stdout
    assert (tmp_path / "ready.onnx").read_bytes() == b"what was there"
    assert run("prepare", net, tmp_path / "ready.onnx", "--keep-failed").exit_code == 1
    assert onnx.load(tmp_path / "ready.onnx.failed").graph.node


def test_a_broken_file_is_a_finding(tmp_path):
    twice = model([node("Relu", "x", "y"), node("Neg", "x", "y")], [info("x", [1])], [info("y", [1])])
    result = run("prepare", write_onnx(tmp_path / "bad.onnx", twice), tmp_path / "ready.onnx", "--json")
    assert result.exit_code == 1
    assert [each["code"] for each in json.loads(result.stdout)["diagnostics"]] == ["ONNX0101"]


def test_other_formats_are_prepared_and_written(tmp_path):
    result = run("prepare", write_nnef(tmp_path / "small"), tmp_path / "ready.onnx", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["verify"]["passed"] is True
    assert document["passes"][0]["changes"] > 0


def test_extents_are_bound(net, tmp_path):
    assert run("prepare", net, tmp_path / "ready.onnx", "--input", "x=2x4x7").exit_code == 0
    shape = onnx.load(tmp_path / "ready.onnx").graph.output[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [2, 6, 5]

"""Options of the verbs for NNEF alone: editions, fragments, flat texts."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from graphport.cli.main import cli

FINAL = """# By hand.
version 1.0;
extension KHR_enable_fragment_definitions;

fragment twice( x: tensor<scalar> ) -> ( y: tensor<scalar> )
{
    y = add(x, x);
}

graph net( x ) -> ( y )
{
    x = external(shape = [2, 3]);  # an input
    y = twice(x);
}
"""
PROVISIONAL = """version 1.0

graph net( x ) -> ( y )
{
    x = external(shape = [0, 3])
    y = matmul(x, x, trA = true)
}
"""


@pytest.fixture
def final(tmp_path) -> Path:
    (tmp_path / "final.nnef").write_text(FINAL)
    return tmp_path / "final.nnef"


@pytest.fixture
def provisional(tmp_path) -> Path:
    (tmp_path / "provisional.nnef").write_text(PROVISIONAL)
    return tmp_path / "provisional.nnef"


def told(*arguments: object, code: int = 0):
    result = CliRunner().invoke(cli, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    assert document.pop("schema") == f"graphport/{arguments[0]}/1"
    return document


@pytest.mark.parametrize("verb", ["check", "shapes", "inspect"])
def test_an_edition_can_be_demanded(verb, final, provisional):
    for path, own, other in ((final, "final", "provisional"), (provisional, "provisional", "final")):
        told(verb, path, code=0)
        told(verb, path, "--edition", own, code=0)
        findings = told(verb, path, "--edition", other, code=1)["diagnostics"]
        assert "NNEF" in findings[0]["code"]


def test_dynamic_dims_are_bound_before_evaluation(provisional):
    assert told("shapes", provisional)["values"]["y"]["shape"] == [3, 3]
    assert told("shapes", provisional)["values"]["x"]["shape"] == ["x_0", 3]
    assert told("shapes", provisional, "--input", "x=5x3")["values"]["x"]["shape"] == [5, 3]


def test_nnef_to_nnef_is_the_same_text(final, tmp_path):
    told("convert", final, tmp_path / "same.nnef")
    assert (tmp_path / "same.nnef").read_text() == FINAL


def test_flatten_option_expands_fragments(final, tmp_path):
    told("convert", final, tmp_path / "flat.nnef", "--flatten")
    text = (tmp_path / "flat.nnef").read_text()
    assert text.endswith("{\n    x = external(shape = [2, 3]);\n    y = add(x, x);\n}\n")


def test_fragments_are_declared_with_the_option(tmp_path):
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"])
    sides = (
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2]),
            helper.make_tensor_value_info("n", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])],
    )
    graph = helper.make_graph([node], "main", *sides)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "a.onnx")
    assert told("convert", tmp_path / "a.onnx", tmp_path / "b.nnef", code=1)["unsupported"] == {"ReverseSequence": 1}
    answer = told("convert", tmp_path / "a.onnx", tmp_path / "b.nnef", "--allow-fragments")
    assert answer["unsupported"] == {}
    assert answer["verify"]["passed"]
    assert "y = onnx_ReverseSequence(x, n" in (tmp_path / "b.nnef").read_text()


@pytest.mark.parametrize("option", ["--flatten", "--allow-fragments"])
def test_options_of_nnef_are_refused_for_other_formats(final, tmp_path, option):
    result = CliRunner().invoke(cli, ["convert", str(final), str(tmp_path / "a.onnx"), option])
    assert result.exit_code == 2
    assert f"{option} does not apply to ONNX" in result.stderr


def test_fmt_json_lists_changed_files(final, tmp_path):
    ugly = tmp_path / "ugly.nnef"
    ugly.write_text(FINAL.replace(" = ", "="))
    assert told("fmt", "--check", final, ugly, code=1) == {"changed": [str(ugly)], "written": False}
    assert told("fmt", ugly) == {"changed": [str(ugly)], "written": True}
    assert ugly.read_text() == FINAL
    assert told("fmt", "--check", final, ugly) == {"changed": [], "written": False}

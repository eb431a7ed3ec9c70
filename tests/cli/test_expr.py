"""`graphport expr`: every form of an expression, and its value."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from graphport.cli.main import cli


def expr(*arguments):
    return CliRunner().invoke(cli, ["expr", *map(str, arguments)])


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        pytest.param("rpn", "@0 @1 @2 mul add\n", id="steps"),
        pytest.param("tree", "add\n  @0\n  mul\n    @1\n    @2\n", id="tree"),
    ],
)
def test_show_option_prints_one_form(form, expected):
    assert expr("add(@0,mul(@1,@2))", "--show", form).output == expected


def test_tokens_have_start_and_end():
    tokens = json.loads(expr("add(@0, 1)", "--json").output)["tokens"]
    assert tokens[0] == {"kind": "name", "text": "add", "start": 0, "end": 3}
    assert tokens[-1]["end"] == 10


def test_a_malformed_text_is_an_error_with_its_column():
    result = expr("add(@0,mul(@1")
    assert result.exit_code == 1
    assert "expression:1:14" in result.stderr
    document = json.loads(expr("add(@0,", "--json").output)
    assert document["diagnostics"][0]["column"] == 8


def test_operands_are_read_from_a_file(tmp_path):
    np.savez(tmp_path / "in.npz", x1=np.ones(3, np.float32), x0=np.arange(3, dtype=np.float32))
    result = expr("sub(@0,@1)", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--json")
    assert json.loads(result.output)["outputs"] == [-1.0, 0.0, 1.0]
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["output"], np.array([-1, 0, 1], np.float32), strict=True)


def test_inf_and_nan_are_json_strings(tmp_path):
    np.savez(tmp_path / "in.npz", a=np.array([1.0, 0.0, 4.0]), b=np.array([0.0, 0.0, 2.0]))
    result = expr("div(@0,@1)", "--inputs", tmp_path / "in.npz", "--json")
    assert json.loads(result.output)["outputs"] == ["inf", "nan", 2.0]


def test_lenient_option_accepts_broken_pnnx_expressions(tmp_path):
    assert expr("expm1,@0").exit_code == 1
    result = expr("expm1,@0", "--lenient", "--show", "rpn")
    assert result.output.endswith("@0 expm1\n")
    assert "warning[EXPR" in result.stderr

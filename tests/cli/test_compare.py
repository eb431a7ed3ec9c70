"""`graphport compare`: limits, orders of rows, and the files that `--find` writes."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from tests.comparison.test_first_difference import deep, scale
from tests.models import model, node, write_onnx


def compare(*arguments: object, code: int = 0):
    result = CliRunner().invoke(cli, ["compare", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_onnx(tmp_path / "a.onnx", deep())
    b = gp.load("a.onnx")
    scale(b.graph, "w3", 1.05)
    gp.save(b, "b.onnx")
    return "a.onnx", "b.onnx"


def test_find_writes_two_small_models_and_how_to_run_them_again(files):
    document = json.loads(compare(*files, "--find", "--json", code=1).stdout)
    found = document["found"]
    assert document["schema"] == "graphport/compare/1"
    assert (found["node"], found["nodes"], found["is_beyond_tolerance"]) == ("product3", {"a": 1, "b": 1}, True)
    assert found["file"] == "b.onnx"
    program, verb, *arguments = shlex.split(found["command"])
    assert (program, verb) == ("graphport", "compare")
    again = json.loads(compare(*arguments, "--json", code=1).stdout)
    assert again["outputs"][0]["max_abs"] == pytest.approx(found["difference"]["max_abs"])


def test_find_reports_the_first_differing_node(files):
    output = compare(*files, "--find", "--out", "small", code=1).output
    assert "the first node with a different result is MatMul product3: m3 differs by" in output
    assert "at b.onnx" in output
    assert "again: graphport compare small/a.onnx small/b.onnx --inputs small/inputs.npz" in output


def test_find_reports_equal_models(files):
    assert "there is nothing to find" in compare(files[0], files[0], "--find").output


def test_limits_are_repeated_in_the_command(files):
    document = json.loads(compare(*files, "--find", "--rtol", "1e-5", "--atol", "m3=1e-5", "--json", code=1).stdout)
    assert document["found"]["command"].endswith("--rtol 1e-05 --atol m3=1e-05")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param(["--min-snr", "5"], 0, id="decibels"),
        pytest.param(["--min-snr", "200"], 1, id="too many decibels"),
        pytest.param(["--rtol", "1"], 0, id="part of the largest"),
        pytest.param(["--atol", "t7=10"], 0, id="of one output"),
        pytest.param(["--atol", "m3=10"], 1, id="of another value"),
    ],
)
def test_limit_options_set_the_exit_status(files, options, code):
    compare(*files, *options, code=code)


def test_a_limit_that_is_no_number_is_wrong_usage(files):
    assert "neither a number" in compare(*files, "--rtol", "y=much", code=2).output


def test_rows_are_sorted_and_limited(files):
    lines = compare(*files, "--all", "--sort", "snr", "--limit", "2", code=1).output.splitlines()
    assert lines[3] == "22 more rows are not shown"
    ratios = [float(line.split()[3]) for line in lines[1:3]]
    assert ratios == sorted(ratios)


def test_metric_option_accepts_a_user_function(files, tmp_path):
    (tmp_path / "nearness.py").write_text("def largest(a, b):\n    return -float(abs(a - b).max())\n")
    options = ["--metric", "nearness:largest", "--min-metric"]
    document = json.loads(compare(*files, *options, "-10", "--json").stdout)
    assert document["outputs"][0]["metric"] == pytest.approx(-document["outputs"][0]["max_abs"])
    compare(*files, *options, "0", code=1)


@pytest.mark.parametrize("least", ["0.9", "y=0.9"])
def test_a_least_metric_without_a_metric_is_refused(files, least):
    assert "--metric MODULE:FUNCTION" in compare(*files, "--min-metric", least, code=2).output
    with pytest.raises(ValueError, match="no metric is defined"):
        gp.Limits(least_metric=0.9).difference("y", np.zeros(1), np.ones(1))


def test_find_uses_the_inputs_option(files):
    np.savez("in.npz", x=np.ones((3, 6), np.float32))
    compare(*files, "--find", "--inputs", "in.npz", code=1)
    assert np.load("difference/inputs.npz")["t2"].shape == (3, 6)


def test_limits_of_unknown_values_are_wrong_usage(files):
    result = compare(*files, "--rtol", "nosuch=1", code=2)
    assert "the models have no value nosuch" in result.output


@pytest.fixture
def unrelated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    proto = model([node("Neg", ["x"], ["y"])], [("x", [1, 3])], [("y", [1, 3])])
    write_onnx(tmp_path / "a.onnx", proto)
    proto = model([node("Add", ["x", "z"], ["y"])], [("x", [2, 5]), ("z", [2, 5])], [("y", [2, 5])])
    write_onnx(tmp_path / "b.onnx", proto)


@pytest.mark.parametrize("options", [[], ["--all"], ["--inputs", "in.npz"]], ids=str)
def test_models_with_other_inputs_are_compared_by_their_inputs(unrelated, options):
    np.savez("in.npz", x=np.ones((1, 3), np.float32))
    document = json.loads(compare("a.onnx", "b.onnx", *options, "--json", code=1).stdout)
    (finding,) = document["diagnostics"]
    assert finding["code"] == "RUN0014"
    assert "the first model has no z (float32[2, 5])" in finding["message"]
    assert "x is float32[1, 3] in one model and float32[2, 5] in the other" in finding["message"]


def test_inputs_that_fit_neither_model_are_reported(files):
    np.savez("in.npz", x=np.ones((9, 9, 9), np.float32))
    document = json.loads(compare(*files, "--inputs", "in.npz", "--json", code=1).stdout)
    assert all(finding["code"] != "RUN0014" for finding in document["diagnostics"])


def test_report_on_models_with_different_inputs_omits_the_comparison(unrelated):
    result = CliRunner().invoke(cli, ["report", "a.onnx", "--against", "b.onnx", "-o", "both.html"])
    assert result.exit_code == 0
    assert "written to both.html; the values were not compared: the inputs of the models differ: " in result.output

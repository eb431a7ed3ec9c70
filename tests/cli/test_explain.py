"""What is explained is true: the wrong example has the finding, the right one none."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.explain import diagnostics, explanations, passes
from graphport.cli.main import cli
from graphport.formats.onnx.container.notes import MODEL, ModelNotes
from graphport.ir.text import from_text, to_text
from graphport.ops.infer import infer
from graphport.passes import driver
from graphport.passes.prepare import PREPARE
from graphport.passes.simplify import SIMPLIFY
from tests.cli.examples import check_side, examples, groups
from tests.draws import spread
from tests.every import every

EXAMPLES = examples()
RIGHT = 3
"""Of so many examples one is tried on its right side, too; the right sides of all in tests/conformance."""


def explain(name: str) -> dict:
    result = CliRunner().invoke(cli, ["explain", name, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.skipif(os.name == "nt", reason="examples are commands of a POSIX shell")
@pytest.mark.parametrize("group", groups())
def test_only_wrong_examples_produce_their_finding(group, tmp_path, monkeypatch):
    for number, code in enumerate(spread(groups()[group])):
        check_side(code, "wrong", tmp_path, monkeypatch)
        if number % RIGHT == 0:
            check_side(code, "right", tmp_path, monkeypatch)


def test_every_code_has_an_example_or_a_reason():
    assert all(("wrong" in found) != ("none" in found) for found in diagnostics().values())
    assert len(EXAMPLES) > 0.9 * len(diagnostics())


@every("name", passes())
def test_pass_turns_the_before_example_into_the_after_example(name):
    each, verbs = passes()[name]
    shown = explain(name)
    before, after = from_text(shown["before"]), from_text(shown["after"])
    if "opset" in shown:
        before.notes[MODEL] = ModelNotes(ir_version=0, opset=shown["opset"])
    tidy = [one for one, _ in passes().values() if one.name == "remove-dead"]
    keeps_all = {"lift-constants", "split-parameters", "name-nodes"}  # which leave nothing unread behind
    names = [name] if name in keeps_all else [name, *(one.name for one in tidy)]
    outcomes = driver.run(before, driver.select(SIMPLIFY if "simplify" in verbs else PREPARE, names))
    assert {outcome.name: outcome.changes for outcome in outcomes}[name] > 0
    assert to_text(before).rstrip() == shown["after"].rstrip()
    source = from_text(shown["before"])
    infer(source)
    assert gp.compare(gp.Model(source), gp.Model(after), backend="reference").passed, each.name


def test_every_explanation_has_a_text():
    from graphport.cli.explain import _explained

    names = explanations()
    assert len(names) > 700
    for name in names:
        said = _explained(name)
        assert said is not None, name
        assert said["name"] == name
        assert said.get("text") or said.get("sentences") is not None, name


def test_a_pass_reports_before_and_after():
    said = explain("fuse-batchnorm")
    assert "Before  h = Conv" in said["text"]
    assert "After   y = Conv" in said["text"]
    assert said["verbs"] == ["prepare", "simplify"]


def test_target_explanation_lists_settings_with_their_meaning():
    said = explain("ncnn")["settings"]
    assert said["axes"] == {
        "is": "2",
        "means": "supported numbers of spatial axes of integer convolutions; empty for all.",
    }
    assert "product_axes" in said
    assert "unknown" not in said


@pytest.mark.parametrize(
    ("name", "meant"), [("fuse-batchnrom", "fuse-batchnorm"), ("NNEF0300", "NNEF03"), ("Cnov", "Conv")]
)
def test_unknown_name_suggests_similar_names(name, meant):
    result = CliRunner().invoke(cli, ["explain", name])
    assert result.exit_code == 2
    assert meant in result.output


def test_unknown_name_without_similar_name_lists_the_kinds():
    result = CliRunner().invoke(cli, ["explain", "9999"])
    assert result.exit_code == 2
    assert "passes (fuse-batchnorm)" in result.output
    assert len(result.output) < 500

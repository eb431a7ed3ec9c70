"""What is explained is true: the wrong example has the finding, the right one none."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.explain import known
from graphport.cli.main import cli

EXAMPLES = json.loads((files("graphport.cli") / "explanations" / "examples.json").read_text("utf-8"))


def explain(name: str) -> dict:
    result = CliRunner().invoke(cli, ["explain", name, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_wrong_examples_have_their_finding_and_right_ones_none(tmp_path):
    path = tmp_path / "model.nnef"
    for code, example in EXAMPLES.items():
        path.write_text(example["wrong"], encoding="utf-8")
        assert code in {finding.code for finding in gp.check(path)}, code
        path.write_text(example["right"], encoding="utf-8")
        assert not [finding for finding in gp.check(path) if finding.is_error or finding.code == code], code


def test_everything_that_is_known_is_explained():
    from graphport.cli.explain import _explained

    names = known()
    assert len(names) > 700
    for name in names:
        said = _explained(name)
        assert said is not None, name
        assert said["name"] == name
        assert said.get("text") or said.get("sentences") is not None, name


def test_a_pass_tells_before_and_after():
    said = explain("fuse-batchnorm")
    assert "Before  h = Conv" in said["text"]
    assert "After   y = Conv" in said["text"]
    assert said["verbs"] == ["prepare", "simplify"]


def test_a_target_tells_what_differs_and_what_it_means():
    said = explain("ncnn")["settings"]
    assert said["axes"] == {"is": "2", "means": "how many axes convolutions on integers slide over; 0 for any number."}
    assert "product_axes" in said
    assert "unknown" not in said


def test_codes_have_anchors_in_the_manual():
    page = (files("graphport") / ".." / ".." / "docs" / "diagnostics.md").read_text("utf-8")
    assert all(f'<a id="{name.lower()}"></a>' in page for name in known() if name[-4:].isdigit() and name[0].isupper())


@pytest.mark.parametrize(
    ("name", "meant"), [("fuse-batchnrom", "fuse-batchnorm"), ("NNEF0300", "NNEF03"), ("Cnov", "Conv")]
)
def test_names_that_are_not_known_are_answered_with_those_near(name, meant):
    result = CliRunner().invoke(cli, ["explain", name])
    assert result.exit_code == 2
    assert meant in result.output

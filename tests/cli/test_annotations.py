"""Findings as commands of a workflow and as SARIF, and the hooks that use them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

import graphport as gp
from graphport.cli.annotations import annotated
from graphport.cli.main import cli
from graphport.core.diagnostics import Diagnostic, Severity, Source, Span
from tests.models import NNEF

ROOT = Path(__file__).parents[2]


def broken(tmp_path: Path) -> Path:
    path = tmp_path / "a,b.nnef"
    path.write_text(NNEF.replace("relu", "rellu"))
    return path


def test_commands_name_the_file_the_line_and_the_code(tmp_path):
    done = CliRunner().invoke(cli, ["check", str(broken(tmp_path)), "--format", "github"])
    assert done.exit_code == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"::error file={str(tmp_path).replace(',', '%2C')}/a%2Cb.nnef,line=9,col=")
    assert "title=NNEF" in line
    assert "rellu" in line


def test_signs_of_commands_are_escaped():
    finding = Diagnostic("X0001", "50 %\nof it", Span(Source("c:x")), "help", Severity.NOTE)
    assert annotated([finding], "github") == "::notice file=c%3Ax,title=X0001::50 %25%0Aof it%0Ahelp"


def test_sarif_contains_a_rule_and_a_location_per_finding(tmp_path):
    done = CliRunner().invoke(cli, ["check", str(broken(tmp_path)), "--format", "sarif"])
    document = json.loads(done.stdout)
    (run,) = document["runs"]
    (result,) = run["results"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [result["ruleId"]]
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 9


def test_hooks_fail_on_invalid_files_and_pass_valid_files(tmp_path):
    good, bad = tmp_path / "a good one.nnef", broken(tmp_path)
    good.write_text(NNEF)
    (check, fmt) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert shlex.split(fmt["entry"]) == ["graphport", "fmt"]
    command = [sys.executable, "-m", *shlex.split(check["entry"])]
    for files, status in (([good], 0), ([bad], 1), ([bad, good], 1)):
        done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr


def test_the_action_checks_paths_with_blanks_and_patterns(tmp_path):
    folder = tmp_path / "my models"
    folder.mkdir()
    (folder / "a good one.nnef").write_text(NNEF)
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][-1]
    script = step["run"].replace("graphport check", f"{shlex.quote(sys.executable)} -m graphport check")
    for files, status in (
        ("  my models/a good one.nnef\n", 0),
        ("my models/*.nnef", 0),
        ("\nmy models/*.nnef\nno.nnef\n", 1),
    ):
        environment = os.environ | {"FILES": files}
        done = subprocess.run(
            ["bash", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr


def test_check_accepts_several_models(tmp_path):
    bad, good = broken(tmp_path), tmp_path / "good.nnef"
    good.write_text(NNEF)
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "*.nnef"), str(good), "--json"])
    document = json.loads(done.stdout)
    assert done.exit_code == 1
    assert {Path(each["file"]).name: each["valid"] for each in document["models"]} == {
        bad.name: False,
        "good.nnef": True,
    }
    assert document["valid"] is False
    jsonschema.validate(document, json.loads(CliRunner().invoke(cli, ["schema", "check"]).stdout))
    text = CliRunner().invoke(cli, ["check", str(good), str(good), str(tmp_path / "absent.onnx")])
    assert text.exit_code == 1
    assert text.stdout.count("valid NNEF") == 1
    assert "absent.onnx" in text.stderr
    assert CliRunner().invoke(cli, ["check", str(tmp_path / "*.absent")]).exit_code == 1


@pytest.mark.parametrize(("tag", "code"), [(f"v{gp.__version__}", 0), ("v9.9.9", 1)])
def test_release_workflow_compares_the_tag_with_the_citation_version(tag, code):
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["release"]["steps"]
    (compared,) = [step["run"] for step in steps if "CITATION.cff" in step.get("run", "")]
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    assert subprocess.run(["bash", "-ec", compared], cwd=ROOT, env=environment, check=False).returncode == code

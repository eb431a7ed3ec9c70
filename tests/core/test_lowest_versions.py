"""constraints-lowest.txt has the lower bounds of pyproject.toml, and the workflow tests them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import yaml

from graphport.core.version import __version__

ROOT = Path(__file__).parents[2]


def test_the_lowest_versions_are_the_lower_bounds():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = {}
    for each in declared:
        name, bound = re.match(r"([\w.-]+)>=([\d.]+)", each).groups()
        bounds[name] = [int(part) for part in bound.split(".")]
    lines = [line for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {
        name: [int(part) for part in version.split(".")] for name, version in (line.split("==") for line in lines)
    }
    assert pinned.keys() == bounds.keys()
    for name, bound in bounds.items():
        assert pinned[name] == [*bound, 0, 0][:3], name


def test_the_workflow_installs_the_lowest_and_the_newest_versions():
    text = (ROOT / ".github/workflows/dependencies.yml").read_text()
    rows = yaml.safe_load(text)["jobs"]["test"]["strategy"]["matrix"]["include"]
    assert {row["python"] for row in rows if row["versions"] == "newest"} == {"3.11", "3.12", "3.13", "3.14"}
    assert [row["python"] for row in rows if row["versions"] == "lowest"] == ["3.11"]
    assert "-c constraints-lowest.txt" in text


def test_the_citation_has_the_last_release():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    version, date = re.search(
        r"^## \[(\d[\d.]*)\] - ([\d-]+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ).groups()
    assert (citation["version"], citation["date-released"]) == (version, date)
    assert version == __version__
    assert json.loads((ROOT / "editors/vscode/package.json").read_text())["version"] == __version__

"""The table of limits in SECURITY.md equals the source."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest

import graphport as gp
from graphport.cli.explain import diagnostics
from graphport.core import budget
from graphport.formats import FORMATS
from graphport.formats.nnef.container.limits import DEFAULT, read_limits
from graphport.formats.nnef.container.packaging import FILES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "graphport"
ROW = re.compile(
    r"^\| ([^|]+) \| ([0-9,]+) \| (?:`([^`]+)`)? ?\| `([A-Z]+[0-9]{4})` \| `([a-z0-9_.]+\.[A-Za-z_.]+)` \|$",
    re.MULTILINE,
)
NO_BOUNDS_OF_FILES = {
    "formats.pytorch.torchscript.contents.MAX_MODULES": "further modules are not listed",
    "formats.__init__.MAX_CONTAINERS": "what is deeper is named as an archive",
    "formats.recognition.containers.MAX_CANDIDATES": "further members are not looked at",
    "formats.recognition.containers.MAX_LISTED": "further ones are counted",
    "formats.recognition.evidence.MAX_DEPTH": "further members are not looked at",
    "formats.recognition.evidence.MAX_DIRECTORY_BYTES": "what is longer is named as an archive",
    "formats.recognition.evidence.MAX_MEMBERS": "further members are not looked at",
    "formats.caffe.container.writer.MOST_BYTES": "what is written",
    "formats.onnx.container.writer.MOST_BYTES": "what is written",
    "formats.nnef.container.tensors.MOST_BYTES": "the format's own",
    "formats.nnef.container.limits.MOST_DIMS": "the format's own",
    "formats.openvino.container.xml_patterns.MOST_KNOWN": "what is more is parsed anew",
    "formats.openvino.container.shapes.MOST_DIMS": "what is longer is no shape",
    "formats.onnx.container.functions.MOST_GROWTH": "in the row of `MOST_NODES`",
    "formats.pnnx.container.code_expressions.MAX_DEPTH": "what is written",
    "formats.pnnx.container.param.MOST_FINDINGS": "further ones are counted",
    "formats.pytorch.torchscript.control_flow.MAX_TRIALS": "refused as not stable",
    "formats.pytorch.torchscript.emit.MAX_FOLDED": "what is larger stays an operator",
    "formats.pytorch.torchscript.emit.MAX_FOLD_STEPS": "what is longer stays an operator",
    "formats.tflite.container.releases.MAX_CUSTOM_VERSION": "the format's own",
    "formats.tflite.container.encode.MAX_FLATBUFFER_BYTES": "what is written",
    "formats.tflite.container.encode.MAX_INLINE_BYTES": "what is written",
    "formats.tflite.container.findings.MAX_ERRORS": "further ones are counted",
    "formats.tensorflow.container.bundle.MAX_CHECKED_BYTES": "checksums of further variables are not verified",
    "formats.tensorflow.container.initializers.MAX_DEPTH": "the variable has no value then",
    "formats.tensorflow.container.initializers.MAX_STEPS": "the variable has no value then",
    "formats.tensorflow.container.tensors.MAX_STORED_FILL": "a larger constant becomes an `Expand`",
    "formats.archive.container.layout.MOST_NESTED": "what is deeper is damaged",
}
"""Constants of readers that are not limits of a file, with the reason."""


def rows() -> list[tuple[str, int, str, str, str]]:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    return [
        (what, int(number.replace(",", "")), setting, code, home)
        for what, number, setting, code, home in ROW.findall(text)
    ]


def test_each_row_has_the_number_and_the_diagnostic_of_the_source():
    table = (ROOT / "SECURITY.md").read_text("utf-8").partition("## Limits")[2].partition("\n## ")[0]
    assert len(rows()) == len(re.findall(r"^\| ", table, re.MULTILINE)) - 1, "each row is read"
    codes = diagnostics()
    for what, number, setting, code, home in rows():
        module, found, path = home, None, SOURCE
        while found is None:
            module = module.rpartition(".")[0]
            assert module, f"there is no module of {home}"
            path = SOURCE / (module.replace(".", "/") + ".py")
            found = importlib.import_module(f"graphport.{module}") if path.exists() else None
        for name in home.removeprefix(f"{module}.").split("."):
            found = getattr(found, name)
        assert found == number, what
        folder = SOURCE if code in ("LIMIT0001", "RUN0010", "RUN0013") else path.parent
        assert any(
            f'"{code}"' in each.read_text("utf-8") or f"{code}:" in each.read_text("utf-8")
            for each in folder.rglob("*.py")
        ), what
        assert code in codes, what
        if setting and not setting.startswith("GRAPHPORT_"):
            texts = "".join(each.read_text("utf-8") for each in path.parent.glob("*.py"))
            assert f'"{setting}"' in texts or setting.startswith("nnef."), what
            told = setting.startswith(("nnef.findings", "nnef.members", "nnef.ratio_above", "pt2.unpacked"))
            assert told or f"{setting}=N" in texts, f"{what}: the diagnostic names the setting"


def test_each_bound_of_a_reader_has_a_row():
    found = {f"formats.nnef.container.limits.DEFAULT.{field.name}" for field in fields(DEFAULT)}
    found |= {f"formats.nnef.container.packaging.FILES.{field.name}" for field in fields(FILES)}
    beside = (
        "core/budget.py",
        "runtimes/memory.py",
        "runtimes/run_limits.py",
        "conversion/export.py",
        "ops/declare.py",
    )
    for path in [*(SOURCE / name for name in beside), *(SOURCE / "formats").rglob("*.py")]:
        module = str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".")
        if {"rules", "graph_passes"} & set(path.parts):
            continue  # they read no files
        for node in ast.parse(path.read_text("utf-8")).body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id.startswith(("MOST_", "MAX_"))
            ):
                found.add(f"{module}.{node.targets[0].id}")
    listed = {home for *_, home in rows()}
    assert listed <= found
    small = {each for each in found - listed if each.startswith("formats.pytorch.pt2.")}
    assert found - listed - small == set(NO_BOUNDS_OF_FILES)


def test_limits_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv(budget.LIMITS, "nnef.depth=7, nnef.text=9 onnx.inlined=5,pt2.text=x,archive.text=-1")
    assert read_limits(DEFAULT).depth == 7
    assert read_limits(DEFAULT).steps == DEFAULT.steps
    assert read_limits(FILES).text == 9
    assert [budget.limit(name, 3) for name in ("onnx.inlined", "pt2.text", "archive.text", "caffe.text")] == [
        5,
        3,
        3,
        3,
    ]


def test_text_size_limit_is_configurable(tmp_path, monkeypatch):
    path = tmp_path / "m.nnef"
    path.write_text("version 1.0;\ngraph g(x) -> (y) { x = external(shape = [2]); y = relu(x); }\n")
    monkeypatch.setenv(budget.LIMITS, "nnef.text=20")
    with pytest.raises(gp.DiagnosticError, match="NNEF0733") as refused:
        gp.load(path)
    assert "GRAPHPORT_LIMITS=nnef.text=N" in str(refused.value)
    monkeypatch.setenv(budget.LIMITS, "nnef.text=200")
    assert list(gp.load(path).outputs) == ["y"]


def test_figures_for_managers_are_those_of_the_detailed_pages():
    page = (ROOT / "docs/verified-how.md").read_text()
    detailed = (ROOT / "docs/proof.md").read_text() + (ROOT / "SECURITY.md").read_text()
    figures = re.findall(r"\b[0-9][0-9,]*[0-9]\b", page)
    assert "29" in figures
    assert [figure for figure in figures if figure not in detailed] == []
    assert len(re.findall(r"\w+", page)) <= 500


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"archive", "genai"}))
def test_the_page_of_each_format_has_the_same_sections(name: str):
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / f"{name}.md").read_text("utf-8"), re.MULTILINE)
    is_written = FORMATS[name].hooks.write is not None
    assert ({"Reading", "Writing"} if is_written else {"Reading", "Proof", "Limits"}) <= set(headings)

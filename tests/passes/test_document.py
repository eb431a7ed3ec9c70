"""The documentation page about preparation agrees with the code."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from graphport.passes.prepare import PREPARE
from tests.passes.cases import bn, info, model, node, norm, some

DOCUMENT = (Path(__file__).parents[2] / "docs" / "prepare.md").read_text(encoding="utf-8")


def test_the_table_has_every_pass_in_its_order():
    rows = [line.split("|")[1] for line in DOCUMENT.splitlines() if line.startswith("| `")]
    assert re.findall(r"`([a-z-]+)`", "".join(rows)) == [each.name for each in PREPARE]


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL))
def test_the_examples_run(code, tmp_path, monkeypatch, capsys):
    nodes = [node("Conv", "x w", "h", name="conv1"), bn("h", "k"), node("Relu", "k", "y")]
    proto = model(nodes, [info("x", ["N", 6, 5, 5])], [info("y", None)], {"w": some(6, 6, 1, 1), **norm(6)})
    onnx.save(proto, tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # noqa: S102  of our own document
    assert "Conv quantized it has weights" in capsys.readouterr().out

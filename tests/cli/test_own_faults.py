"""A fault of graphport is reported as BUG0001 and ends every command with exit code 3."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from graphport.cli.main import cli
from graphport.core import faults
from graphport.ops import declare, registry
from tests.models import model, node, typed

COMMANDS = {
    "check": ["check", "{model}"],
    "check, as a document": ["check", "{model}", "--json"],
    "check, as annotations": ["check", "{model}", "--format", "github"],
    "check, quiet": ["-q", "check", "{model}"],
    "shapes": ["shapes", "{model}"],
    "inspect": ["inspect", "{model}"],
    "inspect, as a document": ["inspect", "{model}", "--json"],
    "convert": ["convert", "{model}", "{out}.xml", "--no-verify"],
    "convert, as a document": ["convert", "{model}", "{out}.xml", "--no-verify", "--json"],
    "convert, verified": ["convert", "{model}", "{out}.xml"],
    "prepare": ["prepare", "{model}", "{out}.onnx", "--no-verify"],
    "cut": ["cut", "{model}", "{out}.onnx", "--to", "y", "--no-verify"],
    "edit": ["edit", "{model}", "{out}.onnx", "--rename", "x=z", "--no-verify"],
    "run": ["run", "{model}", "--backend", "reference"],
    "report": ["report", "{model}", "-o", "{out}.html"],
}


def _fail(*_, **__):
    message = "tuple index out of range"
    raise IndexError(message)


@pytest.fixture
def broken_relu(monkeypatch):
    """A shape rule of Relu that raises an exception."""
    monkeypatch.delenv(faults.VARIABLE)
    page = registry.op_defs()["Relu"]
    monkeypatch.setitem(declare.OP_DEFS, "Relu", replace(page, shape=_fail))


@pytest.mark.usefixtures("broken_relu")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_fault_of_ours_ends_a_command_with_exit_code_3(command, tmp_path):
    import onnx

    path = tmp_path / "m.onnx"
    onnx.save(model([node("Relu", ["x"], ["y"])], [typed("x", [2, 3])], [typed("y", [2, 3])]), path)
    arguments = [each.format(model=path, out=tmp_path / "o") for each in command]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 3, done.output
    assert "BUG0001" in done.output
    assert "valid ONNX" not in done.output


def test_without_a_fault_the_same_commands_end_otherwise(tmp_path):
    import onnx

    path = tmp_path / "m.onnx"
    onnx.save(model([node("Relu", ["x"], ["y"])], [typed("x", [2, 3])], [typed("y", [2, 3])]), path)
    for command in COMMANDS.values():
        done = CliRunner().invoke(cli, [each.format(model=path, out=tmp_path / "o") for each in command])
        assert done.exit_code == 0, (command, done.output)


def test_the_explanation_of_the_code_is_no_fault():
    for command in (["explain", "BUG0001"], ["explain", "BUG0001", "--json"]):
        assert CliRunner().invoke(cli, command).exit_code == 0

"""Each `*.txt` in this folder is a transcript of the command line: commands, output and exit codes.

GOLDEN=write regenerates them; review the changes before committing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from importlib.resources import files
from pathlib import Path

import onnx.parser
import pytest
from click.testing import CliRunner

from graphport.cli.main import cli

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.rglob("*.txt"))
_VARIES = re.compile(r"\d+\.\d+e-\d+")


def command_line(line: str) -> str:
    """Return the output of a command, standard error after standard output, and its exit code if it is not 0."""
    program, *arguments = shlex.split(line.removeprefix("$ "))
    if program == "cat":
        return Path(*arguments).read_text(encoding="utf-8")
    result = CliRunner().invoke(cli, arguments, prog_name="graphport")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    ending = f"exit code {result.exit_code}\n" if result.exit_code else ""
    return f"{_VARIES.sub('(small)', result.stdout)}{result.stderr}{ending}"


def played(transcript: str) -> str:
    """Return the current output for the commands of a transcript."""
    commands = [line for line in transcript.splitlines() if line.startswith("$ ")]
    return "\n".join(f"{line}\n{command_line(line)}" for line in commands)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a folder with all inputs, ONNX files from texts, and the digits example."""
    shutil.copytree(files("graphport") / "examples" / "digits", tmp_path / "digits")  # type: ignore[arg-type]
    for path in HERE.rglob("*"):
        if path.suffix in (".nnef", ".prototxt"):
            shutil.copy(path, tmp_path)
        elif path.name.endswith(".onnx.text"):
            proto = onnx.parser.parse_model(path.read_text(encoding="utf-8"))
            (tmp_path / path.stem).write_bytes(proto.SerializeToString())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.relative_to(HERE).as_posix())
def test_command_line_output_equals_the_transcript(path, folder):
    expected = path.read_text(encoding="utf-8")
    found = played(expected)
    if os.environ.get("GOLDEN") == "write":
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_there_are_transcripts():
    assert len(TRANSCRIPTS) >= 5

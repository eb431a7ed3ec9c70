"""Runs the examples of `graphport explain`: what they write into files, their commands, and short programs of Python."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import warnings
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import digits
from typing import Any
from unittest.mock import patch

import onnx
import pytest
from click.testing import CliRunner

from graphport.cli.explain import _write_example, diagnostics
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError

DIGITS = Path(str(files("graphport"))) / "examples" / "digits"
PROGRAM = "python3 - <<'.'"
COMMAND = re.compile(r"((?:[A-Z_]+=\S+ )*)graphport (.*)")


@cache
def examples() -> dict[str, dict[str, Any]]:
    """The example of each code that has one."""
    return {code: found for code, found in diagnostics().items() if "wrong" in found}


@cache
def groups() -> dict[str, list[str]]:
    """The codes that have an example, by the letters that they begin with."""
    return {
        letters: list(codes) for letters, codes in groupby(sorted(examples()), key=lambda code: code.rstrip(digits))
    }


def check_side(code: str, side: str, folder: Path, patched: pytest.MonkeyPatch) -> None:
    """Hold that the wrong side of an example has its finding, and that the right side has not, and ends well."""
    here = folder / code / side
    here.mkdir(parents=True)
    patched.chdir(here)
    exit_code, printed = run_side(examples()[code], side)
    assert (code in printed) == (side == "wrong"), f"{code}, {side}: {printed}"
    assert side == "wrong" or exit_code == 0, f"{code}, {side}: {printed}"
    patched.chdir(folder)
    shutil.rmtree(folder / code)


def run_side(example: dict[str, Any], side: str) -> tuple[int, str]:
    """Exit code and output of the last command of one side, in the current folder, in which `digits` lies if it is named."""
    if any(DIGITS.name in str(text) for text in example.values()):
        shutil.copytree(DIGITS, DIGITS.name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The onnxtxt format is experimental")
        run_script(example.get("setup", ""))
        if "file" not in example:
            return run_script(example[side])
        file = example["file"]
        Path(file).write_text(example[side], encoding="utf-8")
        if _write_example(file) != file:
            onnx.save(onnx.load(file), _write_example(file))
        return run_script(example["command"])


def run_script(text: str) -> tuple[int, str]:
    """Exit code and output of the last command of ours or program; other lines are the shell's."""
    code, printed = 0, ""
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        command = COMMAND.fullmatch(line)
        if command is not None:
            settings = dict(word.split("=", 1) for word in command[1].split())
            with patch.dict(os.environ, settings):
                result = CliRunner().invoke(cli, shlex.split(command[2]), prog_name="graphport")
            assert result.exception is None or isinstance(result.exception, SystemExit), line
            code, printed = result.exit_code, result.output
        elif line == PROGRAM:
            end = lines.index(".")
            code, printed = run_program("\n".join(lines[:end]))
            lines = lines[end + 1 :]
        else:
            own = [line]
            while lines and not COMMAND.fullmatch(lines[0]) and lines[0] != PROGRAM:
                own.append(lines.pop(0))
            subprocess.run(["sh", "-c", "\n".join(own)], check=True)
    return code, printed


def run_program(text: str) -> tuple[int, str]:
    """Exit code of a program of Python, and what it prints, or its last words where a finding ends it."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(text, {})  # noqa: S102  of our own examples
    except DiagnosticError as error:
        return 1, str(error)
    return 0, printed.getvalue()

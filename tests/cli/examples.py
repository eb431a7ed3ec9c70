"""Runs the examples of `graphport explain`: what they write into files, their commands, and short programs of Python."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

import onnx
from click.testing import CliRunner

from graphport.cli.explain import _written
from graphport.cli.main import cli

DIGITS = Path(str(files("graphport"))) / "examples" / "digits"
PROGRAM = "python3 - <<'.'"


def run_side(example: dict[str, Any], side: str) -> tuple[int, str]:
    """Exit code and output of the last command of one side, in the current folder, in which `digits` lies."""
    shutil.copytree(DIGITS, "digits")
    run_script(example.get("setup", ""))
    if "file" not in example:
        return run_script(example[side])
    file = example["file"]
    Path(file).write_text(example[side], encoding="utf-8")
    if _written(file) != file:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx calls its text form experimental
            onnx.save(onnx.load(file), _written(file))
    return run_script(example["command"])


def run_script(text: str) -> tuple[int, str]:
    """Exit code and output of the last command of ours; other lines are the shell's."""
    code, printed = 0, ""
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        if line.startswith("graphport "):
            result = CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="graphport")
            assert result.exception is None or isinstance(result.exception, SystemExit), line
            code, printed = result.exit_code, result.output
        elif line == PROGRAM:
            end = lines.index(".")
            exec("\n".join(lines[:end]), {})  # noqa: S102  of our own examples
            lines = lines[end + 1 :]
        else:
            own = [line]
            while lines and not lines[0].startswith("graphport ") and lines[0] != PROGRAM:
                own.append(lines.pop(0))
            subprocess.run(["sh", "-c", "\n".join(own)], check=True)
    return code, printed

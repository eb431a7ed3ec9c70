"""README, landing page and tutorials run from top to bottom and print the shown output."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphport.cli.main import cli

ROOT = Path(__file__).parents[2]
TOURS = [
    ROOT / "README.md",
    *(ROOT / "docs" / name for name in ("index.md", "checkpoint.md")),
    *sorted((ROOT / "docs").glob("tutorial-*.md")),
]
PROGRAM = ROOT / "tests" / "formats" / "pytorch" / "pt2" / "programs" / "network.pt2"
EXPORTED = Path(__file__).with_name("network.jaxexport")
"""What the listing with JAX in `tutorial-jax.md` writes (jax 0.10.2)."""
KERAS = ROOT / "tests" / "formats" / "keras" / "models" / "convolutions.keras"
CHECKPOINT = ROOT / "tests" / "formats" / "checkpoint" / "models" / "llama"
TUNED = Path(__file__).with_name("tuned.pt2")
"""The program that the listing with torch in `tutorial-fine-tune.md` saves (torch 2.13)."""
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"…|\d+\.\d+e-\d+|\d+\.\d{2,}")
"""Output that depends on the machine: `…`, or a number with digits."""
EXIT_CODE = re.compile(r"exit code (\d)")


def run(code: str) -> str:
    """Run the commands of a listing and return their output; `# exit code 1` after a command is the expected exit code."""
    printed = ""
    for line in code.splitlines():
        command, _, remark = line.partition("  #")
        said = EXIT_CODE.search(remark)
        result = CliRunner().invoke(cli, shlex.split(command)[1:], prog_name="graphport")
        assert result.exit_code == (int(said[1]) if said else 0), f"{line}\n{result.output}"
        printed += result.output
    return printed


def assert_printed(shown: str, printed: str) -> None:
    """Check that `printed` contains the lines of `shown` in order; `…` matches anything in a line, or omitted lines."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for line in filter(None, (" ".join(line.split()) for line in shown.splitlines())):
        between = FIGURE.split(line)
        varied = [".*" if found == "…" else r"[\d.]+(?:e-?\d+)?" for found in FIGURE.findall(line)]
        pattern = re.compile("".join(re.escape(part) + any_ for part, any_ in zip(between, [*varied, ""], strict=True)))
        assert line == "…" or any(pattern.fullmatch(found) for found in lines), f"{line!r} is not in\n{printed}"


@pytest.mark.parametrize("page", TOURS, ids=lambda page: page.stem)
def test_tutorial_prints_the_documented_output(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    shutil.copyfile(PROGRAM, "network.pt2")
    shutil.copyfile(TUNED, "tuned.pt2")
    shutil.copyfile(EXPORTED, "network.jaxexport")
    shutil.copyfile(KERAS, "model.keras")
    if page.stem == "tutorial-checkpoint":
        shutil.copytree(CHECKPOINT, "tiny")
    printed, ran = "", 0
    for language, title, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "text" and printed and not title:
            assert_printed(code, printed)
        printed = ""  # a text shows what the listing right before it prints
        if title:
            Path(title).write_text(code, encoding="utf-8")
        elif language == "sh":
            printed = run(code)
            ran += 1
        elif language == "python":
            Path("program.py").write_text(code, encoding="utf-8")
            runpy.run_path("program.py")
    assert ran, f"{page.name} shows no command"


def test_readme_has_the_commands_that_ci_looks_for() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (commands,) = re.findall(
        r"^for command in (.*); do$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [command for command in shlex.split(commands) if command in lines] == ["make demo", "make test"]

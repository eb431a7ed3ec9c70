"""Compare simplifiers on models: nodes, correct results, size, time and memory.

python -m benchmarks.simplify.table --peers PYTHON FOLDER…

`PYTHON` is the interpreter of an environment with the other tools (see README.md in this folder). Each tool runs in a
separate process, on one thread. Models are all `.onnx` files below the folders; the default folder has models of the
tests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.simplify.judging import Verdict, count_nodes, judge, session, two_sizes
from onnx import load

if TYPE_CHECKING:
    from collections.abc import Sequence

OURS = "graphport"
PEERS = ("onnxsim", "onnxslim", "onnxscript", "onnxruntime")
MOST_GROWTH = 1.2
MOST_SECONDS = 600
HERE = Path(__file__).parent
MODELS = HERE.parent.parent / "tests"
HEADINGS = ("model", "tool", "nodes", "right", "difference", "size", "CPU s", "with imports", "peak MB")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool on a model, with time and memory; `verdict` is None if there is no output file."""

    tool: str
    verdict: Verdict | None = None
    growth: float = 0.0
    cpu: float = 0.0
    whole: float = 0.0
    peak: float = 0.0
    reason: str = ""

    @property
    def is_valid(self) -> bool:
        """Return whether the number of nodes counts in the comparison."""
        return self.verdict is not None and self.verdict.is_right and self.growth <= MOST_GROWTH


def worked(tool: str, python: str, model: Path, feeds: Sequence[Any], expected: Sequence[Any]) -> Result:
    """Run one tool on one model."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "result.onnx"
        command = [python, str(HERE / "tools.py"), tool, str(model), str(target)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, env=environment, cwd=folder, check=False, timeout=MOST_SECONDS
            )
        except subprocess.TimeoutExpired:
            return Result(tool, reason=f"more than {MOST_SECONDS} s")
        if ended.returncode or not target.exists():
            return Result(tool, reason=(ended.stderr.strip().splitlines() or ["no file"])[-1][:60])
        took = json.loads(ended.stdout.strip().splitlines()[-1])
        size = sum(each.stat().st_size for each in Path(folder).iterdir())
        verdict = judge(target, feeds, expected)
        return Result(tool, verdict, size / model.stat().st_size, took["cpu_s"], took["whole_s"], took["peak_mb"])


def told(name: str, result: Result) -> list[str]:
    """Return the cells of a table row."""
    verdict = result.verdict
    if verdict is None:
        return [name, result.tool, "", f"fails: {result.reason}", "", "", "", "", ""]
    right = "yes" if verdict.is_right else "no" if verdict.loads else "does not load"
    difference = "" if verdict.difference is None else f"{verdict.difference:.0e}"
    size = f"{result.growth:.2f}" if result.growth <= MOST_GROWTH else f"**{result.growth:.2f}**"
    return [
        name, result.tool, str(verdict.nodes), right, difference, size, f"{result.cpu:.2f}", f"{result.whole:.2f}",
        f"{result.peak:.0f}",
    ]  # fmt: skip


def is_won(ours: Result, others: Sequence[Result]) -> bool:
    """Return whether our result is valid and no valid peer has fewer nodes."""
    if not ours.is_valid or ours.verdict is None:
        return False
    best = [each.verdict.nodes for each in others if each.is_valid and each.verdict is not None]
    return ours.verdict.nodes <= min(best, default=ours.verdict.nodes)


def tell(cells: Sequence[str]) -> None:
    """Print a line of a Markdown table and flush."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> int:
    """Print the table as Markdown, line by line. Return 1 if a peer is better on a model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", default=sys.executable, help="interpreter that has the other tools")
    parser.add_argument("--tool", action="append", help="only this one; repeatable")
    parser.add_argument("folders", type=Path, nargs="*", default=[MODELS])
    given = parser.parse_args()
    tell(HEADINGS)
    tell(["---"] * len(HEADINGS))
    lost: list[str] = []
    models = sorted({path.resolve() for folder in given.folders for path in folder.rglob("*.onnx")})
    for model in models:
        feeds = two_sizes(model)
        if not feeds:
            tell([model.stem, "", "", "no inputs were found that it takes", "", "", "", "", ""])
            continue
        before = session(model)
        expected = [before.run(None, feed) for feed in feeds]
        original = Verdict(count_nodes(load(str(model), load_external_data=False).graph), loads=True, difference=0.0)
        tell(told(model.stem, Result("(original)", original, 1.0)))
        results: list[Result] = []
        for tool in (OURS, *PEERS):
            if tool in (given.tool or [tool]):
                python = sys.executable if tool == OURS else given.peers
                results.append(worked(tool, python, model, feeds, expected))
                tell(told(model.stem, results[-1]))
        if not is_won(results[0], results[1:]):
            lost.append(model.stem)
    sys.stdout.write(
        f"\n{len(models) - len(lost)} of {len(models)} models: ours is right, and no valid peer is smaller\n"
    )
    sys.stdout.write("".join(f"not {name}\n" for name in lost))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())

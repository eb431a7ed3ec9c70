"""Compare converters from OpenVINO IR to ONNX: number of files, correct results, and time.

python -m benchmarks.ir_to_onnx.table [--tool NAME=PYTHON]… FOLDER…

`PYTHON` is the interpreter of an environment with that tool (see README.md in this folder). Files are all `.xml` of the
folders. `NAME.in.npz` and `NAME.out.npz` next to a file may have inputs and outputs, in the order of the layers;
without them the inputs are random, and the expected outputs are OpenVINO's.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import graphport as gp

TOLERANCE = 1e-3
"""Relative to the largest absolute element of an output, and absolute."""
OURS = "graphport"
FOLDER = Path(__file__).parent.parent.parent / "tests" / "formats" / "openvino" / "data"
HEADINGS = ("tool", "files", "converted", "run", "right", "wrong", "silently wrong of those run", "CPU s")


@dataclass(slots=True)
class Score:
    """Results of a tool on all files."""

    tool: str
    converted: int = 0
    loaded: int = 0
    right: int = 0
    wrong: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    cpu: float = 0.0


class Tool:
    """A tool in a separate process, which is restarted if it crashes."""

    def __init__(self, name: str, python: str) -> None:
        self._command = [python, str(Path(__file__).parent / "tools.py"), name]
        self._process: Any = None

    def convert(self, source: Path, target: Path) -> tuple[float, str | None]:
        """Convert a file. Return the processor time and the reason if there is no output file."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        self._process.stdin.write(json.dumps([str(source), str(target)]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            reason = f"its process ended with {self._process.wait()}"
            self._process = None
            return 0.0, reason
        answer = json.loads(line)
        return answer["cpu_s"], answer["reason"]

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()


def expected(path: Path) -> tuple[list[Any], list[list[Any]]]:
    """Return inputs, and the acceptable alternatives of outputs."""
    given, told = path.with_suffix(".in.npz"), path.with_suffix(".out.npz")
    if given.exists() and told.exists():
        with np.load(given) as inputs, np.load(told) as outputs:
            kinds = sorted({re.sub(r"\d+$", "", name) for name in outputs.files})
            stored = _numbered(inputs, None), [_numbered(outputs, kind) for kind in kinds]
        raw = gp.load(path, raw=True)
        if len(stored[0]) != len(raw.inputs) or len(stored[1][0]) != len(raw.outputs):
            message = "what is beside it is of several runs"
            raise ValueError(message)
        return stored
    import openvino

    from graphport.runtimes.inputs import random_inputs

    found = random_inputs(gp.load(path).graph)
    runtime: Any = openvino
    compiled = runtime.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answers = compiled(list(found.values()))
    return list(found.values()), [[np.array(answers[index]) for index in range(len(compiled.outputs))]]


def _numbered(arrays: Any, kind: str | None) -> list[Any]:
    names = [name for name in arrays.files if kind is None or re.sub(r"\d+$", "", name) == kind]
    return [arrays[name] for name in sorted(names, key=lambda name: int(re.sub(r"\D", "", name) or 0))]


def outputs_of(path: Path, source: Path, inputs: list[Any]) -> list[Any]:
    """Run a converted file in ONNX Runtime."""
    import onnxruntime

    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    given = dict(zip(names, inputs, strict=False))
    # A variable of the IR may be an input of the converted file; its value is the initial value of the IR.
    begun = {value.name: value.storage for value in gp.load(source).graph.inputs if value.storage is not None}
    given |= {name: begun[name].numpy() for name in names[len(inputs) :] if name in begun}
    return session.run(None, given)


def is_right(found: list[Any], right: list[Any]) -> bool:
    """Return whether outputs are right; further outputs, new values of variables, are ignored."""
    pairs = zip(found, right, strict=False)
    return len(found) >= len(right) and all(_is_close(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _is_close(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "OUS" or b.dtype.kind in "OUS":
        return bool((a.astype(str) == b.astype(str)).all())
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = y[np.isfinite(y)]
    bound = TOLERANCE * (np.abs(finite).max(initial=0.0) + 1e-3)
    return bool(np.allclose(x, y, rtol=0, atol=bound, equal_nan=True))


def score(name: str, python: str, files: list[Path], answers: dict[Path, Any]) -> Score:
    """Run one tool on all files."""
    found, tool = Score(name), Tool(name, python)
    with TemporaryDirectory() as folder:
        for path in files:
            target = Path(folder) / "model.onnx"
            target.unlink(missing_ok=True)
            cpu, reason = tool.convert(path, target)
            found.cpu += cpu
            if reason is not None or not target.exists():
                found.refused.append(f"{path.stem}: {reason}")
                continue
            found.converted += 1
            _judge(found, path, target, answers[path])
        tool.end()
    return found


def _judge(found: Score, path: Path, target: Path, answer: tuple[list[Any], list[list[Any]]]) -> None:
    inputs, rights = answer
    try:
        outputs = outputs_of(target, path, inputs)
    except Exception as error:  # noqa: BLE001  ONNX R  ONNX Runtime raises many types
        found.wrong.append(f"{path.stem}: {str(error)[:120]}")
        return
    found.loaded += 1
    if any(is_right(outputs, right) for right in rights):
        found.right += 1
    else:
        found.wrong.append(f"{path.stem}: other numbers")


def main() -> None:
    """Print the table and the failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--details", action="store_true", help="which files went wrong, and how")
    parser.add_argument("folders", nargs="*", type=Path, default=[FOLDER])
    options = parser.parse_args()
    tools = [(OURS, sys.executable), *(each.split("=", 1) for each in options.tool)]
    answers: dict[Path, Any] = {}
    for path in sorted(path for folder in options.folders for path in folder.glob("*.xml")):
        try:
            answers[path] = expected(path)
        except Exception as error:  # noqa: BLE001  a file without expected outputs is reported and left out
            sys.stderr.write(f"left out: {path.stem}: {str(error)[:200]}\n")
    rows = [score(name, python, list(answers), answers) for name, python in tools]
    sys.stdout.write(f"| {' | '.join(HEADINGS)} |\n|{' --- |' * len(HEADINGS)}\n")
    for row in rows:
        silent = f"{row.loaded - row.right} ({(row.loaded - row.right) / max(1, row.loaded):.0%})"
        counts = (row.converted, row.loaded, row.right, len(answers) - row.right, silent, f"{row.cpu:.1f}")
        sys.stdout.write(f"| {row.tool} | {len(answers)} | {' | '.join(map(str, counts))} |\n")
    for row in rows if options.details else ():
        sys.stdout.writelines(f"{row.tool}: {each}\n" for each in (*row.refused, *row.wrong))


if __name__ == "__main__":
    main()

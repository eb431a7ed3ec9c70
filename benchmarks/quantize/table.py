"""Compare quantizers on nets: accuracy, speed, cost, and whether a result of graphport dominates each peer.

python benchmarks/quantize/table.py --peers FOLDER NET.onnx=CALIBRATION.npz,TEST.npz…

Each tool runs in a separate process with an interpreter that has it. With `--peers` each tool gets an environment below
FOLDER, created if missing; otherwise this interpreter or that of `--python` is used, and missing tools are left out.
graphport runs with its presets, for the front without a goal (its knee), and for goals that are the best signal and the
best speed of all peers.

SNR is 10 log10(sum fp32² / sum (quantized - fp32)²) over the first output of the test samples in ONNX Runtime with
default options; "exact" is the SNR without graph optimizations. Speeds are ratios to fp32 of processor time on one
thread: all files of a net are loaded in one process and run alternately. A point dominates a peer's if its SNR is at
least that less 0.05 dB and its speed at least 0.95 of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

PEERS = (
    ("onnxruntime", "MinMax"),
    ("onnxruntime", "Percentile"),
    ("onnxruntime", "Entropy"),
    ("nncf", "default"),
    ("nncf", "minmax"),
    ("onnxsim", "minmax"),
    ("onnxsim", "percentile"),
    ("quark", "XINT8"),
    ("quark", "A8W8"),
    ("quark", "U8S8_AAWS"),
)
NEEDS = {
    "nncf": ("nncf", "onnx", "onnxruntime"),
    "onnxsim": ("onnxsim", "onnx", "onnxruntime"),
    "quark": ("amd-quark", "onnx", "onnxruntime", "torch"),
}
"""Packages of the tools with further requirements; Quark imports torch without declaring it."""
OURS = (
    ("fast", {"preset": "fast"}),
    ("balanced", {}),
    ("balanced, no cheap layers", {"cheap_layers": False}),
    ("best", {"preset": "best"}),
    ("the front's knee", {"front": True}),
)
HEADINGS = ("net", "tool", "setting", "SNR", "exact", "agree", "speed", "kB", "CPU s", "peak MB", "")
BATCH, TIMED, SECONDS = 48, 16, 0.05
SLACK_DB, SLACK_SPEED = 0.05, 0.95


@dataclass(slots=True)
class Point:
    """The result of one tool on a net."""

    tool: str
    setting: str
    path: Path
    snr: float
    exact: float
    agreement: float
    took: dict[str, float]
    speed: float = 0.0

    def is_over(self, other: Point) -> bool:
        """Return whether SNR and speed are at least those of `other`, within the tolerances."""
        return self.snr >= other.snr - SLACK_DB and self.speed >= SLACK_SPEED * other.speed


def session(path: Path, *, optimize: bool = True) -> Any:
    """Return a session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def outputs(path: Path, data: dict[str, Any], *, optimize: bool) -> Any:
    """Return the first output for all samples."""
    made = session(path, optimize=optimize)
    count = len(next(iter(data.values())))
    starts = range(0, count, BATCH)
    return np.concatenate([made.run(None, {name: x[i : i + BATCH] for name, x in data.items()})[0] for i in starts])


def snr(expected: Any, found: Any) -> float:
    """Return the signal-to-noise ratio in dB."""
    x, y = expected.astype(np.float64), found.astype(np.float64)
    return float(10 * np.log10(np.sum(x**2) / max(np.sum((x - y) ** 2), 1e-30)))


def environments(folder: Path, tools: list[str]) -> dict[str, str]:
    """Return the interpreters by tool, each of an environment below `folder` with the newest version of the tool."""
    found: dict[str, str] = {}
    for tool in tools:
        where = folder / tool
        python = where / ("Scripts" if os.name == "nt" else "bin") / "python"
        if not python.exists():
            venv.create(where, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *NEEDS[tool]]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            why = (ended.stderr.strip().splitlines() or [""])[-1]
            sys.stderr.write(f"{tool} is left out, it is not to be installed: {why}\n")
        else:
            found[tool] = str(python)
    return found


def tell(*cells: str) -> None:
    """Print a line of a Markdown table and flush."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


class Net:
    """A net with its samples, and the results of the tools."""

    def __init__(self, stated: str, folder: Path, pythons: dict[str, str], turns: int) -> None:
        path, _, data = stated.partition("=")
        self.path, self.folder, self.pythons, self.turns = Path(path), folder, pythons, turns
        self.calibration, _, test = data.partition(",")
        with np.load(test) as arrays:
            self.test = {name: arrays[name] for name in arrays.files if name != "labels"}
        self.expected = outputs(self.path, self.test, optimize=True)
        self.points: list[Point] = []

    def run(self, tool: str, setting: str, configuration: str) -> None:
        """Run a tool and measure its file."""
        result = self.folder / f"{self.path.stem}.{len(self.points)}.onnx"
        result.unlink(missing_ok=True)
        script = str(Path(__file__).with_name("tools.py"))
        command = [self.pythons.get(tool, sys.executable), script, tool, configuration, str(self.path)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        ended = subprocess.run(
            [*command, self.calibration, str(result)], capture_output=True, text=True, env=environment, check=False
        )
        if ended.returncode or not result.exists():
            why = (ended.stderr.strip().splitlines() or [""])[-1][:60]
            # This interpreter may lack the tool; one created or named for the tool has it.
            if "No module named" not in why or tool not in NEEDS or tool in self.pythons:
                tell(self.path.stem, tool, setting, "failed", why)
            return
        took = json.loads(ended.stdout.strip().splitlines()[-1])
        found, exact = (outputs(result, self.test, optimize=x) for x in (True, False))
        agreement = float(np.mean(found.argmax(axis=1) == self.expected.argmax(axis=1)))
        near = snr(self.expected, found), snr(self.expected, exact)
        self.points.append(Point(tool, setting, result, *near, agreement, took))

    def time(self) -> None:
        """Measure the speedup of each point over fp32: median ratio of alternating runs."""
        few = {name: x[:TIMED] for name, x in self.test.items()}
        made = [session(self.path), *(session(point.path) for point in self.points)]
        for each in made:
            each.run(None, few)
        started = time.process_time()
        made[0].run(None, few)
        runs = max(int(SECONDS / max(time.process_time() - started, 1e-5)), 1)
        table: list[list[float]] = []
        for _ in range(self.turns):
            row: list[float] = []
            for each in made:
                started = time.process_time()
                for _ in range(runs):
                    each.run(None, few)
                row.append(time.process_time() - started)
            table.append([row[0] / spent for spent in row])
        for number, point in enumerate(self.points, 1):
            point.speed = median(row[number] for row in table)

    def tell(self) -> tuple[int, int]:
        """Print a line for each point. Return the numbers of dominated and of all points of peers."""
        ours = [point for point in self.points if point.tool == "graphport"]
        over = 0
        for point in self.points:
            by = "" if point.tool == "graphport" else next((x.setting for x in ours if x.is_over(point)), "NONE")
            over += by not in {"", "NONE"}
            took, size = point.took, point.path.stat().st_size
            tell(
                self.path.stem, point.tool, point.setting, f"{point.snr:.1f}", f"{point.exact:.1f}",
                f"{100 * point.agreement:.1f} %", f"{point.speed:.2f}x", f"{size / 1024:.0f}", f"{took['cpu_s']:.1f}",
                f"{took['peak_mb']:.0f} (+{took['peak_mb'] - took['before_mb']:.0f})", by and f"under: {by}",
            )  # fmt: skip
        return over, len(self.points) - len(ours)


def main() -> None:
    """Print the table as Markdown, net by net, and how many points of peers are dominated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", type=Path, help="make environments of the tools below this folder, and use them")
    parser.add_argument("--python", action="append", default=[], help="TOOL=INTERPRETER that has the tool; repeatable")
    parser.add_argument("--tool", action="append", help="besides graphport only this one; repeatable")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("nets", nargs="+")
    given = parser.parse_args()
    asked = [tool for tool in NEEDS if tool in (given.tool or [tool])]
    pythons = {} if given.peers is None else environments(given.peers, asked)
    pythons |= dict(stated.split("=", 1) for stated in given.python)
    tell(*HEADINGS)
    tell(*["---"] * len(HEADINGS))
    counts: list[str] = []
    for stated in given.nets:
        with TemporaryDirectory() as folder:
            net = Net(stated, Path(folder), pythons, given.turns)
            for tool, setting in PEERS:
                if tool in (given.tool or [tool]):
                    net.run(tool, setting, setting)
            net.time()
            near = max((point.snr for point in net.points), default=None)
            fast = max((point.speed for point in net.points), default=None)
            goals: list[tuple[str, dict[str, Any]]] = []
            if near is not None and fast is not None:
                latency = f"{1 / fast:.3f}x"
                goals = [
                    ("as fast as the peers", {"max_latency": latency}),
                    ("as near and as fast as the peers", {"min_snr": round(near, 2), "max_latency": latency}),
                ]
            for setting, settings in (*OURS, *goals):
                net.run("graphport", setting, json.dumps(settings))
            net.time()
            over, many = net.tell()
            counts.append(f"{net.path.stem}: over {over} of {many} points of peers")
    sys.stdout.write("\n" + "\n".join(counts) + "\n")


if __name__ == "__main__":
    main()

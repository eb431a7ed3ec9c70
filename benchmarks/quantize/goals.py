"""Quantize nets with random goals: each must be met on unseen samples, or end with exit code 1 and the best values.

python benchmarks/quantize/goals.py --count 30 --rows rows.json NET.onnx=CALIBRATION.npz,TEST.npz[,weights]…

Goals are drawn from the result of `--front` for a net: a signal-to-noise ratio, a time relative to the source, a size,
or two or three of them, some within the front and some beyond it. Each goes to the command line, and the written file
is measured: the signal-to-noise ratio of ONNX Runtime on the test samples, the time alternating with the source, its
bytes. A goal counts as met if the test samples meet it exactly and the time within 10 %, the noise of timing.

Each command may take `--each` seconds; no command starts after `--minutes`. Goals depend on their number and the front
of their net alone; fronts and rows are saved in `--rows`, and a repeated command continues after them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

SLACK_DB, SLACK_TIME = 0.0, 1.1
TURNS = 15
MISSED, NOT_DONE = "missed and not told", "not done in time"
HEADINGS = ("net", "goals", "exit", "SNR", "told of others", "time", "bytes", "")
WEIGHTS = ("--weights-only", "--weight-bits", "4", "--block", "32")


def session(path: Path) -> Any:
    """Return a session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def quantize(
    net: Path, target: Path, calibration: Path, options: list[str], seconds: float
) -> tuple[int, dict[str, Any]] | None:
    """Return the exit code and the document of `--json`; `None` after a timeout."""
    command = [sys.executable, "-m", "graphport", "quantize", str(net), str(target), "--calibration", str(calibration)]
    asked = [*options, "--json", "--no-latency", "--no-verify"]
    try:
        ended = subprocess.run([*command, *asked], capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    if not ended.stdout.strip():
        raise SystemExit(f"{' '.join([*command, *asked])}\nends with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.returncode, json.loads(ended.stdout)


def measured(net: Path, target: Path, x: Any, batch: int) -> dict[str, float]:
    """Return the signal-to-noise ratio on all of `x`, the time of a batch relative to the source, and the bytes."""
    source, made = session(net), session(target)
    name = source.get_inputs()[0].name
    signal = noise = 0.0
    for start in range(0, len(x), batch):
        fed = {name: x[start : start + batch]}
        a, b = (np.asarray(s.run(None, fed)[0], np.float64) for s in (source, made))
        signal, noise = signal + float(np.sum(a**2)), noise + float(np.sum((a - b) ** 2))
    fed = {name: x[:batch]}
    ratios: list[float] = []
    for _ in range(TURNS):
        spent: list[float] = []
        for each in (source, made):
            started = time.process_time()
            for _ in range(6):
                each.run(None, fed)
            spent.append(time.process_time() - started)
        ratios.append(spent[1] / max(spent[0], 1e-9))
    return {
        "snr": 10 * float(np.log10(signal / max(noise, 1e-30))),
        "latency": sorted(ratios)[TURNS // 2],
        "bytes": float(target.stat().st_size),
    }


def drawn(front: list[dict[str, Any]], random: np.random.Generator) -> dict[str, float]:
    """Return one to three goals; about every third is beyond the front."""
    names = [
        str(name) for name in random.choice(["snr", "latency", "bytes"], int(random.integers(1, 4)), replace=False)
    ]
    point = front[int(random.integers(len(front)))]
    strain = float(random.uniform(0.75, 1.12))
    found: dict[str, float] = {}
    for name in names:
        match name:
            case "snr":
                found[name] = round(point["snr_db"] - 3 + 6 * (strain - 0.75) / 0.37, 1)
            case "latency":
                found[name] = round(point["latency"] * (2 - strain), 3)
            case _:
                found[name] = int(point["bytes"] * (2 - strain))
    return found


def options_of(goals: dict[str, float]) -> list[str]:
    """Return the goals as command line options."""
    words = {"snr": ("--min-snr", "{}"), "latency": ("--max-latency", "{}x"), "bytes": ("--max-bytes", "{:.0f}")}
    return [part for name, value in goals.items() for part in (words[name][0], words[name][1].format(value))]


def missed(goals: dict[str, float], seen: dict[str, float]) -> list[str]:
    """Return the goals that the file does not meet on the test samples."""
    found = {
        "snr": seen["snr"] >= goals.get("snr", -np.inf) - SLACK_DB,
        "latency": seen["latency"] <= goals.get("latency", np.inf) * SLACK_TIME,
        "bytes": seen["bytes"] <= goals.get("bytes", np.inf),
    }
    return [name for name, is_met in found.items() if not is_met]


class Asked:
    """The goals of a run and their results."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.target = given, folder / "made.onnx"
        self.file: Path | None = given.rows
        known: dict[str, Any] = {"fronts": {}, "rows": {}}
        if self.file is not None and self.file.exists():
            known = json.loads(self.file.read_text(encoding="utf-8"))
        self.fronts: dict[str, list[dict[str, Any]]] = known["fronts"]
        self.slow: set[str] = set()
        self.rows: dict[str, dict[str, Any]] = known["rows"]

    def row(self, number: int) -> dict[str, Any]:
        """Return the result of one set of goals, computed unless it is saved."""
        if str(number) in self.rows:
            return self.rows[str(number)]
        row = self._made(number)
        if row["verdict"] != NOT_DONE:
            self.rows[str(number)] = row
        if self.file is not None:
            text = json.dumps({"fronts": self.fronts, "rows": self.rows}, indent=1)
            self.file.write_text(text, encoding="utf-8")
        return row

    def _made(self, number: int) -> dict[str, Any]:
        stated = self.given.nets[number % len(self.given.nets)]
        net, _, data = stated.partition("=")
        calibration, test, *kind = data.split(",")
        more = [*WEIGHTS] if kind else []

        def made(options: list[str]) -> tuple[int, dict[str, Any]] | None:
            return quantize(Path(net), self.target, Path(calibration), [*more, *options], self.given.each)

        row: dict[str, Any] = {"net": Path(net).stem, "asked": "--front", "verdict": NOT_DONE}
        if net in self.slow:
            return row
        if net not in self.fronts:
            found = made(["--front"])
            if found is None:
                self.slow.add(net)
                return row
            self.fronts[net] = found[1]["front"]
        goals = drawn(self.fronts[net], np.random.default_rng([self.given.seed, number]))
        row["asked"] = " ".join(options_of(goals))
        self.target.unlink(missing_ok=True)
        found = made(options_of(goals))
        if found is None:
            return row
        code, report = found
        if not self.target.exists():
            return {**row, "exit": code, "verdict": "told, nothing written" if code == 1 else MISSED}
        with np.load(test) as arrays:
            seen = measured(Path(net), self.target, arrays[arrays.files[0]], self.given.batch)
        gone = missed(goals, seen)
        verdict = "told" if code == 1 else "met" if code == 0 and not gone else MISSED
        told = report["snr_range_db"] if report["chosen"] is None else report["chosen"]["snr_range_db"]
        return {**row, "exit": code, "seen": seen, "told": told, "verdict": verdict, "missed": gone}


def line(row: dict[str, Any]) -> str:
    """Return a line of a Markdown table."""
    shown, told = ["", "", "", ""], row.get("told")
    if seen := row.get("seen"):
        ends = "" if told is None else f"{told[0]:.1f} to {told[1]:.1f}"
        shown = [f"{seen['snr']:.2f} dB", ends, f"{seen['latency']:.3f}", f"{seen['bytes']:.0f}"]
    verdict = " ".join([row["verdict"], *row.get("missed", [])]).strip()
    return f"| {' | '.join([row['net'], row['asked'], str(row.get('exit', '')), *shown, verdict])} |\n"


def main() -> None:
    """Print a line for each set of goals, and how many are met, reported as unreachable, or neither."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=60, help="nothing begins later")
    parser.add_argument("--each", type=float, default=600, help="seconds that one command may take")
    parser.add_argument("--rows", type=Path, help="JSON of what was found, which the same command goes on from")
    parser.add_argument("nets", nargs="+")
    given = parser.parse_args()
    ends = time.monotonic() + 60 * given.minutes
    sys.stdout.write(f"| {' | '.join(HEADINGS)} |\n| {' | '.join(['---'] * len(HEADINGS))} |\n")
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        asked = Asked(given, Path(folder))
        for number in range(given.first, given.count):
            if str(number) not in asked.rows and time.monotonic() > ends:
                counts[NOT_DONE] += 1
                continue
            row = asked.row(number)
            counts[row["verdict"]] += 1
            sys.stdout.write(line(row))
            sys.stdout.flush()
    sys.stdout.write(f"\n{dict(counts)}\n")


if __name__ == "__main__":
    main()

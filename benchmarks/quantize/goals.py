"""Random goals on nets: met on samples that nobody has seen, or told with exit code 1 and the best that can be reached.

python benchmarks/quantize/goals.py --count 30 NET.onnx=CALIBRATION.npz,TEST.npz[,weights]…

Goals are drawn from what `--front` finds for a net: a signal to noise, a time beside the source, a size, or two or
three of them at once, some within the front and some beyond it. Each is asked for by the command line, and held
against the file: the signal as ONNX Runtime runs it on the test samples, its time in turns with the source, its bytes.
A goal counts as met on unseen samples without any slack, and in time within a tenth: timing has that noise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

SLACK_DB, SLACK_TIME = 0.0, 1.1
TURNS = 15
WEIGHTS = ("--weights-only", "--weight-bits", "4", "--block", "32")


def session(path: Path) -> Any:
    """A session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def quantize(net: Path, target: Path, calibration: Path, options: list[str]) -> tuple[int, dict[str, Any]]:
    """Exit code, and what `--json` tells."""
    command = [sys.executable, "-m", "graphport", "quantize", str(net), str(target), "--calibration", str(calibration)]
    asked = [*options, "--json", "--no-latency", "--no-verify"]
    ended = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    return ended.returncode, json.loads(ended.stdout)


def measured(net: Path, target: Path, x: Any, batch: int) -> dict[str, float]:
    """Signal to noise on all of `x`, time beside the source for a run of a batch, bytes."""
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
    """One to three goals; about every third is beyond the front."""
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
    """As the command line takes them."""
    words = {"snr": ("--min-snr", "{}"), "latency": ("--max-latency", "{}x"), "bytes": ("--max-bytes", "{:.0f}")}
    return [part for name, value in goals.items() for part in (words[name][0], words[name][1].format(value))]


def missed(goals: dict[str, float], seen: dict[str, float]) -> list[str]:
    """The goals that the file does not meet on samples that nobody has seen."""
    found = {
        "snr": seen["snr"] >= goals.get("snr", -np.inf) - SLACK_DB,
        "latency": seen["latency"] <= goals.get("latency", np.inf) * SLACK_TIME,
        "bytes": seen["bytes"] <= goals.get("bytes", np.inf),
    }
    return [name for name, is_met in found.items() if not is_met]


def main() -> None:
    """Print a line for each set of goals, and how many are met, told, or neither."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("nets", nargs="+")
    given = parser.parse_args()
    random = np.random.default_rng(given.seed)
    counts = {"met": 0, "told": 0, "missed and not told": 0}
    sys.stdout.write("| net | goals | exit | SNR | time | bytes | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
    with TemporaryDirectory() as folder:
        fronts: dict[str, list[dict[str, Any]]] = {}
        for number in range(given.count):
            net, _, data = given.nets[number % len(given.nets)].partition("=")
            calibration, test, *kind = data.split(",")
            more = [*WEIGHTS] if kind else []
            target = Path(folder) / "made.onnx"
            if net not in fronts:
                fronts[net] = quantize(Path(net), target, Path(calibration), [*more, "--front"])[1]["front"]
            goals = drawn(fronts[net], random)
            asked = " ".join(options_of(goals))
            target.unlink(missing_ok=True)
            code, _ = quantize(Path(net), target, Path(calibration), [*more, *options_of(goals)])
            if not target.exists():
                sys.stdout.write(f"| {Path(net).stem} | {asked} | {code} | nothing was written | | | |\n")
                continue
            with np.load(test) as arrays:
                seen = measured(Path(net), target, arrays[arrays.files[0]], given.batch)
            gone = missed(goals, seen)
            verdict = "told" if code == 1 else "met" if code == 0 and not gone else "missed and not told"
            counts[verdict] += 1
            shown = f"{seen['snr']:.2f} dB | {seen['latency']:.3f} | {seen['bytes']:.0f}"
            sys.stdout.write(f"| {Path(net).stem} | {asked} | {code} | {shown} | {verdict} {' '.join(gone)} |\n")
            sys.stdout.flush()
    sys.stdout.write(f"\n{counts}\n")


if __name__ == "__main__":
    main()

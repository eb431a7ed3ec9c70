"""A table of quantizers on nets: signal to noise, agreement, time and memory, all run in one go.

python benchmarks/quantize/table.py --calibration samples.npz --test test.npz NET.onnx…

The `.npz` files hold inputs by name; the test file may hold labels as `labels`. Tools that are not installed are left
out. SNR is 10 log10(sum fp32² / sum (quantized - fp32)²) over all outputs of the test samples, by ONNX Runtime: "off"
with every node computed as it stands, "on" as it runs by default, on the processor's integer kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

RUNS = (
    ("graphport", "fast"),
    ("graphport", "balanced"),
    ("graphport", "best"),
    ("onnxruntime", "MinMax"),
    ("onnxruntime", "Percentile"),
    ("onnxruntime", "Entropy"),
    ("onnxruntime", "Percentile-reduced"),
    ("nncf", "default"),
    ("nncf", "minmax"),
    ("onnxsim", "minmax"),
    ("onnxsim", "percentile"),
)
HEADINGS = ("net", "tool", "setting", "SNR off", "SNR on", "agree", "top-1", "CPU s", "wall s", "peak MB", "speed")
BATCH = 50


def session(path: Path, *, optimize: bool = True) -> Any:
    """A session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def outputs(path: Path, data: dict[str, Any], *, optimize: bool) -> Any:
    """The first output for all samples."""
    made = session(path, optimize=optimize)
    count = len(next(iter(data.values())))
    parts = [
        made.run(None, {name: x[start : start + BATCH] for name, x in data.items()})[0]
        for start in range(0, count, BATCH)
    ]
    return np.concatenate(parts)


def snr(expected: Any, found: Any) -> float:
    """Signal to noise in dB."""
    x, y = expected.astype(np.float64), found.astype(np.float64)
    return float(10 * np.log10(np.sum(x**2) / np.sum((x - y) ** 2)))


def speed(net: Path, result: Path, data: dict[str, Any]) -> float:
    """How many times faster 16 samples run, in processor time: the median of rounds that take turns."""
    few = {name: x[:16] for name, x in data.items()}
    made = [session(net), session(result)]
    ratios: list[float] = []
    for _ in range(9):
        spent: list[float] = []
        for one in made:
            started = time.process_time()
            for _ in range(10):
                one.run(None, few)
            spent.append(time.process_time() - started)
        ratios.append(spent[0] / spent[1])
    return median(ratios)


def row(net: Path, tool: str, setting: str, calibration: Path, test: dict[str, Any], labels: Any) -> list[str]:
    """One line of the table."""
    with TemporaryDirectory() as folder:
        result = Path(folder) / "result.onnx"
        command = [sys.executable, str(Path(__file__).with_name("tools.py")), tool, setting, str(net), str(calibration)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        ended = subprocess.run([*command, str(result)], capture_output=True, text=True, env=environment, check=False)
        if ended.returncode or not result.exists():
            return [net.stem, tool, setting, "failed", (ended.stderr.strip().splitlines() or [""])[-1][:60]]
        took = json.loads(ended.stdout.strip().splitlines()[-1])
        expected, said = outputs(net, test, optimize=False), outputs(result, test, optimize=False)
        computed = outputs(result, test, optimize=True)
        agreement = np.mean(said.argmax(axis=1) == expected.argmax(axis=1))
        right = "" if labels is None else f"{np.mean(said.argmax(axis=1) == labels):.3f}"
        return [
            net.stem, tool, setting, f"{snr(expected, said):.1f}", f"{snr(expected, computed):.1f}",
            f"{100 * agreement:.1f} %", right, f"{took['cpu_s']:.1f}", f"{took['wall_s']:.1f}",
            f"{took['peak_mb']:.0f} (+{took['peak_mb'] - took['before_mb']:.0f})", f"{speed(net, result, test):.2f}x",
        ]  # fmt: skip


def tell(cells: list[str]) -> None:
    """A line of a Markdown table, at once."""
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table as Markdown, line by line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calibration", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--tool", action="append", help="only this one; repeatable")
    parser.add_argument("nets", type=Path, nargs="+")
    given = parser.parse_args()
    with np.load(given.test) as arrays:
        test = {name: arrays[name] for name in arrays.files}
    labels = test.pop("labels", None)
    tell([*HEADINGS])
    tell(["---"] * len(HEADINGS))
    for net in given.nets:
        for tool, setting in RUNS:
            if find_spec(tool) is not None and tool in (given.tool or [tool]):
                tell(row(net, tool, setting, given.calibration, test, labels))


if __name__ == "__main__":
    main()

"""Compare the latency in ncnn of pnnx's file and graphport's file for the networks of `nets.py`.

python -m benchmarks.ncnn.latency FOLDER [TURNS]
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import graphport as gp

_QUICKEST = 10


class _Run:
    """A file in ncnn, on one thread, in float32."""

    def __init__(self, path: Path, x: np.ndarray[Any, Any]) -> None:
        import ncnn

        made: Any = ncnn  # no type stubs
        self.net, self.blob = made.Net(), made.Mat(np.ascontiguousarray(x[0])).clone()
        self.net.opt.num_threads = 1
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
            setattr(self.net.opt, option, False)
        if self.net.load_param(str(path)) or self.net.load_model(str(path.with_suffix(".bin"))):
            message = f"ncnn does not load {path}"
            raise SystemExit(message)
        self.names = self.net.input_names()[0], self.net.output_names()[0]
        self.times: list[float] = []

    def turn(self) -> np.ndarray[Any, Any]:
        start = time.process_time()
        extractor = self.net.create_extractor()
        extractor.input(self.names[0], self.blob)
        found = np.array(extractor.extract(self.names[1])[1])
        self.times.append(time.process_time() - start)
        return found

    @property
    def milliseconds(self) -> float:
        return statistics.median(sorted(self.times)[:_QUICKEST]) * 1e3


def row(place: Path, turns: int) -> str:
    """Return a line of the table: times, maximum error relative to PyTorch, layers."""
    given = np.load(place / "data.npz")
    ours, theirs = place / "ours.param", place / "net.ncnn.param"
    gp.convert(place / "net.pnnx.param", ours, format="ncnn", optimize=True, verify=False)
    runs = [_Run(path, given["x"]) for path in (theirs, ours)]
    for turn in range(turns):
        for run in runs if turn % 2 else runs[::-1]:
            run.turn()
    apart = [float(np.abs(run.turn().reshape(given["y"].shape) - given["y"]).max()) for run in runs]
    layers = [len(path.read_text().splitlines()) - 2 for path in (theirs, ours)]
    times = [f"{run.milliseconds:.2f}" for run in runs]
    return f"| {place.name} | {times[0]} | {times[1]} | {max(apart):.1e} | {layers[0]} | {layers[1]} |"


def main(folder: Path, turns: int = 150) -> None:
    head = "| net | pnnx, ms | ours, ms | apart from PyTorch | layers of pnnx | ours |\n|---|---|---|---|---|---|"
    places = sorted(each for each in folder.iterdir() if (each / "data.npz").exists())
    sys.stdout.write("\n".join([head, *(row(place, turns) for place in places), ""]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))

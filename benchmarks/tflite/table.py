"""Convert ONNX nets to TFLite with graphport and onnx2tf, and run them in LiteRT; see README.md."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.runtimes.inputs import random_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

_FAULTS = (DiagnosticError, RuntimeError, ValueError, TypeError, LookupError, OSError)
_SAMPLES, _QUICKEST, _SEVERE = 8, 10, 4
_IMAGES = "calibration_image_sample_data_20x128x128x3_float32.npy"


@dataclass
class File:
    """A file in LiteRT, on one thread."""

    path: Path
    given: list[Array]
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        from ai_edge_litert.interpreter import Interpreter

        made: Any = Interpreter
        self.run: Any = made(str(self.path), num_threads=1)
        for port, array in zip(self.run.get_input_details(), self.given, strict=True):
            if tuple(port["shape"]) != array.shape:
                self.run.resize_tensor_input(port["index"], array.shape)
        self.run.allocate_tensors()

    def turn(self) -> list[Array]:
        for port, array in zip(self.run.get_input_details(), self.given, strict=True):
            self.run.set_tensor(port["index"], array)
        start = time.process_time()
        self.run.invoke()
        self.times.append(time.process_time() - start)
        return [self.run.get_tensor(port["index"]) for port in self.run.get_output_details()]

    def row(self, wanted: Sequence[Array]) -> str:
        noise = snr([matched(found, wanted) for found in self.turn()], wanted)
        nodes = list(gp.load(self.path, raw=True).graph)
        turned = sum(node.op_type == "TRANSPOSE" and not node.operands[0].is_constant for node in nodes)
        milliseconds = statistics.median(sorted(self.times)[:_QUICKEST]) * 1e3
        return f"{noise:.0f} dB, {milliseconds:.2f} ms, {turned}, {self.path.stat().st_size // 1024} KB"


def matched(found: Array, wanted: Sequence[Array]) -> Array:
    """Return a result with channels first, if it has them last."""
    if any(found.shape == each.shape for each in wanted) or found.ndim < 3:
        return found
    return np.moveaxis(found, -1, 1)


def snr(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """Return the minimum signal-to-noise ratio of all results; their order may differ if shapes identify them."""
    rest, least = list(found), 300.0
    for each in wanted:
        at = next((place for place, other in enumerate(rest) if other.shape == each.shape), None)
        if at is None:
            return -999.0
        error = float(np.square(rest.pop(at).astype(float) - each.astype(float)).sum())
        size = float(np.square(each.astype(float)).sum())
        least = min(least, 300.0 if not error else 10 * float(np.log10(max(size, 1e-30) / error)))
    return least


def reason(error: BaseException) -> str:
    told = error.diagnostics[0].message if isinstance(error, DiagnosticError) else f"{type(error).__name__}: {error}"
    return " ".join(told.split())[:90].replace("|", "/")


def ours(net: Path, shapes: dict[str, list[int]], samples: list[dict[str, Array]], folder: Path) -> dict[str, str]:
    """Write the files with graphport. Return the reasons for missing files by kind."""
    refused: dict[str, str] = {}
    model = gp.load(net, shapes=shapes)
    for kind in ("float", "int8"):
        try:
            made = model if kind == "float" else gp.quantize(model, samples, target="tflite", preset="fast")
            gp.save(getattr(made, "model", made), folder / f"{kind}.tflite")
        except _FAULTS as error:
            refused[kind] = "refused: " + reason(error)
    return refused


def onnx2tf(program: str, net: Path, samples: list[dict[str, Array]], folder: Path, limit: float) -> dict[str, str]:
    """Write the files with onnx2tf. Return the reasons for missing files by kind."""
    random = np.random.default_rng(0)
    np.save(folder / _IMAGES, random.random((20, 128, 128, 3), dtype=np.float32))
    options = ["-i", str(net), "-o", "out", "-n", "-oiqt", "-ois"]
    options += [f"{name}:{','.join(map(str, array.shape))}" for name, array in samples[0].items()]
    for place, name in enumerate(samples[0]):
        stacked = (
            np.concatenate([last(sample[name]) for sample in samples]) if samples[0][name].ndim else samples[0][name]
        )
        np.save(folder / f"x{place}.npy", stacked)
        options += ["-cind", name, f"x{place}.npy", "0", "1"]
    start, told = time.monotonic(), ""
    for more in (["-nuo", "-nuonag"], []):
        left = limit - (time.monotonic() - start)
        try:
            run = subprocess.run([program, *options, *more], cwd=folder, capture_output=True, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            told = f"no end after {limit:.0f} s"
            break
        if not run.returncode:
            break
        said = (run.stdout + run.stderr).decode(errors="replace").splitlines()
        lines = [line for line in said if "Error:" in line and "TIMEOUT" not in line]
        told = "error: " + (lines[-1].strip()[:90].replace("|", "/") if lines else "without a word")
    refused: dict[str, str] = {}
    for kind, stem in (("float", "*_float32.tflite"), ("int8", "*_integer_quant.tflite")):
        found = [each for each in (folder / "out").glob(stem) if "int16" not in each.name and "full" not in each.name]
        if found:
            found[0].rename(folder / f"{kind}.tflite")
        else:
            refused[kind] = told or "no file"
    return refused


def last(array: Array) -> Array:
    """Move the channel axis last."""
    return np.moveaxis(array, 1, -1) if array.ndim >= 3 else array


def asked(path: Path, given: dict[str, Array]) -> list[Array]:
    """Return the arrays of the file's inputs, matched by name or order, with channels last if its shape requires it."""
    from ai_edge_litert.interpreter import Interpreter

    made: Any = Interpreter
    rest = dict(given)
    found: list[Array] = []
    for port in made(str(path)).get_input_details():
        name = port["name"].removeprefix("serving_default_").partition(":")[0]
        key = name if name in rest else next(iter(rest))
        array = rest.pop(key)
        shape = tuple(port["shape"])
        found.append(
            (array if array.shape == shape or last(array).shape != shape else last(array)).astype(port["dtype"])
        )
    return found


def row(net: Path, shapes: dict[str, list[int]], program: str, limit: float, turns: int) -> str:
    import onnxruntime

    made: Any = onnxruntime
    graph = gp.load(net, shapes=shapes).graph
    samples = [{name: np.asarray(x) for name, x in random_inputs(graph, seed).items()} for seed in range(_SAMPLES)]
    options = made.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, _SEVERE
    wanted = made.InferenceSession(str(net), options).run(None, samples[0])
    cells: list[str] = []
    with TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("ours", "theirs")]
        for folder in folders:
            folder.mkdir()
        refused = [ours(net, shapes, samples, folders[0]), onnx2tf(program, net, samples, folders[1], limit)]
        for kind in ("float", "int8"):
            files: list[File | str] = []
            for folder, told in zip(folders, refused, strict=True):
                path = folder / f"{kind}.tflite"
                try:
                    files.append(told[kind] if kind in told else File(path, asked(path, samples[0])))
                except _FAULTS as error:
                    files.append("not run: " + reason(error))
            runs = [each for each in files if isinstance(each, File)]
            for turn in range(turns):
                for each in runs if turn % 2 else runs[::-1]:
                    each.turn()
            cells += [each if isinstance(each, str) else each.row(wanted) for each in files]
    return f"| {net.stem} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nets", nargs="+", help="NET.onnx, or NET.onnx@x=1,3,224,224 where extents are open")
    parser.add_argument("--onnx2tf", required=True)
    parser.add_argument("--limit", type=float, default=420)
    parser.add_argument("--turns", type=int, default=20)
    told = parser.parse_args()
    head = "| net | graphport, float | onnx2tf, float | graphport, int8 | onnx2tf, int8 |\n|---|---|---|---|---|\n"
    sys.stdout.write(head)
    for each in told.nets:
        net, *shapes = each.split("@")
        known = {name: [int(n) for n in dims.split(",")] for name, dims in (shape.split("=") for shape in shapes)}
        try:
            line = row(Path(net), known, told.onnx2tf, told.limit, told.turns)
        except Exception as error:  # noqa: BLE001  any exception of a runtime is reported in the row
            line = f"| {Path(net).stem} | {reason(error)} | | | |"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

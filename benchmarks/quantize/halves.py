"""Cast models to half precision: whether the file loads, its signal-to-noise ratio and its size.

python benchmarks/quantize/halves.py [--to bfloat16] FILE.onnx|FOLDER…

Each model is cast without samples in a separate process, written, loaded by ONNX Runtime and compared with its source
on random inputs, or on those of `NAME.a.npz` in its folder (NAME may end before the last `_`; `in0`, `in1`, …). The
ratio is that of the worst floating output; "float32" counts the nodes that were not cast. Models that ONNX Runtime does
not run are left out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

import graphport as gp
from graphport.runtimes.inputs import other_random_inputs, random_inputs

if TYPE_CHECKING:
    from graphport.quantization.half.cast import To

SECONDS = 300
_MOST_SIZES = 32
_LEAST = 2.0**-14
HEADINGS = ("model", "nodes cast", "float32", "SNR", "kB before", "kB after", "note")


def session(path: Path) -> Any:
    """Return a session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def run_of(model: gp.Model, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the stored or random inputs of the model, and its outputs.

    Small images may give zeros or float16 subnormals, which prove nothing: then larger inputs are tried.
    """
    names = (path.stem, path.stem.rpartition("_")[0])
    beside = next((x for name in names if name and (x := path.with_name(f"{name}.a.npz")).exists()), None)
    made = session(path)
    if beside is not None:
        with np.load(beside) as arrays:
            inputs = {value.name: arrays[f"in{number}"] for number, value in enumerate(model.graph.inputs)}
        return inputs, made.run(None, inputs)
    inputs = random_inputs(model.graph)
    expected = made.run(None, inputs)
    for others in () if _says_something(expected) else islice(other_random_inputs(model.graph), _MOST_SIZES):
        try:
            found = made.run(None, others)
        except Exception:  # noqa: BLE001, S112  sizes that do not match
            continue
        if _says_something(found):
            return others, found
    return inputs, expected


def _says_something(outputs: list[Any]) -> bool:
    """Return whether an output has a float that is normal in float16, or no output is floating."""
    floats = [x for x in outputs if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    return not floats or any(np.any(np.abs(x) >= _LEAST) for x in floats)


def snr(expected: Any, found: Any) -> float:
    """Return the signal-to-noise ratio in dB; -inf if infinities or NaN differ in position."""
    if not isinstance(expected, np.ndarray) or expected.dtype.kind != "f" or not expected.size:
        return np.inf
    x, y = expected.astype(np.float64), np.asarray(found, np.float64)
    finite = np.isfinite(x)
    if not np.array_equal(finite, np.isfinite(y)):
        return -np.inf
    noise = float(np.sum((x[finite] - y[finite]) ** 2))
    return np.inf if not noise else float(10 * np.log10(max(float(np.sum(x[finite] ** 2)), 1e-30) / noise))


def row(path: Path, to: To) -> list[str] | None:
    """Return one line of the table; `None` if ONNX Runtime does not run the source."""
    try:
        model = gp.load(path)
        inputs, expected = run_of(model, path)
    except Exception:  # noqa: BLE001  any exception: the source does not run
        return None
    size = path.stat().st_size
    with TemporaryDirectory() as folder:
        target = Path(folder) / "half.onnx"
        try:
            made = gp.cast(model, to)
            gp.save(made, target)
            report = made.report
            halves = session(target)
            fed = {name: _as_read(inputs[name], wanted) for name, wanted in _types(halves).items()}
            found = halves.run(None, fed)
        except Exception as error:  # noqa: BLE001  a failure is a row of the table
            return [path.stem, "", "", "failed", f"{size / 1024:.0f}", "", str(error).splitlines()[0][:90]]
        worst = min((snr(x, y) for x, y in zip(expected, found, strict=True)), default=np.inf)
        near = "equal" if worst == np.inf else f"{worst:.1f}"
        note = "" if _says_something(expected) else "hardly more than zeros"
        after = target.stat().st_size
        kept = 0 if report is None else len(report.kept)
        cast = 0 if report is None else report.cast
        return [path.stem, str(cast), str(kept), near, f"{size / 1024:.0f}", f"{after / 1024:.0f}", note]


def _types(made: Any) -> dict[str, str]:
    return {value.name: value.type for value in made.get_inputs()}


def _as_read(x: Any, wanted: str) -> Any:
    return x.astype(np.float16) if wanted == "tensor(float16)" else x


def main() -> None:
    """Print the table as Markdown, line by line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", choices=("float16", "bfloat16"), default="float16")
    parser.add_argument("--line", action="store_true", help="one model, in this process, without headings")
    parser.add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    files = [path for each in given.files for path in (sorted(each.rglob("*.onnx")) if each.is_dir() else [each])]
    if given.line:
        cells = row(files[0], given.to)
        sys.stdout.write("" if cells is None else f"| {' | '.join(cells)} |\n")
        return
    sys.stdout.write(f"| {' | '.join(HEADINGS)} |\n| {' | '.join(['---'] * len(HEADINGS))} |\n")
    for path in files:
        command = [sys.executable, __file__, "--line", "--to", given.to, str(path)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            failed = f"| {path.stem} | | | failed | | | exit code {ended.returncode} |\n" if ended.returncode else ""
            sys.stdout.write(failed or ended.stdout)
        except subprocess.TimeoutExpired:
            sys.stdout.write(f"| {path.stem} | | | | | | not done after {SECONDS} s |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

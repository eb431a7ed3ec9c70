"""Count the graphs with open height and width that each format writes and its runtime computes at three sizes.

    python benchmarks/open_images.py [--only REGEX] [--target tflite,ncnn,tract,ir] [--verbose]

The oracle is ONNX Runtime on the source; each file is run by the native runtime of its format.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.formats import open_images

_TARGETS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "tflite": ("m.tflite", {}, "graphport.formats.tflite.runtime_process", "_Interpreted"),
    "ncnn": ("m.ncnn.param", {}, "graphport.formats.ncnn.runtime_process", "_Net"),
    "tract": ("m.nnef.tgz", {"flavour": "tract"}, "graphport.formats.nnef.runtime_process", "_Runnable"),
    "ir": ("m.xml", {}, "graphport.formats.openvino.runtime_process", "_Compiled"),
}
_TOLERANCE = 1e-4


def main() -> None:
    """Print a row for each graph and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default=",".join(_TARGETS))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    targets = options.target.split(",")
    right = dict.fromkeys(targets, 0)
    count = 0
    for case in open_images.graphs():
        if not re.search(options.only, case.name):
            continue
        count += 1
        row = []
        for target in targets:
            status = _in_process(case, target)
            right[target] += status == "right"
            row.append(status if options.verbose else status.split(":")[0])
        sys.stdout.write(" ".join((f"{case.name:26}", *(f"{cell:9}" for cell in row))) + "\n")
        sys.stdout.flush()
    sys.stdout.write(", ".join(f"{target} {n} of {count}" for target, n in right.items()) + "\n")


def _in_process(case: open_images.Case, target: str) -> str:
    """Measure in a child process: a runtime may end its process."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send, args=(case, target, sender))
    child.start()
    sender.close()
    try:
        status = receiver.recv() if receiver.poll(120) else "wrong: the runtime does not finish"
    except EOFError:
        status = "wrong: the runtime crashes"
    child.kill()
    child.join()
    return status


def _send(case: open_images.Case, target: str, sender: Any) -> None:
    sender.send(_measure(case, target))


def _measure(case: open_images.Case, target: str) -> str:
    import importlib

    import graphport
    from graphport.runtimes.serve import RefusedError, Settings

    name, options, module, kind = _TARGETS[target]
    with tempfile.TemporaryDirectory() as folder:
        source, written = Path(folder) / "m.onnx", Path(folder) / name
        source.write_bytes(case.model.SerializeToString())
        try:
            graphport.save(graphport.load(source), written, **options)
        except graphport.DiagnosticError as error:
            return f"refused: {error}"
        try:
            runtime = getattr(importlib.import_module(module), kind)(str(written), Settings(threads=1, is_strict=True))
        except (RefusedError, RuntimeError, ValueError) as error:
            return f"rejected: {error}"
        for x, expected in open_images.runs(case):
            height, width = x.shape[2:]
            try:
                found = np.asarray(runtime.run([x], {})[0][0])
            except (RefusedError, RuntimeError, ValueError) as error:
                return f"failed: at {height}x{width}: {error}"
            if found.shape != expected.shape:
                return f"wrong: at {height}x{width}: {found.shape}, expected {expected.shape}"
            if not np.allclose(found, expected, _TOLERANCE, _TOLERANCE):
                return f"wrong: at {height}x{width}: differs by {np.abs(found - expected).max()}"
    return "right"


if __name__ == "__main__":
    main()

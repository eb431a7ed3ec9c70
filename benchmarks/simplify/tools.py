"""Run one simplification by one tool in a separate process, and print its cost as a line of JSON.

python tools.py TOOL MODEL.onnx RESULT.onnx

The time covers reading, simplifying and writing; a second time also covers the imports. The script needs no package
except the tool: it runs in any environment that has it.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[str, str], None]


def graphport() -> Work:
    """Simplify without verification, as the other tools do."""
    import graphport as gp

    def work(model: str, target: str) -> None:
        result, _ = gp.simplify(gp.load(model), verify=False)
        gp.save(result, target)

    return work


def onnxsim() -> Work:
    """Run onnxsim with its defaults."""
    import onnx
    import onnxsim as tool  # pyright: ignore[reportMissingImports]

    def work(model: str, target: str) -> None:
        result, _ = tool.simplify(onnx.load(model))
        onnx.save(result, target)

    return work


def onnxslim() -> Work:
    """Run onnxslim with its defaults."""
    import onnx
    import onnxslim as tool  # pyright: ignore[reportMissingImports]

    def work(model: str, target: str) -> None:
        onnx.save(tool.slim(onnx.load(model)), target)

    return work


def onnxscript() -> Work:
    """Run the optimizer of onnxscript with its defaults."""
    import onnxscript  # pyright: ignore[reportMissingImports]
    from onnxscript import optimizer  # pyright: ignore[reportMissingImports]

    def work(model: str, target: str) -> None:
        loaded = onnxscript.ir.load(model)
        optimizer.optimize(loaded)
        onnxscript.ir.save(loaded, target)

    return work


def onnxruntime() -> Work:
    """Run ONNX Runtime's basic optimization level, which writes standard operators only."""
    import onnxruntime as tool

    def work(model: str, target: str) -> None:
        options = tool.SessionOptions()
        options.graph_optimization_level = tool.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = target
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        tool.InferenceSession(model, options, ["CPUExecutionProvider"])

    return work


TOOLS: dict[str, Callable[[], Work]] = {
    "graphport": graphport,
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxscript": onnxscript,
    "onnxruntime": onnxruntime,
}


def main() -> None:
    """Simplify and print processor seconds, with and without imports, and peak megabytes."""
    tool, model, target = sys.argv[1:4]
    logging.disable(logging.WARNING)
    work = TOOLS[tool]()
    started = time.process_time()
    work(model, target)
    ended = time.process_time()
    sys.stdout.write(f"\n{json.dumps({'cpu_s': ended - started, 'whole_s': ended, 'peak_mb': peak()})}\n")


def peak() -> float:
    """Return the peak memory of the process in megabytes, including imports."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss starts with the peak of the parent process.
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

"""One simplification by one tool, in a process of its own: what it took, as a line of JSON.

python tools.py TOOL MODEL.onnx RESULT.onnx

Reading, simplifying and writing are counted, and apart from that the whole with what is imported. It needs nothing but that tool: it runs under
the interpreter of any environment that has it.
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
    """Ours, without verification, as none of the others verifies."""
    import graphport as gp

    def work(model: str, target: str) -> None:
        result, _ = gp.simplify(gp.load(model), verify=False)
        gp.save(result, target)

    return work


def onnxsim() -> Work:
    """onnxsim with its defaults."""
    import onnx
    import onnxsim as tool  # pyright: ignore[reportMissingImports]

    def work(model: str, target: str) -> None:
        result, _ = tool.simplify(onnx.load(model))
        onnx.save(result, target)

    return work


def onnxslim() -> Work:
    """onnxslim with its defaults."""
    import onnx
    import onnxslim as tool  # pyright: ignore[reportMissingImports]

    def work(model: str, target: str) -> None:
        onnx.save(tool.slim(onnx.load(model)), target)

    return work


def onnxscript() -> Work:
    """The optimizer of onnxscript with its defaults."""
    import onnxscript  # pyright: ignore[reportMissingImports]
    from onnxscript import optimizer  # pyright: ignore[reportMissingImports]

    def work(model: str, target: str) -> None:
        loaded = onnxscript.ir.load(model)
        optimizer.optimize(loaded)
        onnxscript.ir.save(loaded, target)

    return work


def onnxruntime() -> Work:
    """ONNX Runtime's basic level, which writes standard operators only."""
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
    """Do the work and print what it took: processor seconds of the work and with all imports, and megabytes."""
    tool, model, target = sys.argv[1:4]
    logging.disable(logging.WARNING)
    work = TOOLS[tool]()
    started = time.process_time()
    work(model, target)
    ended = time.process_time()
    sys.stdout.write(f"\n{json.dumps({'cpu_s': ended - started, 'whole_s': ended, 'peak_mb': peak()})}\n")


def peak() -> float:
    """Megabytes that the process has held at most, with all that was imported."""
    status = Path("/proc/self/status")
    if status.exists():
        # What the system counts as largest begins with the process that started this one.
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

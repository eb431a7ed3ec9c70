"""Convert IR files to ONNX with one tool: `python tools.py TOOL`; reads path pairs and prints results as JSON lines."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_SECONDS = 60


def graphport() -> Callable[[Path, Path], None]:
    """Run `graphport convert --no-verify`."""
    import graphport as gp

    def work(source: Path, target: Path) -> None:
        report = gp.convert(source, target, verify=False)
        if report.unsupported:
            message = f"it says it cannot: {', '.join(report.unsupported)}"
            raise ValueError(message)

    return work


def openvino2onnx() -> Callable[[Path, Path], None]:
    """Run `openvino2onnx SOURCE TARGET`."""
    import openvino2onnx as tool  # pyright: ignore[reportMissingImports]

    return _graphs(tool)


def onnxifier() -> Callable[[Path, Path], None]:
    """Run `onnxify SOURCE TARGET`, which also reads IR files."""
    import onnxifier as tool  # pyright: ignore[reportMissingImports]

    return _graphs(tool)


def _graphs(tool: Any) -> Callable[[Path, Path], None]:
    def work(source: Path, target: Path) -> None:
        graph = tool.convert_graph(str(source), print_passes=False)
        graph.save(str(target), format="protobuf", infer_shapes=False, check=False)

    return work


TOOLS = {"graphport": graphport, "openvino2onnx": openvino2onnx, "onnxifier": onnxifier}


def _too_long(*_: object) -> None:
    message = f"not within {MOST_SECONDS} s"
    raise TimeoutError(message)


def main() -> None:
    """Convert each pair and print the time, and the error if it fails."""
    # The output of a tool is not part of the result.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    work = TOOLS[sys.argv[1]]()
    signal.signal(signal.SIGALRM, _too_long)
    for line in sys.stdin:
        source, target = json.loads(line)
        cpu = time.process_time()
        reason = None
        signal.alarm(MOST_SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                work(Path(source), Path(target))
        except Exception as error:  # noqa: BLE001  any exception of a tool is its result
            reason = f"{type(error).__name__}: {error}"[:300]
        signal.alarm(0)
        answers.write(json.dumps({"cpu_s": time.process_time() - cpu, "reason": reason}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

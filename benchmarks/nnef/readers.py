"""Run tract and the Khronos parser on each file in a separate process, since both can terminate their process.

python readers.py    read lines of JSON, print a line for each
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MOST_SECONDS = 60
_REGISTRIES = ("with_onnx", "with_pulse", "with_tract_extra", "with_tract_transformers")


def tract(path: str, given: str, found: str) -> str:
    """Run a model on the arrays of the file `given`, cast to its declared types, and write the results to `found`."""
    import tract as runtime  # pyright: ignore[reportMissingTypeStubs]

    framework: Any = runtime.nnef()  # pyright: ignore[reportUnknownMemberType]
    for name in _REGISTRIES:
        framework = getattr(framework, name)()
    model = framework.load(path)
    kinds = [str(model.input_fact(place)).split(",")[-1].strip().lower() for place in range(model.input_count())]
    types = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i64": np.int64, "bool": np.bool_}
    runnable = model.into_runnable()
    with np.load(given) as arrays:
        inputs = [arrays[name] for name in arrays.files]
    inputs = [
        np.array(array, types.get(kind, array.dtype), order="C") for array, kind in zip(inputs, kinds, strict=True)
    ]
    outputs = [tensor.to_numpy() for tensor in runnable.run(inputs)]
    np.savez(found, **{f"y{place}": array for place, array in enumerate(outputs)})  # pyright: ignore[reportArgumentType]
    return ""


def khronos(path: str, given: str, found: str) -> str:
    """Parse a model."""
    import nnef  # pyright: ignore[reportMissingTypeStubs]

    del given, found
    nnef.load_graph(path)  # pyright: ignore[reportUnknownMemberType]
    return ""


_ASKED: dict[str, Callable[[str, str, str], str]] = {"tract": tract, "khronos": khronos}


def _words(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).partition("Stack backtrace")[0].splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:200]


def _answered(question: dict[str, str]) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        signal.alarm(MOST_SECONDS)
        try:
            answer = _ASKED[question["who"]](question["path"], question["given"], question["found"])
        except BaseException as error:  # noqa: BLE001  any exception is the result
            answer = _words(error)
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else f"the process ended with {os.waitstatus_to_exitcode(status)}"


class Readers:
    """A process that forks a child for each request."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", str(Path(__file__))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, who: str, path: Path, given: Path, found: Path) -> str:
        """Return the error of a reader for a model; empty if it is accepted."""
        if self._process.stdin is None or self._process.stdout is None:
            message = "the process has no pipes"
            raise RuntimeError(message)
        question = {"who": who, "path": str(path), "given": str(given), "found": str(found)}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    # Import once before the first fork.
    import nnef as _nnef  # noqa: F401  # pyright: ignore[reportUnusedImport, reportMissingTypeStubs]
    import tract as _tract  # noqa: F401  # pyright: ignore[reportUnusedImport, reportMissingTypeStubs]

    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answered(json.loads(line))) + "\n")
        sys.stdout.flush()

"""LiteRT on a file, in a process of its own: some of its kernels end the process that they are in."""

from __future__ import annotations

import atexit
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[Any, Any]

_RUN = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

for line in sys.stdin:
    path = line.rstrip()
    told = np.load(path + ".in.npz")
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        interpreter = Interpreter(path, experimental_op_resolver_type=kernels, num_threads=1)
        arrays = [told[f"x{index}"] for index in range(len(told.files))]
        for port, array in zip(interpreter.get_input_details(), arrays, strict=True):
            if tuple(port["shape"]) != array.shape:
                interpreter.resize_tensor_input(port["index"], array.shape)
        interpreter.allocate_tensors()
        for port, array in zip(interpreter.get_input_details(), arrays, strict=True):
            interpreter.set_tensor(port["index"], array)
        interpreter.invoke()
        # What has no elements it does not give.
        found = [
            interpreter.get_tensor(port["index"]) if all(port["shape"]) else np.zeros(port["shape"], port["dtype"])
            for port in interpreter.get_output_details()
        ]
        np.savez(path + ".out.npz", **{f"y{index}": array for index, array in enumerate(found)})
        print("right", flush=True)
    except (RuntimeError, ValueError) as error:
        print("wrong " + str(error).replace(chr(10), " ")[:300], flush=True)
"""


_IDLE: list[subprocess.Popen[str]] = []
"""Processes that wait for the next test: to load LiteRT takes longer than what most files compute."""


@atexit.register
def _end() -> None:
    for process in _IDLE:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


class LiteRT:
    """Runs files one after the other."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder = TemporaryDirectory(prefix="graphport-litert-")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            _IDLE.append(self._process)
        self._folder.cleanup()

    def __call__(self, path: Path, inputs: Sequence[Array]) -> list[Array] | str:
        """Outputs of the file, or why there are none."""
        if self._process is None and _IDLE:
            self._process = _IDLE.pop()
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _RUN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        here = Path(self._folder.name) / "model.tflite"
        here.write_bytes(path.read_bytes())
        named: dict[str, Any] = {f"x{index}": array for index, array in enumerate(inputs)}
        np.savez(f"{here}.in.npz", **named)
        print(here, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()  # type: ignore[union-attr]
        if not answer.startswith("right"):
            return answer.removeprefix("wrong ") or f"its process ended: {self._process.wait()}"
        with np.load(f"{here}.out.npz") as told:
            return [told[f"y{index}"] for index in range(len(told.files))]

"""Run tract on an NNEF folder, archive or text."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import tract

from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

_runtime: Any = tract  # it has no types
_SUPPORTED = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}
"""The three element types that NNEF's tensors have."""
_OWN = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {"float16", "float64"}
"""Additional types that tract supports for inputs."""
_LETTERS = {"i": "int", "u": "uint", "f": "float"}
_NUMBERED = re.compile(r"^\d+: ")


class _Runnable:
    """A document loaded in tract."""

    def __init__(self, path: str, settings: Settings) -> None:
        del settings  # it computes on one thread, and has one configuration
        try:
            self._model = _loaded(Path(path))
            self.inputs = [Port(str(self._model.input_name(index))) for index in range(self._model.input_count())]
            self.outputs = [Port(str(self._model.output_name(index))) for index in range(self._model.output_count())]
            facts = [str(self._model.input_fact(index)) for index in range(self._model.input_count())]
            self._dtypes = [_dtype(fact.rpartition(",")[2].strip().lower()) for fact in facts]
            self._runnable = self._model.into_runnable()
        except Exception as error:
            raise RefusedError(_innermost_message(error)) from error

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        given = [
            np.array(value, dtype or _SUPPORTED[value.dtype.kind], order="C")  # keeps rank 0
            for value, dtype in zip(inputs, self._dtypes, strict=True)
        ]
        try:
            return [np.array(tensor.to_numpy()) for tensor in self._runnable.run(given)], states
        except Exception as error:
            raise RefusedError(_innermost_message(error)) from error


def _dtype(name: str) -> Any:
    """Return the NumPy type of tract's name of an input type, if tract supports it."""
    found = _LETTERS.get(name[:1], "") + name[1:]
    return np.dtype(found) if found in _OWN else None


def _loaded(path: Path) -> Any:
    # The default reader supports the operators of `tract_core` only.
    reader = _runtime.nnef().with_onnx().with_pulse().with_tract_extra().with_tract_transformers()
    if path.suffix != ".nnef" or path.is_dir():
        return reader.load(str(path))
    # tract reads folders and archives, so a single text is linked into a folder.
    with TemporaryDirectory(prefix="graphport-") as folder:
        _link_or_copy(path, Path(folder) / "graph.nnef")
        beside = path.with_suffix(".quant")
        if beside.exists():
            _link_or_copy(beside, Path(folder) / "graph.quant")
        return reader.load(folder)


def _link_or_copy(path: Path, place: Path) -> None:
    """Link or copy a file to `place`; Windows restricts links."""
    try:
        place.symlink_to(path.absolute())
    except OSError:
        shutil.copyfile(path, place)


def _innermost_message(error: Exception) -> str:
    """The innermost reason that tract gives."""
    lines = [line.strip() for line in str(error).partition("Stack backtrace")[0].splitlines()]
    reasons = [_NUMBERED.sub("", line) for line in lines if line and line != "Caused by:"]
    return reasons[-1][:500] if reasons else type(error).__name__


if __name__ == "__main__":
    serve(version("tract"), _Runnable)

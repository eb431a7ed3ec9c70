"""Keras on a `.keras` or `.h5` file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import keras  # pyright: ignore[reportMissingImports]

from graphport.core.diagnostics import DiagnosticError
from graphport.core.sequences import is_sequence
from graphport.formats.keras.container.reader import read
from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

runtime: Any = keras  # it may be any version, of another interpreter


class _Model:
    """A model in Keras, which executes no code of the file."""

    def __init__(self, path: str, settings: Settings) -> None:
        del settings  # Keras does not set threads.
        try:
            graph, _ = read(path)
            self._model = runtime.saving.load_model(path, compile=False, safe_mode=True)
        except DiagnosticError as error:
            raise RefusedError(error.diagnostics[0].message) from error
        except Exception as error:
            raise RefusedError(_message(error)) from error
        # Keras and the reader order inputs and outputs as the file does.
        self.inputs = [Port(value.name) for value in graph.inputs]
        self.outputs = [Port(value.name) for value in graph.outputs]
        if len(self._model.inputs) != len(self.inputs) or len(self._model.outputs) != len(self.outputs):
            reason = "Keras loads other inputs or outputs"
            raise RefusedError(reason)

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            found: Any = self._model(list(inputs) if len(inputs) > 1 else inputs[0], training=False)
            if isinstance(found, dict):
                found = list(cast("dict[str, Any]", found).values())
            flat: list[Any] = list(found) if is_sequence(found) else [found]
            return [runtime.ops.convert_to_numpy(each) for each in flat], states
        except Exception as error:
            raise RefusedError(_message(error)) from error


def _message(error: Exception) -> str:
    """The first line of Keras' message."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


if __name__ == "__main__":
    serve(runtime.__version__, _Model)

"""JAX on a file of `jax.export`."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax  # pyright: ignore[reportMissingImports]
import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.stablehlo.reader import read
from graphport.formats.stablehlo.recognition import is_export
from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

runtime: Any = jax  # it may be any version, of another interpreter


class _Function:
    """An exported function in JAX. Unused arguments are not inputs; they are zeros here."""

    def __init__(self, path: str, settings: Settings) -> None:
        del settings  # JAX does not set threads for one function.
        data = Path(path).read_bytes()
        if not is_export(data[:4096]):
            reason = "JAX runs files of jax.export, not MLIR modules"
            raise RefusedError(reason)
        try:
            graph, _ = read(path)
            runtime.config.update("jax_enable_x64", val=True)
            self._exported = import_module("jax.export").deserialize(bytearray(data))
        except DiagnosticError as error:
            raise RefusedError(error.diagnostics[0].message) from error
        except Exception as error:
            raise RefusedError(_message(error)) from error
        self.inputs = [Port(value.name) for value in graph.inputs]
        self.outputs = [Port(value.name) for value in graph.outputs]
        self._kept = tuple(self._exported.module_kept_var_idx)
        if len(self._kept) != len(self.inputs) or len(self._exported.out_avals) != len(self.outputs):
            reason = "JAX loads other inputs or outputs"
            raise RefusedError(reason)

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            given = dict(zip(self._kept, inputs, strict=True))
            flat = [given.get(place, self._unread(place)) for place in range(len(self._exported.in_avals))]
            args, kwargs = runtime.tree.unflatten(self._exported.in_tree, flat)
            found = runtime.jit(self._exported.call)(*args, **kwargs)
            return [np.asarray(each) for each in runtime.tree.leaves(found)], states
        except Exception as error:
            raise RefusedError(_message(error)) from error

    def _unread(self, place: int) -> Any:
        aval = self._exported.in_avals[place]
        return np.zeros([dim if isinstance(dim, int) else 1 for dim in aval.shape], aval.dtype)


def _message(error: Exception) -> str:
    """The first line of JAX's message."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


if __name__ == "__main__":
    serve(runtime.__version__, _Function)

"""Run an exported program (.pt2) with PyTorch in a proof process."""

from __future__ import annotations

import copy
import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Set before the import of torch, which then unpickles only tensors.
os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
import torch  # pyright: ignore[reportMissingImports]

from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

runtime: Any = torch  # any version of torch


class _Program:
    """An exported program in PyTorch."""

    def __init__(self, path: str, settings: Settings) -> None:
        if settings.threads:
            runtime.set_num_threads(settings.threads)
        with suppress(ImportError):
            # Importing the module registers the operators of `quantized_decomposed`.
            import_module("torch.ao.quantization.fx._decomposed")
        try:
            program = runtime.export.load(path)
            signature = program.graph_signature
            self.inputs = [Port(str(name)) for name in signature.user_inputs]
            self.outputs = [Port(str(name)) for name in signature.user_outputs]
            self._spec = program.call_spec.in_spec
            self._module = program.module()
            self._is_changed_by_runs = bool(signature.buffers_to_mutate)
        except Exception as error:
            raise RefusedError(message_of(error)) from error

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        tree: Any = runtime.utils._pytree
        module = copy.deepcopy(self._module) if self._is_changed_by_runs else self._module
        try:
            with runtime.no_grad():
                args, kwargs = tree.tree_unflatten([to_tensor(value) for value in inputs], self._spec)
                found, _ = tree.tree_flatten(module(*args, **kwargs))
            return [to_array(value) for value in found], states
        except Exception as error:
            raise RefusedError(message_of(error)) from error


def to_tensor(value: Any) -> Any:
    """Convert an array to a tensor."""
    if value.dtype.name == "bfloat16":
        return runtime.from_numpy(value.view("uint16").copy()).view(runtime.bfloat16)
    return runtime.from_numpy(value.copy())


def to_array(value: Any) -> Any:
    """Convert a tensor or a scalar to an array."""
    if not isinstance(value, runtime.Tensor):
        import numpy as np

        return None if value is None else np.asarray(value)
    found: Any = value.detach().cpu().contiguous()
    if found.dtype == runtime.bfloat16:
        from graphport.core.dtypes import DType

        return found.view(runtime.uint16).numpy().view(DType.BFLOAT16.numpy)
    return found.numpy()


def message_of(error: Exception) -> str:
    """Return the first line of an error message."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


if __name__ == "__main__":
    serve(runtime.__version__, _Program)

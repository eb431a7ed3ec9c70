"""Run a TFLite file by LiteRT: with its default delegate (XNNPACK), or strictly with builtin kernels."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert import interpreter

from graphport.runtimes.serve import LackingError, Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

_runtime: Any = interpreter  # it has no types
_LACKING = ("Didn't find op", "Encountered unresolved custom op", "not supported by")


class _Interpreted:
    """A file loaded into LiteRT."""

    def __init__(self, path: str, settings: Settings) -> None:
        self._path, self._threads = path, settings.threads
        kernels = _runtime.OpResolverType
        self._kernels = kernels.BUILTIN_WITHOUT_DEFAULT_DELEGATES if settings.is_strict else kernels.BUILTIN
        self._load()
        # `_get_ops_details` raises for operators on bfloat16.
        nodes = self._model._interpreter
        self._keeps_variables = any(nodes.NodeName(index) == "VAR_HANDLE" for index in range(nodes.NumNodes()))
        self.inputs = [_port(each) for each in self._model.get_input_details()]
        self.outputs = [_port(each) for each in self._model.get_output_details()]

    def _load(self) -> None:
        try:
            self._model = self._loaded()
            # Open dims may have no valid size before the inputs are known.
            if not any(None in port.shape for port in map(_port, self._model.get_input_details()) if port.shape):
                self._model.allocate_tensors()
        except Exception as error:
            raise _refusal(error) from error

    def _loaded(self) -> Any:
        threads = self._threads or None
        return _runtime.Interpreter(self._path, experimental_op_resolver_type=self._kernels, num_threads=threads)

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            if self._keeps_variables:
                # Only a new interpreter starts with the file's initial states.
                self._model = self._loaded()
            for port, value in zip(self._model.get_input_details(), inputs, strict=True):
                if tuple(port["shape"]) != value.shape:
                    self._model.resize_tensor_input(port["index"], value.shape)
            self._model.allocate_tensors()
            self._model.reset_all_variables()
            for port, value in zip(self._model.get_input_details(), inputs, strict=True):
                self._model.set_tensor(port["index"], value)
            self._model.invoke()
            return [_read_result(self._model, each) for each in self._model.get_output_details()], states
        except Exception as error:
            raise _refusal(error) from error


def _read_result(model: Any, details: Any) -> Any:
    """Return a result; LiteRT returns no array for zero-size results."""
    if not all(details["shape"]):
        return np.zeros(details["shape"], details["dtype"])
    return np.array(model.get_tensor(details["index"]))


def _port(details: Any) -> Port:
    dims = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    return Port(str(details["name"]), np.dtype(details["dtype"]).name, tuple(None if n < 0 else int(n) for n in dims))


def _refusal(error: Exception) -> RefusedError:
    words = str(error).strip().replace("\n", " ")[:500] or type(error).__name__
    return LackingError(words) if any(each in words for each in _LACKING) else RefusedError(words)


if __name__ == "__main__":
    serve(version("ai-edge-litert"), _Interpreted)

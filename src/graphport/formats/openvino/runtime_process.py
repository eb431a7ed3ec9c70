"""OpenVINO's CPU plugin on an IR file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.packages import without
from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

# Importing it sends telemetry from a child process that keeps our pipes open.
with without("openvino_telemetry"):
    import openvino

_runtime: Any = openvino  # its native module has no type information
_STRICT = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
    "KV_CACHE_PRECISION": "f32",
    "LP_TRANSFORMS_MODE": "NO",
}
"""Turns off lower precision: bfloat16 or 8-bit products, 8-bit caches, quantized layers merged with others."""
_PLACE = re.compile(r"^(Exception from|Check '.*' failed at) .*?:\d+:?\s*")
_NAMES = {
    "boolean": "bool",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    **{f"i{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
}
_FOREIGN = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}
"""Types that NumPy supports only through extensions."""


class _Compiled:
    """A file in OpenVINO."""

    def __init__(self, path: str, settings: Settings) -> None:
        threads = {"INFERENCE_NUM_THREADS": str(settings.threads)} if settings.threads else {}
        self._settings = threads | (_STRICT if settings.is_strict else {})
        self._compiled: Any = None
        try:
            self._core = _runtime.Core()
            self._model = self._core.read_model(path)
            self._open = [i for i, each in enumerate(self._model.inputs) if each.get_element_type().is_dynamic()]
            if not self._open:
                self._compiled = self._compile()
        except Exception as error:
            raise RefusedError(_last_error_line(error)) from error
        self.inputs = [_port(each) for each in self._model.inputs]
        self.outputs = [_port(each) for each in self._model.outputs]

    def _compile(self, inputs: Sequence[Any] = ()) -> Any:
        """Load the model; set undefined element types of inputs to those of the arguments."""
        for index in self._open:
            self._model.inputs[index].get_node().set_element_type(_tensor(inputs[index]).element_type)
        if self._open:
            self._model.validate_nodes_and_infer_types()
        return self._core.compile_model(self._model, "CPU", self._settings)

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            if self._compiled is None:
                self._compiled = self._compile(inputs)
            request = self._compiled.create_infer_request()
            kept = {state.name: state for state in request.query_state()}
            for index, value in enumerate(inputs):
                request.set_input_tensor(index, _tensor(value))
            for name, value in states.items():
                if name in kept:
                    kept[name].state = _tensor(value)
            # `infer()` does not report all errors of the run.
            request.start_async()
            request.wait()
            found = [_array(request.get_output_tensor(index)) for index in range(len(self.outputs))]
            return found, {name: _array(state.state) for name, state in kept.items()}
        except Exception as error:
            raise RefusedError(_last_error_line(error)) from error


def _port(port: Any) -> Port:
    kind = port.get_element_type().get_type_name()
    shape = port.get_partial_shape()
    dims = tuple(dim.get_length() if dim.is_static else None for dim in shape) if shape.rank.is_static else None
    name = port.get_any_name() if port.get_names() else port.get_node().get_friendly_name()
    return Port(name, _NAMES.get(kind, None if kind == "dynamic" else kind), dims)


def _tensor(value: Any) -> Any:
    if value.dtype.kind == "O":
        return _runtime.Tensor(np.array(value, dtype=str))
    given = np.ascontiguousarray(value).reshape(value.shape)
    name = _FOREIGN.get(given.dtype.name)
    if name is None:
        return _runtime.Tensor(given.copy())
    tensor = _runtime.Tensor(getattr(_runtime.Type, name), _runtime.Shape(given.shape))
    tensor.data.reshape(-1).view(np.uint8)[:] = given.reshape(-1).view(np.uint8)
    return tensor


def _array(tensor: Any) -> Any:
    kind = tensor.element_type.get_type_name()
    if kind == "string":
        return np.array(tensor.str_data, object)
    array = np.array(tensor.data)
    name = _NAMES.get(kind, "")
    if name in _FOREIGN:
        return array.reshape(-1).view(np.uint8).view(DType.of(name).numpy).reshape(tuple(tensor.shape))
    return array


def _last_error_line(error: Exception) -> str:
    """Return the last line of OpenVINO's error message, without its source locations."""
    lines = [_PLACE.sub("", line).strip() for line in str(error).strip().splitlines()]
    stated = [line for line in lines if line] or str(error).strip().splitlines()
    return stated[-1][:500] if stated else type(error).__name__


if __name__ == "__main__":
    serve(_runtime.__version__.partition("-")[0], _Compiled)

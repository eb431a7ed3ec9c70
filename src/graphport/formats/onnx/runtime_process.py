"""ONNX Runtime on an ONNX file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnxruntime

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.core.storage import pack, unpack
from graphport.runtimes.custom_libraries import register_libraries
from graphport.runtimes.serve import LackingError, Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

_runtime: Any = onnxruntime  # it has no types
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_LACKING = ("NOT_IMPLEMENTED", "max supported IR version", "till opset")
"""Error messages for a missing operator or an outdated runtime."""
_CUSTOM = re.compile(r"Fatal error: (?!ai\.onnx:|com\.microsoft)[\w.]+:\w+\(-?\d+\) is not a registered function/op")
"""Error message for an operator of a custom domain without a library."""
_TENSOR = re.compile(r"tensor\((.+)\)")
_NAMES = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}
"""Element types that are called otherwise elsewhere."""
_CODES = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e5m2": 19, "uint4": 21, "int4": 22}
"""Element types that NumPy supports only through extensions, with their ONNX codes."""
_BYTE = 8


class _Session:
    """A file in ONNX Runtime."""

    def __init__(self, path: str, settings: Settings) -> None:
        options = _runtime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = settings.threads
        # Between runs another runtime computes: threads that wait for work must not keep a processor busy.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if settings.is_strict:
            options.graph_optimization_level = _runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            # The default quantizes the other operand of a MatMul with block-quantized weights to 8 bits.
            options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        try:
            register_libraries(options)
            self._session = _runtime.InferenceSession(path, options, ["CPUExecutionProvider"])
        except Exception as error:
            is_lacking = any(words in str(error) for words in _LACKING) or _CUSTOM.search(str(error)) is not None
            raise (LackingError if is_lacking else RefusedError)(_error_message(error)) from error
        self.inputs = [_port(each) for each in self._session.get_inputs()]
        self.outputs = [_port(each) for each in self._session.get_outputs()]
        self._is_plain = not any(each.dtype in _CODES for each in (*self.inputs, *self.outputs))

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        names = [port.name for port in self.outputs]
        try:
            if self._is_plain:
                given = {port.name: value for port, value in zip(self.inputs, inputs, strict=True)} | states
                found = [_to_arrays(answer) for answer in self._session.run(names, given)]
            else:
                wrapped = {port.name: _wrapped(value) for port, value in zip(self.inputs, inputs, strict=True)}
                wrapped |= {name: _wrapped(value) for name, value in states.items()}
                found = [_array(value) for value in self._session.run_with_ort_values(names, wrapped)]
        except Exception as error:
            raise RefusedError(_error_message(error)) from error
        return found, {}


def _port(port: Any) -> Port:
    found = _TENSOR.fullmatch(port.type)
    if found is None:
        return Port(port.name)
    # ONNX Runtime reports a shape of unknown rank like a scalar's.
    shape = tuple(dim if isinstance(dim, int) else None for dim in port.shape) if port.shape else None
    return Port(port.name, _NAMES.get(found[1], found[1]), shape)


def _to_arrays(answer: Any) -> Any:
    """Convert a result to arrays; for maps the values, in the order of their keys."""
    if isinstance(answer, dict):
        numbers = cast("dict[Any, Any]", answer)
        return np.array([numbers[key] for key in sorted(numbers)])
    if is_sequence(answer):
        return [_to_arrays(item) for item in answer]
    return answer


def _wrapped(value: Any) -> Any:
    name = value.dtype.name
    if name not in _CODES:
        return _runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value).reshape(value.shape))
    bits = DType.of(value.dtype).bits
    raw = np.ascontiguousarray(value).view(np.uint16 if value.dtype.itemsize == 2 else np.uint8)
    if bits < _BYTE:
        # Several elements share a byte; the array keeps the shape, and its other bytes are not looked at.
        dense = np.frombuffer(pack(np.ascontiguousarray(value).reshape(-1), bits), np.uint8)
        raw = np.zeros(value.shape, np.uint8)
        raw.reshape(-1)[: len(dense)] = dense
    return _runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw.reshape(value.shape), _CODES[name])


def _array(value: Any) -> Any:
    import ctypes

    found = _TENSOR.fullmatch(value.data_type())
    name = _NAMES.get(found[1], found[1]) if found else ""
    if name not in _CODES:
        return value.numpy()
    address = ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_uint8))
    raw = np.ctypeslib.as_array(address, (value.tensor_size_in_bytes(),)).copy()
    dtype = DType.of(name)
    return unpack(raw, dtype, value.shape()) if dtype.bits < _BYTE else raw.view(dtype.numpy).reshape(value.shape())


def _error_message(error: Exception) -> str:
    lines = _STATUS.sub("", str(error)).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


if __name__ == "__main__":
    _runtime.set_default_logger_severity(4)
    serve(_runtime.__version__, _Session)

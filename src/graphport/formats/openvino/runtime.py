"""OpenVINO's CPU runtime, which loads the model from an IR file.

It computes in float32 as the model declares, except in `quick` mode.
"""

from __future__ import annotations

import ctypes
import re
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.packages import without
from graphport.formats.openvino import write
from graphport.ir import rewrite, states
from graphport.runtimes.error_attribution import blamed, fault
from graphport.runtimes.run_limits import RunLimitError, current

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from graphport.ir.graph import Graph, Value
    from graphport.runtimes import Export

_PLACE = re.compile(r"^(Exception from|Check '.*' failed at) .*?:\d+:?\s*")
_NAMED = (
    re.compile(r"friendly_name '([^']+)'"),
    re.compile(r"\bwith name '([^']+)'"),
    re.compile(r"\bOperation name: (\S+)"),
    re.compile(r"\b[Nn]ode '?([^'\s]+)'? of type"),
)
"""Where it names the layer that it complains of."""
_EXACT_SETTINGS = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""By default the plugin computes in bfloat16 and quantizes MatMul operands to 8 bits if the processor supports it."""
_NARROW = 8
"""Bits below which OpenVINO packs elements of inputs and outputs."""


def prepare(graph: Graph, *, export: Export, threads: int = 0, quick: bool = False) -> OpenvinoSession:
    """Compile `graph` for `threads` threads (default: OpenVINO's choice).

    Unless `quick` (used to measure time), all rounding follows the model.

    Raises:
        DiagnosticError: RUN0003 if IR files cannot represent the model, or with OpenVINO's message if it refuses it.
    """
    settings = {} if quick else _EXACT_SETTINGS
    limits = current()
    if limits is not None:
        limits.check_loops(graph, "OpenVINO")
    return OpenvinoSession(graph, export, settings | ({"INFERENCE_NUM_THREADS": str(threads)} if threads else {}))


class OpenvinoSession:
    """A compiled model, and on demand a second one that returns every value."""

    def __init__(self, graph: Graph, export: Export, settings: Mapping[str, str]) -> None:
        _check_types(graph.inputs)
        self._graph = graph
        self._export = export
        self._settings = settings
        self._compiled = _compiled(graph, (), export, settings)
        self._observed: Any = None
        self._requests: dict[int, Any] = {}

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        values: Sequence[Value] = self._graph.outputs
        compiled = self._compiled
        if every_value:
            computed = [value for node in self._graph for value in node.results]
            if self._observed is None:
                self._observed = _compiled(self._graph, computed, self._export, self._settings)
            compiled = self._observed
            values = [*computed, *(value for value in values if value not in computed)]
        try:
            request = self._requests.get(id(compiled))
            if request is None:
                request = self._requests[id(compiled)] = compiled.create_infer_request()
            for index, value in enumerate(self._graph.inputs):
                request.set_input_tensor(index, _tensor(inputs[value.name], value))
            # `infer()` does not report all errors of the run.
            request.start_async()
            with _limited(request):
                request.wait()
            arrays = [_array(request.get_output_tensor(index), value) for index, value in enumerate(values)]
        except RunLimitError:
            raise
        except Exception as error:
            raise _fault("RUN0005", "OpenVINO", error, self._graph) from error
        found = {value.name: array for value, array in zip(values, arrays, strict=True)}
        order = [*(value.name for value in values), *(value.name for value in self._graph.outputs)]
        return {name: found[name] for name in order}


def _limited(request: Any) -> AbstractContextManager[None]:
    """Cancel `request` at the limits of `run_limits.current`."""
    limits = current()
    return nullcontext() if limits is None else limits.watching("OpenVINO", request.cancel)


def _check_types(values: Sequence[Value]) -> None:
    for value in values:
        dtype = value.dtype
        if dtype is None or (dtype is not DType.STRING and dtype.bits < _NARROW):
            message = f"OpenVINO does not support inputs like {value.name}, which is {value.fact}"
            raise DiagnosticError(Diagnostic("RUN0003", message, None, "choose another backend"))


def _compiled(graph: Graph, extra: Sequence[Value], export: Export, settings: Mapping[str, str]) -> Any:
    with without("openvino_telemetry"):  # importing it sends telemetry
        import openvino

    runtime: Any = openvino  # its native module has no type information
    stated = rewrite.copy(graph)
    for value in stated.inputs:
        # A variable that was converted to an input is passed and returned like any other.
        states.unmark(value)
    if extra:
        made = dict.fromkeys(value for node in stated for value in node.results)
        stated.set_outputs([*made, *(value for value in stated.outputs if value not in made)])
    exported, findings = export(stated, "openvino")
    if findings:
        raise DiagnosticError(*(Diagnostic("RUN0003", f.message, f.span, "choose another backend") for f in findings))
    try:
        with TemporaryDirectory(prefix="graphport-") as folder, _own_signal_stack():
            path = Path(folder) / "model.xml"
            write(exported, path)
            core = runtime.Core()
            # The file is deleted with its folder, so it must not stay mapped.
            core.set_property({"ENABLE_MMAP": False})
            return core.compile_model(core.read_model(str(path)), "CPU", dict(settings))
    except DiagnosticError as error:
        raise DiagnosticError(*(Diagnostic("RUN0003", f.message, f.span, f.help) for f in error.diagnostics)) from error
    except Exception as error:
        raise _fault("RUN0003", "OpenVINO does not load the model", error, graph, "choose another backend") from error


class _Stack(ctypes.Structure):
    """Linux' `stack_t`: where a thread handles signals."""

    _fields_ = (("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def _own_signal_stack() -> Generator[None]:
    """Restore the thread's signal stack.

    On processors with matrix units each OpenVINO core replaces it and frees the memory on destruction: after two cores
    the next signal (for example Ctrl-C) would end the process.
    """
    if sys.platform != "linux":
        yield
        return
    library, before = ctypes.CDLL(None), _Stack()
    library.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        library.sigaltstack(ctypes.byref(before), None)


def _tensor(array: Any, value: Value) -> Any:
    import openvino

    runtime: Any = openvino
    if np.asarray(array).dtype.kind in "OSU":
        return runtime.Tensor(np.array(array, dtype=str))
    given = np.ascontiguousarray(array).reshape(np.shape(array))
    dtype = value.dtype
    name = _FOREIGN.get(dtype) if dtype is not None else None
    if name is None:
        return runtime.Tensor(given)
    kind = getattr(runtime.Type, name)
    tensor = runtime.Tensor(kind, runtime.Shape(given.shape))
    raw = tensor.data.reshape(-1).view(np.uint8)
    raw[:] = given.reshape(-1).view(np.uint8)
    return tensor


_FOREIGN = {
    DType.BFLOAT16: "bf16",
    DType.FLOAT8E4M3FN: "f8e4m3",
    DType.FLOAT8E5M2: "f8e5m2",
}
"""Types that NumPy supports only through extensions."""


def _array(tensor: Any, value: Value) -> Any:
    dtype = value.dtype
    if tensor.element_type.get_type_name() == "string":
        return np.array(tensor.str_data, object)
    array = np.array(tensor.data)
    if dtype is not None and dtype in _FOREIGN:
        return array.reshape(-1).view(np.uint8).view(dtype.numpy).reshape(tuple(tensor.shape))
    return array


def _fault(code: str, what: str, error: Exception, graph: Graph, remedy: str | None = None) -> DiagnosticError:
    return fault(code, f"{what}: {_last_error_line(error)}", blamed(graph, str(error), _NAMED), remedy)


def _last_error_line(error: Exception) -> str:
    """Return the last line of OpenVINO's error message, without its source locations."""
    lines = [_PLACE.sub("", line).strip() for line in str(error).strip().splitlines()]
    stated = [line for line in lines if line]
    return stated[-1][:500] if stated else type(error).__name__

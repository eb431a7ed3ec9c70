"""OpenVINO on the processor, which is handed the model as an IR file.

It computes as the model says, in float32, unless it has to be quick.
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
_AS_IT_STANDS = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
"""By itself it computes in bfloat16, and with operands of products rounded to eight bits, where a processor can."""
_NARROW = 8
"""Bits below which OpenVINO packs elements of inputs and outputs."""


def prepare(graph: Graph, *, export: Export, threads: int = 0, quick: bool = False) -> OpenvinoSession:
    """A session on `graph`, on `threads` threads, by default on as many as OpenVINO likes.

    Unless it has to be `quick`, as it is by default and when time is measured, nothing is rounded that the model does
    not round.

    Raises:
        DiagnosticError: RUN0003 with what IR files cannot say, or with OpenVINO's words where it refuses the model.
    """
    settings = {} if quick else _AS_IT_STANDS
    limits = current()
    if limits is not None:
        limits.check_loops(graph, "OpenVINO")
    return OpenvinoSession(graph, export, settings | ({"INFERENCE_NUM_THREADS": str(threads)} if threads else {}))


class OpenvinoSession:
    """One compiled model, and a second one that returns every value once that is asked for."""

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
            # The call that waits by itself does not tell all errors of the run.
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
            message = f"OpenVINO cannot be given {value.name}, which is {value.fact}"
            raise DiagnosticError(Diagnostic("RUN0003", message, None, "choose another backend"))


def _compiled(graph: Graph, extra: Sequence[Value], export: Export, settings: Mapping[str, str]) -> Any:
    with without("openvino_telemetry"):  # its import tells its makers of every use
        import openvino

    runtime: Any = openvino  # what it gets from its native module is unknown to a type checker
    stated = rewrite.copy(graph)
    for value in stated.inputs:
        # A variable that became an input is given and returned here like any other.
        states.unmark(value)
    if extra:
        made = dict.fromkeys(value for node in stated for value in node.results)
        stated.set_outputs([*made, *(value for value in stated.outputs if value not in made)])
    lifted, findings = export(stated, "openvino")
    if findings:
        raise DiagnosticError(*(Diagnostic("RUN0003", f.message, f.span, "choose another backend") for f in findings))
    try:
        with TemporaryDirectory(prefix="graphport-") as folder, _own_signal_stack():
            path = Path(folder) / "model.xml"
            write(lifted, path)
            core = runtime.Core()
            # The file goes away with the folder: nothing of it may stay mapped.
            core.set_property({"ENABLE_MMAP": False})
            return core.compile_model(core.read_model(str(path)), "CPU", dict(settings))
    except DiagnosticError as error:
        raise DiagnosticError(*(Diagnostic("RUN0003", f.message, f.span, f.help) for f in error.diagnostics)) from error
    except Exception as error:
        raise _fault("RUN0003", "OpenVINO refuses the model", error, graph, "choose another backend") from error


class _Stack(ctypes.Structure):
    """Linux' `stack_t`: where a thread handles signals."""

    _fields_ = (("place", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def _own_signal_stack() -> Generator[None]:
    """Give the thread the stack for signals back that it has.

    On processors with matrix units each of OpenVINO's cores lays one over it, and takes the memory away when it goes:
    after two of them the next signal, as that of Ctrl-C, would end the process.
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
"""Types that NumPy has only as somebody else's."""


def _array(tensor: Any, value: Value) -> Any:
    dtype = value.dtype
    if tensor.element_type.get_type_name() == "string":
        return np.array(tensor.str_data, object)
    array = np.array(tensor.data)
    if dtype is not None and dtype in _FOREIGN:
        return array.reshape(-1).view(np.uint8).view(dtype.numpy).reshape(tuple(tensor.shape))
    return array


def _fault(code: str, what: str, error: Exception, graph: Graph, remedy: str | None = None) -> DiagnosticError:
    return fault(code, f"{what}: {_words(error)}", blamed(graph, str(error), _NAMED), remedy)


def _words(error: Exception) -> str:
    """The last line of what OpenVINO says, without the places in its own source."""
    lines = [_PLACE.sub("", line).strip() for line in str(error).strip().splitlines()]
    stated = [line for line in lines if line]
    return stated[-1][:500] if stated else type(error).__name__

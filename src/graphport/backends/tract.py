"""tract on the processor, which is handed the model as an NNEF folder that says nothing beyond the standard.

tract runs in a process of its own: where it meets what it did not expect, it ends the process that it is in.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from graphport.conversion.lift import lift
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef import write
from graphport.formats.nnef.original import NOTE
from graphport.formats.nnef.portable import portable
from graphport.formats.nnef.syntax import Edition
from graphport.ir import rewrite
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value

    Shapes = dict[str, tuple[int, ...]]

_SPOKEN = {"f": DType.FLOAT32, "i": DType.INT64, "u": DType.INT64, "b": DType.BOOL}
_NARROWED = (DType.FLOAT64, DType.UINT64)
_NUMBERED = re.compile(r"^\d+: ")
_DONE, _FAILED = b"+", b"-"


def prepare(graph: Graph) -> TractSession:
    """A session on `graph`, which is loaded at once if every input has a shape, else when it is given arrays.

    Raises:
        DiagnosticError: RUN0003 with what NNEF cannot say, or with tract's words where it does not load the model.
    """
    return TractSession(graph)


class TractSession:
    """The models that tract has made of a graph: one for each choice of lengths, with all values returned or not."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._loaded: dict[tuple[tuple[tuple[int, ...], ...], bool], _Worker] = {}
        wide = sorted({str(dtype) for value in graph.inputs if (dtype := _dtype(value)) in _NARROWED})
        if wide:
            message = f"tract computes NNEF's numbers, float32 and int64, and there are inputs of {', '.join(wide)}"
            raise DiagnosticError(Diagnostic("RUN0003", message, None, "choose another backend"))
        shapes = _fixed(graph)
        if shapes is not None:
            self._worker(shapes, every_value=False)

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        arrays = {value.name: np.asarray(inputs[value.name]) for value in self._graph.inputs}
        worker = self._worker({name: array.shape for name, array in arrays.items()}, every_value=every_value)
        answers = worker.run([_spoken(array) for array in arrays.values()])
        values = _returned(self._graph, every_value=every_value)
        return {value.name: _as_declared(array, value) for value, array in zip(values, answers, strict=True)}

    def _worker(self, shapes: Shapes, *, every_value: bool) -> _Worker:
        key = tuple(shapes.values()), every_value
        if key not in self._loaded:
            self._loaded[key] = _loaded(_bound(self._graph, shapes, every_value=every_value))
        return self._loaded[key]


def _dtype(value: Value) -> DType | None:
    return value.fact.dtype if isinstance(value.fact, TensorFact) else None


def _fixed(graph: Graph) -> Shapes | None:
    """The shapes of all inputs; `None` where one is open."""
    found: Shapes = {}
    for value in graph.inputs:
        if not isinstance(value.fact, TensorFact) or not value.fact.is_static:
            return None
        found[value.name] = tuple(dim for dim in value.fact.dims if isinstance(dim, int))
    return found


def _returned(graph: Graph, *, every_value: bool) -> list[Value]:
    """The outputs, each once, and with `every_value` all else that is computed."""
    computed = [value for node in graph for value in node.results] if every_value else []
    return list(dict.fromkeys([*graph.outputs, *computed]))


def _bound(graph: Graph, shapes: Shapes, *, every_value: bool) -> Graph:
    """A copy for inputs of these shapes."""
    twin = rewrite.copy(graph)
    bind_inputs(twin, shapes)
    Inference().graph(twin)
    twin.set_outputs(_returned(twin, every_value=every_value))
    return twin


def _loaded(graph: Graph) -> _Worker:
    """tract with `graph` in it."""
    said, findings = lift(graph, "nnef")
    if findings:
        raise _unsaid(findings)
    # The text that the model was read from may say what tract does not know.
    said.notes.pop(NOTE, None)
    said = portable(said, Edition.FINAL)
    wrong = next((node for node in said if _is_miscomputed(node)), None)
    if wrong is not None:
        message = f"tract computes this {wrong.word} wrongly"
        raise DiagnosticError(Diagnostic("RUN0003", message, wrong.origin, "choose another backend"))
    with TemporaryDirectory(prefix="graphport-") as folder:
        path = Path(folder) / "model"
        try:
            write(said, path)
        except DiagnosticError as error:
            raise _unsaid(error.diagnostics) from error
        return _Worker(path)


def _is_miscomputed(node: Node) -> bool:
    """Whether tract is known to give other numbers than NNEF demands: backwards slices, windows over channels."""
    stride = node.attributes.get("stride")
    if node.word == "slice" and isinstance(stride, tuple):
        return any(isinstance(step, int) and step < 0 for step in stride)
    return node.word == "local_response_normalization"


def _unsaid(findings: Sequence[Diagnostic]) -> DiagnosticError:
    reasons = "; ".join(finding.message for finding in findings)
    return DiagnosticError(Diagnostic("RUN0003", f"tract is handed NNEF: {reasons}", None, "choose another backend"))


def _spoken(array: Any) -> Any:
    """An array of one of the three element types that NNEF's tensors have."""
    kind = DType.of(array.dtype).kind
    return array.astype(_SPOKEN[kind].numpy, copy=False) if kind in _SPOKEN else array


def _as_declared(array: Any, value: Value) -> Any:
    dtype = _dtype(value)
    return array if dtype is None else array.astype(dtype.numpy, copy=False)


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Worker:
    """A process with one model in tract. It ends when nobody has it any more."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", __name__, str(path)]
        self._process = subprocess.Popen(  # noqa: S603  this very module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        weakref.finalize(self, _end, self._process)
        self._answer("RUN0003", "tract does not load the model")

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs.

        Raises:
            DiagnosticError: RUN0005 with tract's words.
        """
        stream = self._process.stdin
        if stream is None:
            raise OSError("the process of tract has no input")
        with suppress(BrokenPipeError):  # what became of it is told by the answer that does not come
            _send(stream, _DONE, _packed(arrays))
        return _unpacked(self._answer("RUN0005", "tract"))

    def _answer(self, code: str, what: str) -> bytes:
        stream = self._process.stdout
        answer = None if stream is None else _receive(stream)
        if answer is None:
            message = f"{what}: it gave up, and its process ended with {self._process.wait()}"
            raise DiagnosticError(Diagnostic(code, message, None, "choose another backend"))
        state, content = answer
        if state == _FAILED:
            raise DiagnosticError(Diagnostic(code, f"{what}: {content.decode()}", None, "choose another backend"))
        return content


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


def _send(stream: IO[bytes], state: bytes, content: bytes) -> None:
    stream.write(state + len(content).to_bytes(8, "little") + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """A state and what comes with it; `None` where the stream ends."""
    head = stream.read(9)
    if len(head) < 9:
        return None
    length = int.from_bytes(head[1:], "little")
    content = stream.read(length)
    return (head[:1], content) if len(content) == length else None


def _packed(arrays: Sequence[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, *arrays)
    return stream.getvalue()


def _unpacked(content: bytes) -> list[Any]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]


def _serve(path: str) -> None:
    """Load a model, then answer inputs with outputs until there are no more."""
    import tract

    answers = sys.stdout.buffer
    runtime: Any = tract  # it has no types
    try:
        model = runtime.nnef().load(path).into_runnable()
    except Exception as error:  # noqa: BLE001  whatever tract raises is told
        _send(answers, _FAILED, _words(error).encode())
        return
    _send(answers, _DONE, b"")
    while (given := _receive(sys.stdin.buffer)) is not None:
        try:
            outputs = [tensor.to_numpy() for tensor in model.run(_unpacked(given[1]))]
        except Exception as error:  # noqa: BLE001  the same
            _send(answers, _FAILED, _words(error).encode())
        else:
            _send(answers, _DONE, _packed(outputs))


def _words(error: Exception) -> str:
    """The innermost reason that tract gives."""
    lines = [line.strip() for line in str(error).partition("Stack backtrace")[0].splitlines()]
    reasons = [_NUMBERED.sub("", line) for line in lines if line and line != "Caused by:"]
    return reasons[-1] if reasons else type(error).__name__


if __name__ == "__main__":
    _serve(sys.argv[1])

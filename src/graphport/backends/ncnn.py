"""ncnn on the processor, which is handed the model as its own files.

Blobs have no batch axis: the items of a batch are run one after another. ncnn runs in a process of its own: where it
meets what it did not expect, it ends the process that it is in.
"""

from __future__ import annotations

import io
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
from graphport.core.facts import TensorFact
from graphport.formats.ncnn import write
from graphport.ir import rewrite
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Graph, Value

    Shapes = dict[str, tuple[int, ...]]

_DONE, _FAILED = b"+", b"-"
_NARROW = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage", "use_int8_inference")
"""What ncnn computes with fewer bits by default."""


def prepare(graph: Graph) -> NcnnSession:
    """A session on `graph`, which is loaded at once if every input has a shape, else when it is given arrays.

    Raises:
        DiagnosticError: RUN0003 with what ncnn cannot say, or that it does not load the model.
    """
    return NcnnSession(graph)


class NcnnSession:
    """The models that ncnn has made of a graph: one for each choice of lengths."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._loaded: dict[tuple[tuple[tuple[int, ...], ...], bool], _Loaded] = {}
        shapes = _fixed(graph)
        if shapes is not None:
            self._model(shapes, every_value=False)

    def run(self, inputs: Mapping[str, Any], *, every_value: bool = False) -> dict[str, Any]:
        arrays = {value.name: np.asarray(inputs[value.name]) for value in self._graph.inputs}
        items = {array.shape[0] if array.ndim else 1 for array in arrays.values()}
        if len(items) > 1:
            message = f"the inputs have batches of {', '.join(map(str, sorted(items)))}"
            raise DiagnosticError(Diagnostic("RUN0005", message, None, "the first axis of all is the batch"))
        model = self._model({name: (1, *array.shape[1:]) for name, array in arrays.items()}, every_value=every_value)
        count = max(items, default=1)
        rows = [model.run([array[item] for array in arrays.values()]) for item in range(count)]
        return {value.name: _joined([row[index] for row in rows], value) for index, value in enumerate(model.values)}

    def _model(self, shapes: Shapes, *, every_value: bool) -> _Loaded:
        key = tuple(shapes.values()), every_value
        if key not in self._loaded:
            self._loaded[key] = _Loaded(_bound(self._graph, shapes), every_value=every_value)
        return self._loaded[key]


def _fixed(graph: Graph) -> Shapes | None:
    """The shapes of all inputs; `None` where one is open."""
    found: Shapes = {}
    for value in graph.inputs:
        if not isinstance(value.fact, TensorFact) or not value.fact.is_static:
            return None
        found[value.name] = tuple(dim for dim in value.fact.dims if isinstance(dim, int))
    return found


def _bound(graph: Graph, shapes: Shapes) -> Graph:
    """A copy for inputs of these shapes."""
    twin = rewrite.copy(graph)
    bind_inputs(twin, shapes)
    Inference().graph(twin)
    return twin


def _joined(blobs: Sequence[Any], value: Value) -> Any:
    """The results of the items of a batch as one array of the declared type and rank."""
    found = np.stack(list(blobs))
    fact = value.fact
    if not isinstance(fact, TensorFact):
        return found
    dims = [dim for dim in fact.shape or () if isinstance(dim, int)]
    if fact.shape is not None and len(dims) == len(fact.shape) and dims[:1] == [1]:
        found = found.reshape(len(blobs), *dims[1:])
    return found if fact.dtype is None else found.astype(fact.dtype.numpy, copy=False)


class _Loaded:
    """A process with one model in ncnn, and the values that it returns. It ends when nobody has it any more."""

    def __init__(self, graph: Graph, *, every_value: bool) -> None:
        computed = [value for node in graph for value in node.results] if every_value else []
        self.values = list(dict.fromkeys([*graph.outputs, *computed]))
        said, findings = lift(graph, "ncnn")
        if findings:
            raise _unsaid(findings)
        known = {value.name for value in said.values()}
        self.values = [value for value in self.values if value.name in known]
        with TemporaryDirectory(prefix="graphport-") as folder:
            path = Path(folder) / "model.param"
            try:
                write(said, path)
            except DiagnosticError as error:
                raise _unsaid(error.diagnostics) from error
            names = [*(value.name for value in graph.inputs), "--", *(value.name for value in self.values)]
            command = [sys.executable, "-m", __name__, str(path), *names]
            self._process = subprocess.Popen(  # noqa: S603  this very module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            weakref.finalize(self, _end, self._process)
            self._answer("RUN0003", "ncnn does not load the model")

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The blobs of one item.

        Raises:
            DiagnosticError: RUN0005 with what ncnn says.
        """
        stream = self._process.stdin
        if stream is None:
            raise OSError("the process of ncnn has no input")
        with suppress(BrokenPipeError):  # what became of it is told by the answer that does not come
            _send(stream, _DONE, _packed([_spoken(array) for array in arrays]))
        return _unpacked(self._answer("RUN0005", "ncnn"))

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


def _unsaid(findings: Sequence[Diagnostic]) -> DiagnosticError:
    reasons = "; ".join(finding.message for finding in findings)
    return DiagnosticError(Diagnostic("RUN0003", reasons, None, "choose another backend"))


def _spoken(array: Any) -> Any:
    """An array of one of the element types that blobs have: real numbers, or integers that are places in a table."""
    return np.ascontiguousarray(array, np.float32 if array.dtype.kind == "f" else np.int32)


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


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


def _serve(path: str, names: Sequence[str]) -> None:
    """Load a model, then answer inputs with outputs until there are no more."""
    import ncnn

    answers = sys.stdout.buffer
    runtime: Any = ncnn  # it has no types
    net = runtime.Net()
    net.opt.num_threads = 1
    net.opt.lightmode = False
    for option in _NARROW:
        setattr(net.opt, option, False)
    if net.load_param(path) or net.load_model(path.removesuffix("param") + "bin"):
        _send(answers, _FAILED, b"there is a layer that it does not know, or a weight is missing")
        return
    _send(answers, _DONE, b"")
    middle = list(names).index("--")
    while (given := _receive(sys.stdin.buffer)) is not None:
        _send(answers, *_computed(runtime, net, _unpacked(given[1]), names[:middle], names[middle + 1 :]))


def _computed(
    runtime: Any, net: Any, arrays: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[bytes, bytes]:
    extractor = net.create_extractor()
    # A blob that is made of an array has none of the gaps between channels that layers count on; its copy has.
    blobs = [runtime.Mat(array).clone() for array in arrays]
    for name, blob in zip(inputs, blobs, strict=True):
        extractor.input(name, blob)
    found: list[Any] = []
    for name in outputs:
        failed, blob = extractor.extract(name)
        if failed:
            return _FAILED, f"it does not compute {name}".encode()
        found.append(np.array(blob))
    return _DONE, _packed(found)


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2:])

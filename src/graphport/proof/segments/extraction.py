"""Write the nodes of a file between some of its values to a separate file, and run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport import formats
from graphport.backends import prepare
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import CHUNK, ArrayStorage, Bytes, FileStorage, Storage, release_pages
from graphport.ir import subgraph
from graphport.ir.graph import walk
from graphport.ops.infer import Inference
from graphport.proof.process import UnansweredError, pool
from graphport.proof.runners import process_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from graphport.ir.graph import Graph, Value
    from graphport.proof.process import Process
    from graphport.proof.runtimes import Runtime
    from graphport.proof.side import Side

MAX_WRITTEN = 64 << 20
"""Bytes of constants that a segment is written to a file with; a larger one is computed by the reference alone."""
_WIDENED = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


class Cut(NamedTuple):
    """A segment as a graph: its inputs in the requested order, and its output."""

    graph: Graph
    inputs: list[Value]


def cut(output: Value, inputs: Sequence[Value]) -> Cut:
    """Return the subgraph that computes `output` from `inputs`; constants are shared."""
    found = subgraph.cut([output], inputs)
    return Cut(found.graph, [found.values[value] for value in inputs])


def size_of_constants(graph: Graph) -> int:
    """Bytes of the constants of a graph and its bodies."""
    return sum(value.storage.nbytes for inner in walk(graph) for value in inner.constants if value.storage is not None)


def widen(output: Value, inputs: Sequence[Value]) -> Cut:
    """Return the result of `cut` with float constants, inputs and casts in float64."""
    found = cut(output, inputs)
    for inner in walk(found.graph):
        for value in (*inner.constants, *inner.inputs):
            if value.storage is not None and value.storage.dtype in _WIDENED:
                value.storage = Widened(value.storage)
            if isinstance(value.fact, TensorFact) and value.fact.dtype in _WIDENED:
                value.fact = value.fact.with_dtype(DType.FLOAT64)
        for node in inner:
            for name, attribute in list(node.attributes.items()):
                if attribute in _WIDENED:
                    node.set_attribute(name, DType.FLOAT64)
    return found


class Widened(Storage):
    """Floats of another storage in double precision, converted on each access: no segment keeps its weights."""

    __slots__ = ("of",)

    def __init__(self, of: Storage) -> None:
        super().__init__(DType.FLOAT64, of.shape)
        self.of = of

    def numpy(self) -> np.ndarray[Any, Any]:
        if self.of.nbytes <= CHUNK:
            return self.of.numpy().astype(np.float64)
        # Pages of a mapped file count as memory of this process.
        elements = np.empty(self.of.shape, np.float64)
        flat, start = elements.reshape(-1), 0
        for chunk in self.of.chunks():
            part = FileStorage(Bytes(chunk), 0, self.of.dtype, [len(chunk) * 8 // self.of.dtype.bits]).numpy()
            flat[start : start + part.size] = part
            start += part.size
        return elements

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        yield from ArrayStorage(self.numpy()).chunks(limit)


def evaluate(found: Cut, elements: Sequence[Any], *, is_wide: bool = False) -> Any:
    """The result of a segment by the reference interpreter.

    Raises:
        DiagnosticError: it does not compute it.
    """
    given = {
        value.name: _to_float64(array) if is_wide else array
        for value, array in zip(found.inputs, elements, strict=True)
    }
    (output,) = found.graph.outputs
    try:
        return prepare(found.graph, "reference").run(given)[output.name]
    finally:
        release_pages()


def _to_float64(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


class RawModel:
    """A file in the dialect of its format, from which segments are cut unchanged."""

    def __init__(self, side: Side, folder: Path) -> None:
        self._side = side
        self.format = side.format
        self._folder = folder
        self._values: dict[str, Value] | None = None
        self._count = 0
        self._process: Process | None = None
        self.seconds = 0.0
        """Time that the runtime took to load and run segments."""

    def close(self) -> None:
        """Give the process of the runtime back."""
        if self._process is not None:
            pool().give_back(self._process, process_key(self._side.letter))
            self._process = None

    def cut(self, output: Value, inputs: Sequence[Value]) -> Graph | None:
        """Return the nodes of the file between values of the canonical graph; `None` if they cannot be written.

        Names are taken from the file, so the values are looked up by name.
        """
        kind = formats.recognize(self._side.path or "")
        if not kind.writes or not kind.endings:
            return None
        values = self._named_values()
        if not all(_is_compatible(value, values.get(value.name)) for value in (output, *inputs)):
            return None
        try:
            found = cut(values[output.name], [values[value.name] for value in inputs]).graph
        except (DiagnosticError, ValueError):
            return None
        return None if size_of_constants(found) > MAX_WRITTEN else found

    def write(self, graph: Graph) -> Path | None:
        """Write a result of `cut` to a file; `None` if it cannot be written."""
        kind = formats.recognize(self._side.path or "")
        self._count += 1
        path = self._folder / f"{self._side.letter}{self._count}{kind.endings[0]}"
        options = {"flavour": "tract"} if any(value.dialect == "tract" for value in self._nodes) else {}
        try:
            kind.write(graph, path, **options)
        except (DiagnosticError, ValueError):
            return None
        return path

    def run(self, path: Path, names: Sequence[str], elements: Sequence[Any]) -> Any:
        """The first output of a file that `write` wrote, in the runtime of its format.

        Raises:
            UnansweredError: the runtime refuses it.
        """
        process = self._loaded(path)
        ports = [port.name for port in self._inputs]
        by_name = dict(zip(names, elements, strict=True))
        if set(ports) <= set(by_name):
            given = [by_name[name] for name in ports]
        elif len(ports) == len(elements):
            given = list(elements)
        else:
            raise UnansweredError("takes other inputs than the segment has")
        process.ask_to_run(
            [_cast_to_port(array, port.dtype) for array, port in zip(given, self._inputs, strict=True)], {}
        )
        answer = process.answer()
        self.seconds += answer.seconds
        return answer.outputs[0]

    def _loaded(self, path: Path) -> Process:
        runtime = self.runtime
        if self._process is None or not self._process.is_alive:
            self._process = pool().acquire(runtime, process_key(self._side.letter))
            self._path = None
        if self._path != path:
            self._process.ask_to_load(str(path), 0, is_strict=True)
            opened = self._process.finish_loading()
            self.seconds += opened.seconds
            self._inputs = opened.inputs
            self._path = path
        return self._process

    @property
    def runtime(self) -> Runtime:
        """The runtime of the format, if it is installed.

        Raises:
            UnansweredError: there is none.
        """
        runtime = self._side.runtime
        if runtime is None or self._side.path is None or not runtime.is_installed:
            raise UnansweredError("there is no runtime")
        return runtime

    def _named_values(self) -> Mapping[str, Value]:
        if self._values is None:
            self._values, self._nodes = self._read()
        return self._values

    def _read(self) -> tuple[dict[str, Value], list[Any]]:
        path = self._side.path
        if path is None:
            return {}, []
        try:
            kind = formats.recognize(path)
            graph, _ = kind.read(path, shapes=None, tolerant=True)
            if not kind.has_facts(graph):
                Inference().graph(graph)
        except DiagnosticError:
            return {}, []
        self._graph = graph
        values = {value.name: value for inner in walk(graph) for value in inner.values()}
        return values, [node for inner in walk(graph) for node in inner]


def _is_compatible(value: Value, other: Value | None) -> bool:
    """Whether a value of the file can be that of the graph: types and shapes, where known, are equal."""
    if other is None:
        return False
    one, two = value.fact, other.fact
    if not isinstance(one, TensorFact) or not isinstance(two, TensorFact):
        return True
    if one.dtype and two.dtype and one.dtype.kind != two.dtype.kind:
        return False
    if one.shape is None or two.shape is None:
        return True
    pairs = list(zip(one.shape, two.shape, strict=False))
    is_known = all(isinstance(m, int) and isinstance(n, int) for m, n in pairs)
    return len(one.shape) == len(two.shape) and (not is_known or one.shape == two.shape)


def _cast_to_port(array: Any, dtype: str | None) -> Any:
    if dtype is None or array.dtype.name == dtype:
        return array
    return array.astype(np.dtype(dtype))

"""Running graphs while they are quantized, and what noise a run has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport import backends
from graphport.backends import is_installed, reference
from graphport.comparison.stream import is_array
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx import runtime as onnxruntime
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Value
from graphport.ops import registry
from graphport.quantization.interval import ratio_interval, share_interval
from graphport.runtimes import memory
from graphport.runtimes.inputs import open_axes
from graphport.runtimes.run_limits import current

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.backends import Session
    from graphport.ir.graph import Node
    from graphport.quantization.samples import Run, Samples

Array: TypeAlias = "np.ndarray[Any, Any]"

_MANY = 5_000
"""Nodes from which on a runtime, whose time to get ready grows with their square, is left out where numbers are few."""
_FEW = 1 << 24
"""Bytes of all values of a model whose pages are quickly computed."""

MOST = 150.0
"""dB that are said where nothing differs."""


def session(graph: Graph, *, threads: int = 0, optimize: bool = True, as_run: bool = False) -> Session:
    """`graph` ready to run: on ONNX Runtime, or by the pages where that is not there or does not load it.

    With `as_run` ONNX Runtime rounds what it rounds by default: activations of products with compressed weights.

    So many nodes for so few numbers that a page for each is quicker are computed by the pages, too: ONNX Runtime takes
    17 s to get ready for 20,000 nodes in half precision.
    """
    graph = remove_unused_constants(graph)
    limits = current()
    if limits is not None:
        limits.check_size(graph, "the model")
    if not is_installed("onnxruntime") or _is_long(graph):
        return reference.prepare(graph)
    # What it loads with optimizations may be more or less than without: not every kernel takes every type.
    for is_optimized in dict.fromkeys((optimize, False)):
        try:
            return onnxruntime.prepare(graph, threads=threads, optimize=is_optimized, quick=as_run, spins=False)
        except DiagnosticError as error:
            if any(finding.code != "RUN0003" for finding in error.diagnostics):
                raise
    return reference.prepare(graph)


def _is_long(graph: Graph) -> bool:
    """Whether a page for each node is quicker than to get a runtime ready."""
    if len(graph) < _MANY or any(node.has_bodies for node in graph):
        return False
    sizes = graph.extents.numbers(open_axes(graph)[0])
    counts = [memory.nbytes(value, sizes) for value in graph.values()]
    return sum(counts) < _FEW and all(counts) and all(registry.meaning(node) for node in graph)


def observing(graph: Graph, values: Iterable[Value]) -> Graph:
    """A copy of `graph` that returns `values`, too."""
    twin = rewrite.copy(graph)
    twins = dict(zip(graph.values(), twin.values(), strict=True))
    for value in values:
        if not value.is_input and not twins[value].is_output:
            twin.add_output(twins[value])
    return twin


@dataclass(slots=True)
class Noise:
    """Signal and noise of the outputs of a model, summed over runs."""

    signal: dict[str, float] = field(default_factory=dict[str, float])
    noise: dict[str, float] = field(default_factory=dict[str, float])
    places: int = 0
    agreeing: int = 0
    each: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    """Signal and noise of every sample by itself, or of a run whose outputs have no axis of samples."""
    unseen: float = 0.0
    """What samples that go beyond all that were seen are expected to add, as a part of the noise."""

    def add(self, expected: Mapping[str, Any], found: Mapping[str, Any], count: int = 1) -> None:
        """See the outputs of a run on `count` samples."""
        for name, x in expected.items():
            if not is_array(x) or x.dtype.kind != "f" or np.shape(found[name]) != x.shape:
                continue
            y: Array = np.asarray(found[name], np.float64)
            rows = count if x.ndim and x.shape[0] == count else 1
            # Infinities that both have are no noise, and no signal either.
            finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
            difference = np.subtract(x, y, where=x != y, out=np.zeros_like(y))
            signals = np.sum(finite.reshape(rows, -1) ** 2, axis=1)
            noises = np.sum(difference.reshape(rows, -1) ** 2, axis=1)
            self.signal[name] = self.signal.get(name, 0.0) + float(signals.sum())
            self.noise[name] = self.noise.get(name, 0.0) + float(noises.sum())
            self.each.setdefault(name, []).extend(zip(signals.tolist(), noises.tolist(), strict=True))
            if x.ndim == 2 and x.shape[1] > 1:
                self.places += len(x)
                self.agreeing += int(np.sum(x.argmax(axis=1) == y.argmax(axis=1)))

    @property
    def ratio(self) -> float:
        """Noise to signal of the worst output."""
        return max((self.noise[name] / max(signal, 1e-30) for name, signal in self.signal.items()), default=0.0)

    @property
    def snr(self) -> float:
        """Signal to noise of the worst output in dB."""
        return decibels(self.ratio)

    @property
    def snr_range(self) -> tuple[float, float] | None:
        """Between what dB the worst output lies on other samples (95 %); `None` where too few were seen to know."""
        if not self.signal:
            return None
        worst = max(self.signal, key=lambda name: self.noise[name] / max(self.signal[name], 1e-30))
        signals, noises = zip(*self.each[worst], strict=True)
        found = ratio_interval(signals, noises, self.unseen)
        return None if found is None else (decibels(found[1]), decibels(found[0]))

    @property
    def margin(self) -> float:
        """dB that the worst output may be less on other samples: down to the lower end of `snr_range`, or 0."""
        found = self.snr_range
        return 0.0 if found is None else max(self.snr - found[0], 0.0)

    @property
    def agreement_range(self) -> tuple[float, float] | None:
        """Between what the agreement lies on other samples (95 %)."""
        return share_interval(self.agreeing, self.places)

    @property
    def agreement(self) -> float | None:
        """How often the largest entry of a row is the same one; `None` where no output has rows."""
        return self.agreeing / self.places if self.places else None


def decibels(ratio: float) -> float:
    """Signal to noise in dB of a ratio of noise to signal."""
    return MOST if ratio <= 10 ** (-MOST / 10) else float(-10 * np.log10(ratio)) if np.isfinite(ratio) else -MOST


@dataclass(slots=True, eq=False)
class Judge:
    """Holds quantized graphs against the real one on samples that no algorithm saw."""

    runs: list[Run]
    expected: list[dict[str, Any]]
    threads: int = 0
    optimize: bool = True

    @classmethod
    def of(cls, graph: Graph, samples: Samples, batch: int, *, threads: int = 0, optimize: bool = True) -> Judge:
        """Remember what `graph` gives."""
        runs = list(samples.runs(batch))
        real = session(graph, threads=threads)
        return cls(runs, [real.run(inputs) for inputs, _ in runs], threads, optimize)

    def noise(self, graph: Graph, *, as_run: bool = False) -> Noise:
        """The noise of `graph` as its runtime computes it; `as_run`: where nobody tells it to be exact."""
        return self._noise(session(graph, threads=self.threads, optimize=self.optimize, as_run=as_run))

    def noise_by_itself(self, graph: Graph, runtime: str) -> Noise | None:
        """The noise of `graph` as `runtime` computes it by itself; `None` where it is not here or does not run it."""
        if not is_installed(runtime):
            return None
        try:
            return self._noise(backends.prepare(graph, runtime, threads=self.threads, quick=True))
        except DiagnosticError:
            return None

    def _noise(self, made: Session) -> Noise:
        noise = Noise()
        for (inputs, count), expected in zip(self.runs, self.expected, strict=True):
            noise.add(expected, made.run(inputs), count)
        return noise


class Piece:
    """Some nodes of a graph as a graph of their own; what they read and is not constant are its inputs."""

    def __init__(
        self, nodes: Sequence[Node], wanted: Sequence[Value], given: Iterable[Value] = (), *, threads: int = 0
    ) -> None:
        self._threads = threads
        self._nodes = nodes
        self._wanted = wanted
        self._names: dict[Value, str] = {}
        self._given = set(given)
        self._session: Session | None = None
        # What is known of shapes makes runs faster, until one comes that has others.
        self._shapes: dict[Value, tuple[int, ...]] = {}
        self._is_free = False

    def run(self, values: Mapping[Value, Any]) -> dict[Value, Any]:
        """The wanted values, computed from others."""
        if self._session is None:
            self._session = self._prepared(values)
            self._shapes = {value: _shape(values[value]) for value in self._names}
        elif not self._is_free and any(_shape(values[value]) != shape for value, shape in self._shapes.items()):
            self._is_free = True
            self._session = self._prepared(values)
        given = {name: _array(values[value]) for value, name in self._names.items()}
        found = self._session.run(given)
        return dict(zip(self._wanted, found.values(), strict=True))

    def _prepared(self, values: Mapping[Value, Any]) -> Session:
        graph = Graph("piece")
        twins: dict[Value, Value] = {}
        made = {value for node in self._nodes for value in node.results}
        reads = [value for node in self._nodes for value in [*node.operands, *rewrite.captured(node)]]
        for value in dict.fromkeys(reads):
            if value in made:
                continue
            if value.is_constant and value not in self._given:
                twins[value] = graph.add_constant(value.name, value.fact, value.storage)
            else:
                fact = value.fact if self._is_free else _fact(value, values[value])
                twins[value] = graph.add_input(value.name, fact)
                self._names[value] = twins[value].name
        for node in self._nodes:
            twin = graph.append(rewrite.copy_node(node, twins))
            twins.update(zip(node.results, twin.results, strict=True))
        for value in self._wanted:
            graph.add_output(twins[value])
        return session(graph, threads=self._threads)


def _shape(x: Any) -> tuple[int, ...]:
    """The shape of an array; sequences and nothing have none."""
    return x.shape if is_array(x) else ()


def _fact(value: Value, array: Any) -> Any:
    if not is_array(array) or not isinstance(value.fact, TensorFact):
        return value.fact
    return TensorFact(DType.of(array.dtype), array.shape)


def _array(value: Any) -> Any:
    """A value as it is given to a run: a number that was rounded is one of NumPy's, and no array any more."""
    return np.asarray(value) if type(value).__module__ == "numpy" and np.ndim(value) == 0 else value

"""Run graphs during quantization, and measure noise."""

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
from graphport.quantization.confidence_interval import ratio_interval, share_interval
from graphport.quantization.output_parts import Decisions, OutputPart, find_decisions, find_output_parts, operands_of
from graphport.runtimes import memory
from graphport.runtimes.inputs import open_axes
from graphport.runtimes.run_limits import current

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphport.backends import Session
    from graphport.ir.graph import Node
    from graphport.quantization.samples import Run, Samples

Array: TypeAlias = "np.ndarray[Any, Any]"

_MIN_SLOW_SETUP_NODES = 5_000
"""Number of nodes above which the reference interpreter may run small values: runtime setup grows with its square."""
_MAX_INTERPRETED_BYTES = 1 << 24
"""Maximum bytes of all values for the reference interpreter."""

_MATRIX = 2
MAX_SNR_DB = 150.0
"""SNR in dB that is reported for equal outputs."""


def session(graph: Graph, *, threads: int = 0, optimize: bool = True, as_run: bool = False) -> Session:
    """Return a session for `graph`: ONNX Runtime, or the reference interpreter if that is absent or rejects the model.

    With `as_run` ONNX Runtime uses its default roundings: it quantizes activations of products with compressed weights.

    Graphs with very many nodes and little data run on the reference interpreter, too: ONNX Runtime needs 17 s to
    prepare 20,000 nodes in half precision.
    """
    graph = remove_unused_constants(graph)
    limits = current()
    if limits is not None:
        limits.check_size(graph, "the model")
    if not is_installed("onnxruntime") or _is_long(graph):
        return reference.prepare(graph)
    # Some kernels exist only with optimizations, others only without.
    for is_optimized in dict.fromkeys((optimize, False)):
        try:
            return onnxruntime.prepare(graph, threads=threads, optimize=is_optimized, quick=as_run, spins=False)
        except DiagnosticError as error:
            if any(finding.code != "RUN0003" for finding in error.diagnostics):
                raise
    return reference.prepare(graph)


def _is_long(graph: Graph) -> bool:
    """Whether many nodes and little data make a runtime's setup slower than the reference interpreter."""
    if len(graph) < _MIN_SLOW_SETUP_NODES or any(node.has_bodies for node in graph):
        return False
    sizes = graph.extents.evaluate_symbols(open_axes(graph)[0])
    counts = [memory.nbytes(value, sizes) for value in graph.values()]
    return sum(counts) < _MAX_INTERPRETED_BYTES and all(counts) and all(registry.meaning(node) for node in graph)


def observing(graph: Graph, values: Iterable[Value]) -> Graph:
    """Return a copy of `graph` that also returns `values`."""
    twin = rewrite.copy(graph)
    twins = dict(zip(graph.values(), twin.values(), strict=True))
    for value in values:
        if not value.is_input and not twins[value].is_output:
            twin.add_output(twins[value])
    return twin


@dataclass(slots=True)
class Noise:
    """Signal and noise of the parts of a model's outputs, summed over runs; without `parts` of whole outputs."""

    parts: Mapping[str, tuple[OutputPart, ...]] = field(default_factory=dict[str, "tuple[OutputPart, ...]"])
    results: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Integer outputs of decisions, and whether their rows form a set; see `Decisions`."""
    signal: dict[str, float] = field(default_factory=dict[str, float])
    noise: dict[str, float] = field(default_factory=dict[str, float])
    places: int = 0
    agreeing: int = 0
    each: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    """Signal and noise of each sample, or of a run whose outputs have no batch axis."""
    unseen: float = 0.0
    """Expected additional noise of samples beyond the observed range, as a fraction of the noise."""

    def add(self, expected: Mapping[str, Any], found: Mapping[str, Any], count: int = 1) -> None:
        """Accumulate signal and noise of the outputs `found` of a quantized run on `count` samples."""
        for name, x in expected.items():
            if not is_array(x) or name not in found:
                continue
            if name in self.results:
                self._compare_decisions(x, np.asarray(found[name]), is_set=self.results[name])
            if x.dtype.kind != "f" or np.shape(found[name]) != x.shape:
                continue
            y: Array = np.asarray(found[name], np.float64)
            rows = count if x.ndim and x.shape[0] == count else 1
            # Equal infinities are neither noise nor signal.
            finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
            difference = np.subtract(x, y, where=x != y, out=np.zeros_like(y))
            for part in self.parts.get(name) or (OutputPart(name),):
                self._add_part(part, finite, difference, rows)
            if x.ndim == _MATRIX and x.shape[1] > 1:
                self.places += len(x)
                self.agreeing += int(np.sum(x.argmax(axis=1) == y.argmax(axis=1)))

    def _add_part(self, part: OutputPart, x: Array, difference: Array, rows: int) -> None:
        signals = np.sum(part.centered(x).reshape(rows, -1) ** 2, axis=1) * part.correction
        noises = np.sum(part.select(difference).reshape(rows, -1) ** 2, axis=1)
        self.signal[part.name] = self.signal.get(part.name, 0.0) + float(signals.sum())
        self.noise[part.name] = self.noise.get(part.name, 0.0) + float(noises.sum())
        self.each.setdefault(part.name, []).extend(zip(signals.tolist(), noises.tolist(), strict=True))

    def _compare_decisions(self, x: Array, y: Array, *, is_set: bool) -> None:
        """Count equal elements, or common rows of two sets of rows."""
        if is_set and x.ndim == y.ndim == _MATRIX:
            rows, others = ({tuple(row) for row in array.tolist()} for array in (x, y))
            self.places += len(rows | others)
            self.agreeing += len(rows & others)
        elif x.shape == y.shape:
            self.places += x.size
            self.agreeing += int(np.sum(x == y))

    @property
    def worst(self) -> str | None:
        """Name of the part with the least SNR; `None` if there is no part."""
        return max(self.signal, key=lambda name: self.noise[name] / max(self.signal[name], 1e-30), default=None)

    @property
    def ratio(self) -> float:
        """Noise-to-signal ratio of the worst part."""
        worst = self.worst
        return 0.0 if worst is None else self.noise[worst] / max(self.signal[worst], 1e-30)

    @property
    def snr(self) -> float:
        """SNR of the worst part in dB."""
        return decibels(self.ratio)

    @property
    def snr_range(self) -> tuple[float, float] | None:
        """95 % confidence interval in dB of the worst part on other samples; `None` with too few samples."""
        worst = self.worst
        if worst is None:
            return None
        signals, noises = zip(*self.each[worst], strict=True)
        found = ratio_interval(signals, noises, self.unseen)
        return None if found is None else (decibels(found[1]), decibels(found[0]))

    @property
    def margin(self) -> float:
        """Difference in dB to the lower limit of `snr_range`, or 0."""
        found = self.snr_range
        return 0.0 if found is None else max(self.snr - found[0], 0.0)

    @property
    def agreement_range(self) -> tuple[float, float] | None:
        """95 % confidence interval of the agreement on other samples."""
        return share_interval(self.agreeing, self.places)

    @property
    def agreement(self) -> float | None:
        """Fraction of equal decisions: argmax of rows, results of ArgMax, boxes that are kept; `None` without any."""
        return self.agreeing / self.places if self.places else None


def decibels(ratio: float) -> float:
    """Convert a noise-to-signal ratio to SNR in dB."""
    return (
        MAX_SNR_DB
        if ratio <= 10 ** (-MAX_SNR_DB / 10)
        else float(-10 * np.log10(ratio))
        if np.isfinite(ratio)
        else -MAX_SNR_DB
    )


@dataclass(slots=True, eq=False)
class Judge:
    """Compares quantized graphs with the float graph on held-out samples.

    `fed` maps inputs to the outputs that are fed back to them: then the runs are successive iterations, and each graph
    reads the states that it has computed.
    """

    runs: list[Run]
    expected: list[dict[str, Any]]
    threads: int = 0
    optimize: bool = True
    parts: Mapping[str, tuple[OutputPart, ...]] = field(default_factory=dict[str, "tuple[OutputPart, ...]"])
    decisions: Decisions = field(default_factory=Decisions)
    fed: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(
        cls,
        graph: Graph,
        samples: Samples,
        batch: int,
        *,
        threads: int = 0,
        optimize: bool = True,
        fed: Mapping[str, str] | None = None,
    ) -> Judge:
        """Compute the reference outputs of `graph`."""
        decisions = find_decisions(graph)
        judge = cls(list(samples.runs(batch)), [], threads, optimize, {}, decisions, fed or {})
        operands = operands_of(graph, decisions)
        twin, names = _exposed(graph, operands)
        judge.expected = [
            {name: x for name, x in found.items() if name not in decisions.replaced}
            for found in judge._outputs(session(twin, threads=threads), names, feeds_back=True)
        ]
        judge.parts = find_output_parts({value.name: value for value in graph.outputs} | operands, judge.expected)
        return judge

    def noise(self, graph: Graph, *, as_run: bool = False, feeds_back: bool = True) -> Noise:
        """Return the noise of the quantized `graph`, run with `session`, relative to the float outputs.

        Args:
            graph: a quantized copy of the float graph.
            as_run: with the runtime's default roundings.
            feeds_back: whether states are those of `graph`; otherwise those of the float graph.
        """
        twin, names = _exposed(graph, operands_of(graph, self.decisions))
        made = session(twin, threads=self.threads, optimize=self.optimize, as_run=as_run)
        return self._noise(made, names, feeds_back=feeds_back)

    def noise_by_itself(self, graph: Graph, runtime: str) -> Noise | None:
        """Return the noise of `graph` on `runtime` with default settings.

        `None` if it is absent or rejects the model.
        """
        if not is_installed(runtime):
            return None
        try:
            twin, names = _exposed(graph, operands_of(graph, self.decisions))
            return self._noise(backends.prepare(twin, runtime, threads=self.threads, quick=True), names)
        except DiagnosticError:
            return None

    def _noise(self, made: Session, names: Mapping[str, str], *, feeds_back: bool = True) -> Noise:
        noise = Noise(self.parts, self.decisions.results)
        outputs = self._outputs(made, names, feeds_back=feeds_back)
        for (_, count), expected, found in zip(self.runs, self.expected, outputs, strict=True):
            noise.add(expected, found, count)
        return noise

    def _outputs(self, made: Session, names: Mapping[str, str], *, feeds_back: bool) -> Iterator[dict[str, Any]]:
        """Yield outputs of each run and operands of decisions (ArgMax, TopK) by their names in the float graph."""
        state: dict[str, Any] = {}
        for index, (inputs, _) in enumerate(self.runs):
            found = made.run({**inputs, **state})
            yield {**found, **{name: found[twin] for name, twin in names.items()}}
            source = found if feeds_back else self.expected[index]
            state = {name: np.nan_to_num(np.asarray(source[output])) for name, output in self.fed.items()}


def _exposed(graph: Graph, values: Mapping[str, Value]) -> tuple[Graph, dict[str, str]]:
    """Return a copy of `graph` that also returns `values`, with their names in it."""
    names = {name: value.name for name, value in values.items() if not value.is_input}
    return (observing(graph, [values[name] for name in names]) if names else graph), names


class Subgraph:
    """Some nodes as a separate graph; non-constant operands are its inputs."""

    def __init__(
        self, nodes: Sequence[Node], wanted: Sequence[Value], given: Iterable[Value] = (), *, threads: int = 0
    ) -> None:
        self._threads = threads
        self._nodes = nodes
        self._wanted = wanted
        self._names: dict[Value, str] = {}
        self._given = set(given)
        self._session: Session | None = None
        # Static shapes make runs faster, but a run with other shapes needs a new session.
        self._shapes: dict[Value, tuple[int, ...]] = {}
        self._is_free = False

    def run(self, values: Mapping[Value, Any]) -> dict[Value, Any]:
        """Compute the requested values from the inputs."""
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
    """Return the shape of an array; `None` for sequences and absent values."""
    return x.shape if is_array(x) else ()


def _fact(value: Value, array: Any) -> Any:
    if not is_array(array) or not isinstance(value.fact, TensorFact):
        return value.fact
    return TensorFact(DType.of(array.dtype), array.shape)


def _array(value: Any) -> Any:
    """Return a value as an array: NumPy scalars are converted."""
    return np.asarray(value) if type(value).__module__ == "numpy" and np.ndim(value) == 0 else value

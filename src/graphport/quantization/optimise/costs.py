"""Measure the time of nodes and whole models on the target's runtime."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.backends import is_installed
from graphport.conversion.export import export_graph
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import runtime as onnxruntime
from graphport.formats.openvino import runtime as openvino
from graphport.quantization.nbits import exact_products, products_of
from graphport.quantization.rotary_embeddings import with_rotations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from graphport.backends import Session
    from graphport.ir.graph import Graph, Node

_TURNS, _LEAST_TURNS = 7, 3
_SECONDS, _RUNS = 0.009, 200
"""Maximum seconds and minimum number of turns; and seconds or runs of a turn of one model."""
_MAX_TOTAL_SECONDS = 12.0
"""Maximum processor seconds of all turns, unless the minimum number of turns takes more."""
_MAX_FUSED_NODES = 3
"""Number of nodes after a layer that a kernel fuses: an addition and an activation."""
_MAX_EXACT_SLOWDOWN = 1.15
"""Permitted slowdown of a run with unquantized activations."""
_RATE, _CALL = 2e-4, 1.0
"""Microseconds to quantize an element, if not measured, and to call a kernel."""
_MIN_SECONDS = 1e-9
"""Minimum seconds of a run, where the clock shows 0."""
_ALIKE = 1.5
"""Maximum ratio of measured and expected speedups, in either direction, for which the rates are trusted."""


def preparer(target: str) -> Callable[[Graph], Session] | None:
    """Return a function that creates single-threaded sessions of the target's runtime.

    `None` if it is not installed.
    """
    match target:
        case "onnxruntime" if is_installed("onnxruntime"):
            return lambda graph: onnxruntime.prepare(graph, threads=1, quick=True)
        case "openvino" if is_installed("openvino"):
            return lambda graph: openvino.prepare(graph, export=export_graph, threads=1, quick=True)
        case _:
            return None


def relative_times(sessions: Sequence[Session], inputs: Mapping[str, Any]) -> tuple[float, list[float]]:
    """Return processor milliseconds of the first of `sessions`, and the relative time of each: medians of turns."""
    runs: list[int] = []
    whole = 0.0
    for made in sessions:
        made.run(inputs)
        started = time.process_time()
        made.run(inputs)
        once = max(time.process_time() - started, 1e-6)
        runs.append(min(max(int(_SECONDS / once), 1), _RUNS))
        whole += runs[-1] * once
    table: list[list[float]] = []
    for _ in range(min(_TURNS, max(int(_MAX_TOTAL_SECONDS / whole), _LEAST_TURNS))):
        row: list[float] = []
        for made, count in zip(sessions, runs, strict=True):
            started = time.process_time()
            for _ in range(count):
                made.run(inputs)
            row.append((time.process_time() - started) / count)
        table.append(row)
    table = [[max(each, _MIN_SECONDS) for each in row] for row in table]
    first = _median([row[0] for row in table])
    return 1e3 * first, [_median([row[i] / row[0] for row in table]) for i in range(len(sessions))]


def _median(numbers: Sequence[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


class RelativeTimer:
    """Timer of the source and other models in turns; only one of them is in memory besides the source."""

    def __init__(self, prepare: Callable[[Graph], Session], source: Graph, runs: Sequence[Mapping[str, Any]]) -> None:
        """Prepare the source for the first of `runs` that it computes."""
        self._prepare, self._source = prepare, prepare(source)
        self._inputs = runs[-1]
        self._spent: list[float] = []
        for inputs in runs[:-1]:
            with suppress(DiagnosticError):
                self._source.run(inputs)
                self._inputs = inputs
                break

    @property
    def milliseconds(self) -> float:
        """Processor milliseconds of the source."""
        return _median(self._spent)

    def relative_time(self, graph: Graph) -> float:
        """Return the time of a model relative to the source."""
        sessions = (self._source, self._prepare(graph))
        spent, (_, part) = relative_times(sessions, self._inputs)
        self._spent.append(spent)
        return part


def exact_layers(graph: Graph, runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return products with few-bit blocks whose activations should stay float: all, half or none.

    The faster kernel depends on the number of rows: `runs` have equal weight, and the choice with the least worst-case
    slowdown is taken; all may be slightly slower, as results are more accurate.
    """
    names, made = products_of(graph), preparer("onnxruntime")
    ways = [tuple(names), (), tuple(names[::2]), tuple(names[1::2])]
    if made is None or not names:
        return ()
    try:
        # Only operators that are written explicitly have alternatives.
        graphs = [with_rotations(exact_products(graph, way)) if way else exact_products(graph, way) for way in ways]
        sessions = [made(each) for each in graphs]
        parts = [relative_times(sessions, inputs)[1] for inputs in runs]
    except DiagnosticError:
        return ()
    behind = [max(each[number] / min(each) for each in parts) for number in range(len(ways))]
    behind[0] /= _MAX_EXACT_SLOWDOWN
    return ways[min(range(len(ways)), key=behind.__getitem__)]


@dataclass(slots=True, eq=False)
class Times:
    """Microseconds of nodes by name, and of quantizing one element."""

    nodes: dict[str, float] = field(default_factory=dict[str, float])
    rate: float = _RATE

    def rounding(self, elements: int) -> float:
        """Return the time of a kernel that quantizes or dequantizes so many elements."""
        return _CALL + self.rate * elements


def steadied(measured: tuple[Times, Times], expected: tuple[Times, Times]) -> tuple[Times, Times]:
    """Return times of float and quantized nodes: those `expected` by rates of kernels, if the rates are valid here.

    Measured times vary, more so on a busy machine; rates do not. They are valid if the median speedup of integer
    kernels is near the expected one; otherwise `measured` is used. Nodes without a measured time take 0: another kernel
    contains them.
    """
    pairs = list(zip(measured, expected, strict=True))
    known = [{name: x for name, x in times.nodes.items() if plan.nodes.get(name)} for times, plan in pairs]
    if not all(known):
        return measured
    real, rounded = (
        _median([x / plan.nodes[name] for name, x in nodes.items()])
        for nodes, (_, plan) in zip(known, pairs, strict=True)
    )
    if not 1 / _ALIKE < rounded / real < _ALIKE:
        return measured
    before, after = (
        Times({name: plan.nodes[name] for name in nodes}, plan.rate)
        for nodes, (_, plan) in zip(known, pairs, strict=True)
    )
    return before, after


def times_of(graph: Graph, inputs: Mapping[str, Any], names: Collection[str]) -> Times | None:
    """Return times of the nodes `names` of `graph` from ONNX Runtime's profile; `None` if it cannot be run.

    A kernel has the name of its node or result, with a suffix if it was transformed. A fused kernel has the name of the
    node that does most of the work.
    """
    try:
        found = onnxruntime.kernel_times(graph, inputs)
    except DiagnosticError:
        return None
    times, known = Times(), set(names)
    makers = {value.name: node for node in graph for value in node.results}
    elements = spent = 0.0
    for kernel in found:
        name = _owner(kernel, known, makers)
        if name is not None:
            times.nodes[name] = times.nodes.get(name, 0.0) + kernel.microseconds
        elif kernel.operator.endswith("QuantizeLinear") or kernel.operator.startswith("QuantizeLinear"):
            elements += kernel.elements
            spent += max(kernel.microseconds - _CALL, 0.0)
    if elements > 0:
        times.rate = spent / elements
    return times


def _owner(kernel: onnxruntime.Kernel, known: Collection[str], makers: Mapping[str, Node]) -> str | None:
    """Return the name of the node that does most of a kernel's work, from the kernel's name; `None` if unknown."""
    name = kernel.name
    while name not in known and name not in makers:
        if "_" not in name:
            return None
        name = name.rpartition("_")[0]
    if name in known:
        return name
    node = makers[name]
    for _ in range(_MAX_FUSED_NODES):
        if node.op in kernel.operator:
            break
        above = [value.producer for value in node.operands if value.producer is not None and len(value.uses) == 1]
        if not above:
            break
        node = next((maker for maker in above if maker.op in kernel.operator), above[0])
    return node.name if node.op in kernel.operator and node.name in known else None

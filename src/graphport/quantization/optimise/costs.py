"""What a run costs: the time of each node on the target's runtime, and of whole models beside each other."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.backends import is_installed
from graphport.conversion.lift import lift
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import runtime as onnxruntime
from graphport.formats.openvino import runtime as openvino
from graphport.quantization.nbits import exact_products, products_of
from graphport.quantization.rotations import with_rotations

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from graphport.backends import Session
    from graphport.ir.graph import Graph, Node

_TURNS, _LEAST_TURNS = 7, 3
_SECONDS, _RUNS = 0.009, 200
"""How many turns are taken at most, and at least; and what a turn of one model takes, or how many runs that has."""
_WHOLE = 12.0
"""Seconds of processor time that all turns may take, unless the least number of them takes more."""
_FUSED = 3
"""Nodes behind a layer that a kernel takes in: an addition and what bends its result."""
_NEARER = 1.15
"""How many times as long a run may take whose activations are not rounded."""
_RATE, _CALL = 2e-4, 1.0
"""Microseconds of rounding an element, where none was seen, and of calling any kernel."""
_LEAST_SECONDS = 1e-9
"""What a run takes at least, where a clock shows nothing."""
_ALIKE = 1.5
"""How many times as long, or short, rounded kernels may be beside real ones as rates say that are held true here."""


def preparer(target: str) -> Callable[[Graph], Session] | None:
    """What makes a session of the target's runtime on one thread; `None` where it is not here."""
    match target:
        case "onnxruntime" if is_installed("onnxruntime"):
            return lambda graph: onnxruntime.prepare(graph, threads=1, quick=True)
        case "openvino" if is_installed("openvino"):
            return lambda graph: openvino.prepare(graph, export=lift, threads=1, quick=True)
        case _:
            return None


def parts_of(sessions: Sequence[Session], inputs: Mapping[str, Any]) -> tuple[float, list[float]]:
    """Milliseconds of processor time of the first of `sessions`, and what part of that each takes: medians of turns."""
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
    for _ in range(min(_TURNS, max(int(_WHOLE / whole), _LEAST_TURNS))):
        row: list[float] = []
        for made, count in zip(sessions, runs, strict=True):
            started = time.process_time()
            for _ in range(count):
                made.run(inputs)
            row.append((time.process_time() - started) / count)
        table.append(row)
    table = [[max(each, _LEAST_SECONDS) for each in row] for row in table]
    first = _median([row[0] for row in table])
    return 1e3 * first, [_median([row[i] / row[0] for row in table]) for i in range(len(sessions))]


def _median(numbers: Sequence[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


class Beside:
    """The source, and others that are timed in turns with it, one after the other: only one of them is held."""

    def __init__(self, prepare: Callable[[Graph], Session], source: Graph, runs: Sequence[Mapping[str, Any]]) -> None:
        """Get the source ready for the first of `runs` that it computes."""
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
        """Of processor time that the source takes."""
        return _median(self._spent)

    def part(self, graph: Graph) -> float:
        """What part of the source's time a model takes."""
        sessions = (self._source, self._prepare(graph))
        spent, (_, part) = parts_of(sessions, self._inputs)
        self._spent.append(spent)
        return part


def exact_layers(graph: Graph, runs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Products with blocks of few bits for which activations should not be rounded: all, or half, or none.

    Which kernels are quicker depends on how many rows a run has: `runs` are those that count alike, and the way is
    taken that is the least behind the quickest one at its worst; all may be a little more so, as results are nearer.
    """
    names, made = products_of(graph), preparer("onnxruntime")
    ways = [tuple(names), (), tuple(names[::2]), tuple(names[1::2])]
    if made is None or not names:
        return ()
    try:
        # Only what is said in operators of its own anyway has those that turn.
        graphs = [with_rotations(exact_products(graph, way)) if way else exact_products(graph, way) for way in ways]
        sessions = [made(each) for each in graphs]
        parts = [parts_of(sessions, inputs)[1] for inputs in runs]
    except DiagnosticError:
        return ()
    behind = [max(each[number] / min(each) for each in parts) for number in range(len(ways))]
    behind[0] /= _NEARER
    return ways[min(range(len(ways)), key=behind.__getitem__)]


@dataclass(slots=True, eq=False)
class Times:
    """Microseconds of nodes by name, and of rounding one element."""

    nodes: dict[str, float] = field(default_factory=dict[str, float])
    rate: float = _RATE

    def rounding(self, elements: int) -> float:
        """Of a kernel that rounds, or takes back, so many elements."""
        return _CALL + self.rate * elements


def steadied(measured: tuple[Times, Times], expected: tuple[Times, Times]) -> tuple[Times, Times]:
    """Times of real and of rounded nodes: those that are `expected` by rates of kernels, if these are true here.

    What is timed differs from run to run, and more so on a machine that has much else to do; rates do not. They are
    true where kernels for integers, in the middle, take about as long beside real ones as rates say; else what was
    `measured` is taken. Nodes that nothing was measured of take nothing: another kernel does their work.
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
    """What ONNX Runtime's own profile says of the nodes `names` of `graph`; `None` where it cannot be run.

    A kernel is called as the node that it computes, or as its result, with an ending for what it was made into. What is
    fused into the node that did most of it is that node's.
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
    """The node that a kernel is of, by the name of the kernel."""
    name = kernel.name
    while name not in known and name not in makers:
        if "_" not in name:
            return None
        name = name.rpartition("_")[0]
    if name in known:
        return name
    node = makers[name]
    for _ in range(_FUSED):
        if node.op in kernel.operator:
            break
        above = [value.producer for value in node.operands if value.producer is not None and len(value.uses) == 1]
        if not above:
            break
        node = next((maker for maker in above if maker.op in kernel.operator), above[0])
    return node.name if node.op in kernel.operator and node.name in known else None

"""What a run costs: the time of each node on the target's runtime, and of whole models beside each other."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.backends import is_installed, onnxruntime, openvino
from graphport.core.diagnostics import DiagnosticError
from graphport.quantization.nbits import EXACT, ROUNDED, exact_products

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from graphport.backends import Session
    from graphport.ir.graph import Graph

_TURNS = 9
_SECONDS = 0.04
"""Of a turn of one model, at least; and how many turns are taken."""
_RATE, _CALL = 2e-4, 1.0
"""Microseconds of rounding an element, where none was seen, and of calling any kernel."""


def preparer(target: str) -> Callable[[Graph], Session] | None:
    """What makes a session of the target's runtime on one thread; `None` where it is not here."""
    match target:
        case "onnxruntime" if is_installed("onnxruntime"):
            return lambda graph: onnxruntime.prepare(graph, threads=1, quick=True)
        case "openvino" if is_installed("openvino"):
            return lambda graph: openvino.prepare(graph, threads=1)
        case _:
            return None


def parts_of(sessions: Sequence[Session], inputs: Mapping[str, Any]) -> tuple[float, list[float]]:
    """Milliseconds of processor time of the first of `sessions`, and what part of that each takes: medians of turns."""
    runs: list[int] = []
    for made in sessions:
        made.run(inputs)
        started = time.process_time()
        made.run(inputs)
        runs.append(max(int(_SECONDS / max(time.process_time() - started, 1e-6)), 1))
    table: list[list[float]] = []
    for _ in range(_TURNS):
        row: list[float] = []
        for made, count in zip(sessions, runs, strict=True):
            started = time.process_time()
            for _ in range(count):
                made.run(inputs)
            row.append((time.process_time() - started) / count)
        table.append(row)
    first = _median([row[0] for row in table])
    return 1e3 * first, [_median([row[i] / max(row[0], 1e-9) for row in table]) for i in range(len(sessions))]


def _median(numbers: Sequence[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


def is_exact_better(graph: Graph, runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether blocks of few bits lose less time where activations are not rounded than where they are, at the worst.

    Which kernels are quicker depends on how many rows a run has: `runs` are those that count alike.
    """
    made = preparer("onnxruntime")
    if made is None:
        return False
    try:
        sessions = [made(exact_products(graph, level)) for level in (ROUNDED, EXACT)]
        parts = [parts_of(sessions, inputs)[1][1] for inputs in runs]
    except DiagnosticError:
        return False
    return max(parts) < max(1 / part for part in parts)


@dataclass(slots=True, eq=False)
class Times:
    """Microseconds of nodes by name, and of rounding one element."""

    nodes: dict[str, float] = field(default_factory=dict[str, float])
    rate: float = _RATE

    def rounding(self, elements: int) -> float:
        """Of a kernel that rounds, or takes back, so many elements."""
        return _CALL + self.rate * elements


def times_of(graph: Graph, inputs: Mapping[str, Any], names: Collection[str]) -> Times | None:
    """What ONNX Runtime's own profile says of the nodes `names` of `graph`; `None` where it cannot be run.

    A kernel is called as the node that it computes, with an ending for what it was made into.
    """
    try:
        found = onnxruntime.kernel_times(graph, inputs)
    except DiagnosticError:
        return None
    times, known = Times(), set(names)
    elements = spent = 0.0
    for kernel in found:
        name = kernel.name
        while name not in known and "_" in name:
            name = name.rpartition("_")[0]
        if name in known:
            times.nodes[name] = times.nodes.get(name, 0.0) + kernel.microseconds
        elif kernel.operator.endswith("QuantizeLinear") or kernel.operator.startswith("QuantizeLinear"):
            elements += kernel.elements
            spent += max(kernel.microseconds - _CALL, 0.0)
    if elements > 0:
        times.rate = spent / elements
    return times

"""Ranges of values during a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Symbolic, symbols
from graphport.quantization.engine import is_array, observing, session
from graphport.quantization.placement import is_float32
from graphport.runtimes.memory import nbytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphport.ir.graph import Graph, Value

_AT_ONCE, _HELD = 64, 1 << 27
"""Values observed in one run, or more up to so many bytes: values of a large graph need not fit into memory."""


@dataclass(frozen=True, slots=True)
class Range:
    """Largest magnitude and root mean square; both infinite if an element was not finite."""

    largest: float
    rms: float


def ranges(graph: Graph, runs: Iterable[Mapping[str, Any]], *, threads: int = 0) -> dict[Value, Range]:
    """Return the ranges of all float values of `graph` that nodes compute, and of its inputs."""
    inputs = list(runs)
    if not inputs:
        return {}
    found: dict[Value, list[tuple[float, float, int]]] = {}
    for given in inputs:
        for value in graph.inputs:
            if is_float32(value):
                found.setdefault(value, []).append(_range_of(given[value.name]))
    computed = [value for node in graph for value in node.results if is_float32(value)]
    for values in _groups(computed, _lengths(graph, inputs)):
        made = session(observing(graph, values), threads=threads)
        for given in inputs:
            arrays = made.run(given)
            for value in values:
                found.setdefault(value, []).append(_range_of(arrays[value.name]))
    return {value: _range(seen) for value, seen in found.items()}


def _lengths(graph: Graph, inputs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the sizes of input symbols in the first run."""
    found: dict[str, int] = {}
    for value in graph.inputs if inputs else ():
        dims = value.shape
        for dim, length in zip(dims or (), np.shape(inputs[0][value.name]), strict=False):
            if isinstance(dim, Symbolic):
                found.update((name, length) for name, own in symbols(dim).items() if own == dim)
    return graph.extents.evaluate_symbols(found)


def _groups(values: Sequence[Value], lengths: Mapping[str, int]) -> Iterator[list[Value]]:
    """Return groups of values that are observed together; unknown sizes count as one of `_AT_ONCE`."""
    group: list[Value] = []
    held = 0
    for value in values:
        group.append(value)
        held += nbytes(value, lengths) or _HELD // _AT_ONCE
        if held >= _HELD and len(group) >= _AT_ONCE:
            yield group
            group, held = [], 0
    if group:
        yield group


def _range_of(array: Any) -> tuple[float, float, int]:
    if not is_array(array) or not array.size:
        return 0.0, 0.0, 0
    x = np.abs(array.astype(np.float64))
    if not np.isfinite(x).all():
        # Masks contain infinities; the other elements decide.
        x = x[np.isfinite(x)]
    return float(x.max(initial=0.0)), float(np.sum(x**2)), array.size


def _range(seen: Iterable[tuple[float, float, int]]) -> Range:
    entries = list(seen)
    count = sum(each[2] for each in entries)
    return Range(max(each[0] for each in entries), (sum(each[1] for each in entries) / max(count, 1)) ** 0.5)

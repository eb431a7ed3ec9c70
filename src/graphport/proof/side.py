"""The sides of a proof, and how their inputs correspond."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.comparison.pairs import originals
from graphport.ir import rewrite
from graphport.ir.states import is_flag, state_of
from graphport.passes.substitution import add_constant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.ir.graph import Graph, Value
    from graphport.proof.runtimes import Runtime


WITHOUT_ORDER = frozenset({"caffe"})
"""Formats whose files do not declare the order of their outputs."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two files, or of two models in memory.

    `letter` is `a` or `b`; `graph` is the canonical graph that graphport read; without `path` there is no file, and so
    no runtime that reads it.
    """

    letter: str
    label: str
    graph: Graph
    path: Path | None = None
    runtime: Runtime | None = None
    size: int | None = None
    """Bytes of the files that it was read from, if it was."""
    format: str = ""
    """Name of its format; empty for a model in memory."""
    has_known_reader: bool = False
    """Whether the file is of no use if `runtime` rejects it."""


def paired(given: Mapping[str, Any], a: Graph, b: Graph) -> dict[str, Any]:
    """Map entries by inputs of `a` to entries by inputs of `b`.

    Inputs are paired by name, by original name, and by the variable of a state; else by position. Entries of unused
    inputs that `b` does not have are omitted.
    """
    of_a, of_b = {value.name: value for value in a.inputs}, {value.name: value for value in b.inputs}
    known = {original: name for name, original in originals(b).items() if name in of_b}
    variables = {state.variable: name for name, value in of_b.items() if (state := state_of(value)) is not None}
    found: dict[str, Any] = {}
    left: list[str] = []
    for name, entry in given.items():
        state = state_of(of_a[name]) if name in of_a else None
        other = name if name in of_b else known.get(name)
        other = variables.get(state.variable) if other is None and state is not None else other
        if other is None:
            left.append(name)
        else:
            found[other] = entry
    free = [name for name, value in of_b.items() if name not in found and name not in of_a and not is_flag(value)]
    for name, other in zip_longest(left, free[: len(left)]):
        if other is not None or name not in of_a or of_a[name].uses or of_a[name].is_output:
            found[other or name] = given[name]
    return found


def settle_kept_states(side: Side, other: Side) -> Side:
    """Replace the first-run flag of `side` by true if `other` has states but no flag.

    The other file receives all states in each run, and so do the variables of OpenVINO after the first one.
    """
    flag = next((value for value in side.graph.inputs if is_flag(value)), None)
    if flag is None or any(map(is_flag, other.graph.inputs)) or not _has_states(other.graph):
        return side
    graph = rewrite.copy(side.graph)
    flag = next(value for value in graph.inputs if is_flag(value))
    state = state_of(flag)
    flag.replace_uses(add_constant(graph, np.ones((), np.bool_), f"{flag.name}_set"))
    graph.set_outputs([value for value in graph.outputs if state is None or value.name != state.output])
    graph.remove_input(flag)
    return replace(side, graph=graph)


def repeat_returned_states(side: Side, other: Side) -> Side:
    """Repeat each output of `side` that is also the next value of a state if the other file has an output for each."""
    states = [state for value in side.graph.inputs if (state := state_of(value)) is not None and state.is_returned]
    separate = {state.variable for value in other.graph.inputs if (state := state_of(value)) and not state.is_returned}
    repeated = [state.output for state in states if state.variable in separate]
    if not repeated:
        return side
    graph = rewrite.copy(side.graph)
    named = {value.name: value for value in graph.outputs}
    graph.set_outputs([*graph.outputs, *(named[name] for name in repeated if name in named)])
    return replace(side, graph=graph)


def order_outputs(side: Side, other: Side) -> Side:
    """Reorder the outputs of `side` as in the second file, if its format declares no order and the names agree."""
    if side.format not in WITHOUT_ORDER:
        return side
    names = _original_names(side.graph)
    wanted = list(_original_names(other.graph))
    if list(names) == wanted or set(names) != set(wanted) or len(side.graph.outputs) != len(wanted):
        return side
    graph = rewrite.copy(side.graph)
    names = _original_names(graph)
    graph.set_outputs([names[name] for name in wanted])
    return replace(side, graph=graph)


def _original_names(graph: Graph) -> dict[str, Value]:
    known = originals(graph)
    return {known.get(value.name, value.name): value for value in graph.outputs}


def _has_states(graph: Graph) -> bool:
    return any(state_of(value) is not None for value in graph.inputs)

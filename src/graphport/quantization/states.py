"""Recognize recurrent states of a model, and calibrate them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.facts import TensorFact
from graphport.quantization.columns import ArrayColumn, joined
from graphport.quantization.engine import session
from graphport.quantization.require_layers import is_weighted
from graphport.quantization.samples import spilling

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.columns import Column
    from graphport.quantization.samples import Samples

Array: TypeAlias = "np.ndarray[Any, Any]"

_MIN_SAMPLES = 2
_MIN_RANK = 2
_WORDS = frozenset(
    {"in", "out", "input", "output", "new", "old", "prev", "previous", "next", "past", "present", "last", "n", "t"}
    | {"init", "initial", "updated"}
)
"""Name components that distinguish a state before and after an iteration: `past.0.key`, `present.0.key`."""
_ENDINGS = ("out", "in", "n")
"""Name endings with that purpose: `h`, `hn`."""


def zero_inputs(samples: Samples) -> set[str]:
    """Return the names of the inputs whose calibration data are zero."""
    return {name for name in (*samples.columns, *samples.fixed) if _is_zero(samples, name)}


def pair_states(graph: Graph, zeros: Collection[str] = ()) -> dict[Value, Value]:
    """Map each input to the output of equal type and shape that is fed back to it.

    A pair has related names; or the input is one of `zeros`, and no other input and output have its type and shape. A
    model whose inputs would all be states has none: its output is an image of the same size, for example.
    """
    pairs: dict[Value, Value] = {}
    inputs = [value for value in graph.inputs if value.storage is None and _is_state_like(value)]
    for value in inputs:
        alike = [output for output in dict.fromkeys(graph.outputs) if not output.is_input and _is_alike(value, output)]
        named = [output for output in alike if _stem(output.name) == _stem(value.name)]
        rivals = [other for other in inputs if _is_alike(other, value)]
        found = named or (alike if len(rivals) == 1 and value.name in zeros else [])
        if len(found) == 1:
            pairs[value] = found[0]
    has_others = any(value.storage is None and value not in pairs for value in graph.inputs)
    return pairs if has_others else {}


def roll_out(
    graph: Graph, samples: Samples, states: Mapping[Value, Value], zeros: Collection[str]
) -> tuple[Samples, list[Diagnostic]]:
    """Replace zero calibration data of states by the states of a run over the samples in order.

    A state is zero before the first iteration only; a range of zero would quantize all others to zero.

    Returns:
        The samples, and a note for each replaced input.
    """
    pairs = {value.name: output for value, output in states.items() if value.name in zeros}
    if not pairs or samples.count < _MIN_SAMPLES:
        return samples, []
    columns = _states(graph, samples, pairs)
    changed = replace(
        samples,
        columns={**samples.columns, **columns},
        steps={**samples.steps, **{name: samples.steps.get(name, 0) for name in pairs}},
        fixed={name: array for name, array in samples.fixed.items() if name not in pairs},
    )
    return changed, [
        Diagnostic(
            "QUANT0032",
            f"the calibration data of {name!r} are zero: calibrated with {output.name!r} of the previous sample",
            None,
            "provide recorded states, or samples of a sequence in their order",
            Severity.NOTE,
        )
        for name, output in pairs.items()
    ]


def nodes_of_states(graph: Graph, pairs: Mapping[Value, Value]) -> list[str]:
    """Return the names of nodes with weights that compute the next states."""
    pending = [output.producer for output in pairs.values()]
    found: dict[Node, None] = {}
    while pending:
        node = pending.pop()
        if node is not None and node not in found:
            found[node] = None
            pending += [value.producer for value in node.operands]
    return [node.results[0].name for node in graph if node in found and is_weighted(node)]


def _states(graph: Graph, samples: Samples, pairs: Mapping[str, Value]) -> dict[str, Column]:
    """Run the samples in order; return the value of each state before each sample."""
    runner, keep = session(graph), spilling()
    parts: dict[str, list[Column]] = {name: [] for name in pairs}
    state: dict[str, Array] = {}
    for inputs, _ in samples.runs(1):
        given = {**inputs, **{name: array for name, array in state.items() if array.shape == inputs[name].shape}}
        for name in pairs:
            # An entry of a column is a row of axis 0, or a whole input.
            parts[name].append(keep(given[name] if samples.steps.get(name) else given[name][None]))
        found = runner.run(given)
        state = {name: np.nan_to_num(np.asarray(found[output.name])) for name, output in pairs.items()}
    return {name: joined(columns) for name, columns in parts.items()}


def _is_zero(samples: Samples, name: str) -> bool:
    column = samples.columns.get(name) or ArrayColumn(samples.fixed[name][None])
    return not any(np.any(row) for row in column.rows())


def _is_state_like(value: Value) -> bool:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype is None or not fact.dtype.is_floating or fact.shape is None:
        return False
    return len(fact.shape) >= _MIN_RANK


def _is_alike(value: Value, other: Value) -> bool:
    return _is_state_like(other) and value.dtype == other.dtype and value.shape == other.shape


def _stem(name: str) -> str:
    """Return `name` without `past`, `present` and the like, so that input and output of a state compare equal."""
    stem = "".join(op_type for op_type in re.split(r"[._/\-\s:]+", name.lower()) if op_type not in _WORDS)
    ending = next((ending for ending in _ENDINGS if stem.endswith(ending)), "")
    return stem.removesuffix(ending)

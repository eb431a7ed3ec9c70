"""Mutated buffers of a program: key-value caches, running statistics, counters.

The default model has no state: it computes the first run correctly, and a warning names the mutated buffers. With the
option `states`, each buffer is an input whose default is its initial content, and an output for the next run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.graph_passes.functionalization import WRITTEN
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.ir.graph import Node, Value
from graphport.ir.states import State, mark

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

MUTATED, STATES = "pt2.mutated", "pt2.states"
"""Notes of a graph: the buffers that its signature declares as mutated, and whether they are kept."""
_ALIAS = "aten.alias.default"


def settle(graph: Graph) -> list[Diagnostic]:
    """Convert mutated buffers to inputs and outputs, or warn that their updates are dropped."""
    changed = _changed(graph)
    names = sorted(value.name for value in changed)
    if not changed:
        return []
    if not (graph.has_notes and graph.notes.get(STATES)):
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        message = (
            f"the program writes to {shown}: each run starts with the stored values, and the updates are discarded"
        )
        help = "use --state (states=True) to make them inputs and outputs"
        return [Diagnostic("LEG0005", message, None, help, Severity.WARNING)]
    for value, last in changed.items():
        _keep(graph, value, last)
    return []


def _changed(graph: Graph) -> dict[Value, Value]:
    """Return mutated weights and their new values, from writes or from the signature."""
    found: dict[Value, Value] = {}
    for value in list(graph.constants):
        if value.has_notes and isinstance(last := value.notes.pop(WRITTEN, None), Value):
            found[value] = last
    listed: Any = graph.notes.pop(MUTATED, ()) if graph.has_notes else ()
    if listed:
        named = {value.name: value for value in graph.values()}
        for buffer, last, _ in listed:
            if buffer in named and last in named and named[buffer].is_constant:
                found[named[buffer]] = named[last]
    for value in graph.inputs:
        if value.has_notes:
            value.notes.pop(WRITTEN, None)
    return found


def _keep(graph: Graph, value: Value, last: Value) -> None:
    name = value.name
    # The stored elements apply to the first run only.
    fact = TensorFact(value.fact.dtype, value.fact.shape) if isinstance(value.fact, TensorFact) else value.fact
    given = graph.add_input(f"{name}_in", fact)
    given.storage = value.storage
    value.replace_uses(given)
    after = given if last is value else last
    result = Value(graph.fresh(f"{name}_out"), after.fact)
    graph.append(Node(_ALIAS, [after], [result], {KEYS: ("self",)}, dialect=DIALECT))
    graph.add_output(result)
    mark(given, State(result.name, name))
    if not value.uses:
        graph.remove_constant(value)

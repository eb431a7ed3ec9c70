"""Store states of a model in resource variables of TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.tflite.container.notes import HANDLE
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import state_pairs, unmark

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.states import State

_DIALECT = "tflite"


def keep_states(graph: Graph) -> None:
    """Convert state inputs to variables, which a subgraph that runs once initializes.

    Before  y = ADD(x, s)                                   inputs x and s; y is s of the next run
    After   CALL_ONCE: ASSIGN_VARIABLE(VAR_HANDLE("s"), zeros);  s = READ_VARIABLE(h := VAR_HANDLE("s"));
            y = ADD(x, s);  ASSIGN_VARIABLE(h, y)           input x

    Does not apply to states with dynamic shapes.
    """
    found = [(value, last, state, begins) for value, last, state in state_pairs(graph) if (begins := _begins(value))]
    if not found:
        return
    once = Graph(graph.fresh("begin"))
    graph.share_names(once)
    first = graph.first_node
    hidden = [last for _, last, state, _ in found if not state.is_returned]
    graph.set_outputs([value for value in graph.outputs if value not in hidden])
    for value, last, state, begins in found:
        unmark(value)
        handle = _variable(graph, state, first)
        copy = Value(graph.fresh(value.name), value.fact)
        value.replace_uses(copy)
        read = Node("READ_VARIABLE", [], [copy], {"types": (value.dtype,)}, dialect=_DIALECT, origin=value.origin)
        graph.append(read) if first is None else graph.insert_before(first, read)
        read.inputs = [handle]
        graph.append(Node("ASSIGN_VARIABLE", [handle, copy if last is value else last], [], dialect=_DIALECT))
        graph.remove_input(value)
        start = once.add_constant(value.name, TensorFact.of(begins), begins)
        once.append(Node("ASSIGN_VARIABLE", [_variable(once, state, None), start], [], dialect=_DIALECT))
    begin = Node("CALL_ONCE", [], [], {"init_subgraph": once, "types": ()}, dialect=_DIALECT)
    graph.insert_after(None, begin)


def _begins(value: Value) -> Storage | None:
    fact = value.fact
    if value.storage is not None:
        return value.storage
    if not isinstance(fact, TensorFact) or fact.dtype is None or not fact.is_static:
        return None
    shape = tuple(n for n in fact.dims if isinstance(n, int))
    return ArrayStorage(np.broadcast_to(np.zeros((), fact.dtype.numpy), shape), fact.dtype)


def _variable(graph: Graph, state: State, before: Node | None) -> Value:
    """Create the handle of a variable."""
    handle = Value(graph.fresh(f"{state.variable}_handle"), UNKNOWN)
    handle.notes[HANDLE] = True
    attributes = {"container": "", "shared_name": state.variable, "types": (None,)}
    node = Node("VAR_HANDLE", [], [handle], attributes, dialect=_DIALECT)
    graph.append(node) if before is None else graph.insert_before(before, node)
    return handle

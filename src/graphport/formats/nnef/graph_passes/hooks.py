"""Graph passes of NNEF: variables with updates, and quantization, which NNEF stores outside its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.original_text import original_of
from graphport.formats.nnef.graph_passes import quantization_file
from graphport.formats.nnef.graph_passes.input_shapes import settle_inputs
from graphport.ir import rewrite, states
from graphport.ir.graph import Node, Value
from graphport.ops import registry
from graphport.ops.constant_folding import folded

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph

_MOST_FOLDED = 1 << 20
"""Entries of a constant that is computed."""


def before(graph: Graph) -> None:
    """Restore operators from fragments, expose updated variables, and insert quantization nodes."""
    original = original_of(graph)
    if original is not None and original.declared_operations:
        from graphport.formats.nnef.container.primitives import restore

        restore(graph, original.declared_operations)
    _expose_states(graph)
    quantization_file.expand_quantization(graph)


def before_export(graph: Graph) -> None:
    """Convert quantization nodes to notes; fold integers and dims."""
    settle_inputs(graph)
    quantization_file.note(graph)
    _fold_integers(graph)


def after_export(graph: Graph) -> None:
    """Convert inputs that were variables back; note quantizations of reshaped constants."""
    _hide_states(graph)
    quantization_file.note_moved(graph)


def _fold_integers(graph: Graph) -> None:
    """Fold integers and booleans computed from constants: NNEF has real arithmetic only."""
    known: dict[Value, Storage | None] = {}
    for node in graph:
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        if op_def is None or any(value.is_output for value in node.results) or all(map(_is_float, node.results)):
            continue
        storages = [folded(value, known) for value in node.results]
        made = [storage for storage in storages if storage is not None and storage.count <= _MOST_FOLDED]
        if len(made) < len(storages):
            continue
        for value, storage in zip(node.results, made, strict=True):
            constant = graph.add_constant(graph.fresh(value.name), TensorFact.of(storage), storage, origin=value.origin)
            rewrite.swap_names(value, constant)
            value.replace_uses(constant)
        graph.remove(node)


def _is_float(value: Value) -> bool:
    dtype = value.dtype
    return dtype is None or dtype.is_floating


def _expose_states(graph: Graph) -> None:
    """Convert each updated variable to an input and an output that holds its value for the next run.

    Before  s = variable(label = 's');  t = f(s, x);  y = update(s, t)
    After   s is an input, by default the elements of the file;  t = f(s, x);  y = Identity(t);  y is an output
    """
    for node in graph:
        if node.dialect != "nnef" or node.op_type != "update":
            continue
        variable, value = node.operand(0), node.operand(1)
        if variable is None or value is None or not variable.is_constant:
            continue
        result = node.output
        copy = graph.insert_before(node, Node("Identity", [value], origin=node.origin))
        copy.take_outputs(node)
        graph.remove(node)
        state = _moved(graph, variable, to_input=True)
        states.mark(state, states.State(result.name, state.name, result.is_output))
        if not result.is_output:
            graph.add_output(result)


def _hide_states(graph: Graph) -> None:
    for state, result, kept in states.state_pairs(graph):
        if result.producer is None or state.storage is None:
            continue
        states.unmark(state)
        variable = _moved(graph, state, to_input=False)
        updated = Value(graph.fresh(result.name), result.fact)
        graph.append(Node("update", [variable, result], [updated], dialect="nnef"))
        if kept.is_returned:
            rewrite.swap_names(result, updated)
        graph.set_outputs(
            [updated if each is result else each for each in graph.outputs if each is not result or kept.is_returned]
        )


def _moved(graph: Graph, value: Value, *, to_input: bool) -> Value:
    """Convert a constant to an input of that name, or an input to a constant."""
    twin = Value(graph.fresh(value.name), _fact_without_elements(value), storage=value.storage, origin=value.origin)
    if value.has_notes:
        twin.notes.update(value.notes)
    rewrite.swap_names(value, twin)
    value.replace_uses(twin)
    if to_input:
        graph.remove_constant(value)
        return graph.adopt_input(twin)
    graph.remove_input(value)
    return graph.adopt_constant(twin)


def _fact_without_elements(value: Value) -> TensorFact:
    """Return the fact of a constant without its elements, which another run may change."""
    fact = value.fact
    return TensorFact(fact.dtype, fact.shape) if isinstance(fact, TensorFact) else TensorFact(None, None)

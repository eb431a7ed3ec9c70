"""Graph passes of TFLite around import and export, among them the conversion of resource variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.formats.tflite.graph_passes.dilations import dilate
from graphport.formats.tflite.graph_passes.gelu import fuse_gelus
from graphport.formats.tflite.graph_passes.hash_tables import fill_tables
from graphport.formats.tflite.graph_passes.hybrid import is_hybrid, products_of_rows
from graphport.formats.tflite.graph_passes.integers import integers
from graphport.formats.tflite.graph_passes.layout import move_transposes_down
from graphport.formats.tflite.graph_passes.requantize import requantize
from graphport.formats.tflite.graph_passes.resources import has_expected_arity
from graphport.formats.tflite.graph_passes.scales import even_out, fold_scales
from graphport.formats.tflite.graph_passes.spectra import part_spectra
from graphport.formats.tflite.graph_passes.states import keep_states
from graphport.formats.tflite.graph_passes.views import (
    drop_identities,
    own_results,
    reshape_what_stays,
    shape_from_root,
)
from graphport.formats.tflite.graph_passes.weights import (
    clamp_results,
    shape_constants,
    transpose_fill,
    transpose_stored_constants,
)
from graphport.ir import implicit_rounding, rewrite
from graphport.ir.graph import Graph, walk
from graphport.ir.states import State, mark
from graphport.ops.layout import settle
from graphport.ops.layout_of_operators import OperatorLayouts

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Node, Value

_DIALECT = "tflite"
_HANDLE, _READ, _ASSIGN, _ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"


def before(graph: Graph) -> None:
    """Convert variables to graph inputs and outputs, initialized by the subgraph that runs once."""
    fill_tables(graph)
    hybrid = [node.op_type for inner in walk(graph) for node in inner if is_hybrid(node)]
    if hybrid:
        implicit_rounding.mark_operators(graph, hybrid)
    for inner in walk(graph):
        part_spectra(inner)
        dilate(inner)
    nodes = [node for node in graph if node.dialect == _DIALECT and node.op_type in (_HANDLE, _READ, _ASSIGN, _ONCE)]
    if not nodes or not _is_simple(graph, nodes):
        return
    begins: dict[str, Storage] = {}
    for node in nodes:
        if node.op_type == _ONCE:
            begins |= _assigned(next(iter(node.bodies()), None))
    if not all(_name(node.operands[0]) in begins for node in nodes if node.op_type in (_READ, _ASSIGN)):
        return
    held: dict[str, Value] = {}
    inputs: dict[str, Value] = {}
    for node in nodes:
        if node.op_type == _ONCE:
            graph.remove(node)
            continue
        if node.op_type == _HANDLE:
            continue
        name = _name(node.operands[0])
        if node.op_type == _READ:
            if name not in held:
                held[name] = inputs[name] = _state(graph, name, begins[name], node.output)
            # The value read is unchanged; the name of a graph output is kept.
            rewrite.replace(node.output, held[name])
        else:
            if name not in inputs:
                inputs[name] = _state(graph, name, begins[name], node.operands[1])
            held[name] = node.operands[1]
        graph.remove(node)
    for node in nodes:
        if node.op_type == _HANDLE:
            graph.remove(node)
    _return(graph, inputs, held)


def after(graph: Graph) -> None:
    """Move Transposes between windowed operators until they cancel.

    Operators between them become channels-first, too.
    """
    for inner in walk(graph):
        settle(inner, OperatorLayouts())


def before_export(graph: Graph) -> None:
    """Remove Identity nodes, which have no TFLite operator, and recompose dynamically quantized products."""
    for inner in walk(graph):
        products_of_rows(inner)
        drop_identities(inner)
        fuse_gelus(inner)


def after_export(graph: Graph) -> None:
    """Cancel layout changes, compute on integers, fuse activations, and convert states to variables.

    Windowed operators are channels-last; operators between them have no layout.
    """
    for inner in walk(graph):
        shape_constants(inner)
        transpose_fill(inner)
        transpose_stored_constants(inner)
        even_out(inner)
        move_transposes_down(inner)
        fold_scales(inner)
        integers(inner)
        requantize(inner)
        clamp_results(inner)
        reshape_what_stays(inner)
        shape_from_root(inner)
        own_results(inner)
    keep_states(graph)


def _is_simple(graph: Graph, nodes: list[Node]) -> bool:
    """Whether only this graph uses the resources, and the initialization subgraph only sets them."""
    for inner in walk(graph):
        if inner is graph:
            continue
        owner = inner.parent
        runs_once = owner is not None and owner.dialect == _DIALECT and owner.op_type == _ONCE
        for node in inner:
            if node.dialect == _DIALECT and (
                node.op_type in (_READ, _ONCE) or (node.op_type in (_HANDLE, _ASSIGN) and not runs_once)
            ):
                return False
            if runs_once and (node.op_type not in (_HANDLE, _ASSIGN) or not has_expected_arity(node)):
                return False
    if not all(map(has_expected_arity, nodes)):
        return False
    handles = [node for node in nodes if node.op_type == _HANDLE]
    uses = [use for node in handles for use in node.output.uses]
    return all(use.user in nodes and use.index == 0 for use in uses) and not any(x.output.returns for x in handles)


def _name(handle: Value) -> str:
    node = handle.producer
    return (
        "" if node is None else f"{node.attributes.get('container') or ''}/{node.attributes.get('shared_name') or ''}"
    )


def _assigned(body: Graph | None) -> dict[str, Storage]:
    found: dict[str, Storage] = {}
    for node in body or ():
        if node.op_type == _ASSIGN and node.operands[1].storage is not None:
            found[_name(node.operands[0])] = node.operands[1].storage
    return found


def _state(graph: Graph, name: str, begins: Storage, like: Value) -> Value:
    value = graph.add_input(name.rpartition("/")[2] or like.name, TensorFact(begins.dtype, begins.shape))
    value.storage = begins
    return value


def _return(graph: Graph, inputs: dict[str, Value], held: dict[str, Value]) -> None:
    settled: dict[Value, Value] = {}
    for name, value in inputs.items():
        if held[name] is value:
            # No node sets it.
            settled[value] = graph.add_constant(value.name, value.fact, value.storage, origin=value.origin)
            value.replace_uses(settled[value])
            graph.remove_input(value)
    outputs = graph.outputs
    variables = _distinct_names([name for name, value in inputs.items() if value not in settled])
    for name, variable in variables.items():
        last = settled.get(held[name], held[name])
        mark(inputs[name], State(last.name, variable, is_returned=last in outputs))
        if last not in outputs:
            outputs.append(last)
    graph.set_outputs(outputs)


def _distinct_names(names: list[str]) -> dict[str, str]:
    """Return unique names of variables: the last component of each name, or as many as make it unique."""
    found = names
    for candidates in ([name.rpartition("/")[2] for name in names], [name.removeprefix("/") for name in names], names):
        found = [each or "state" for each in candidates]
        if len(set(found)) == len(names):
            break
    return dict(zip(names, found, strict=True))

"""Merged decoders as two models: each branch of their If is cast or quantized as a separate model."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from graphport.api.merge_branches import append_branches
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.infer import Inference
from graphport.passes.inline_branches import inline_branches
from graphport.passes.journal import Journal
from graphport.passes.merge_duplicates import merge_duplicates
from graphport.passes.substitution import add_constant
from graphport.quantization.half.insert_casts import NARROW, narrow_interface

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

BRANCHES = {"then_branch": True, "else_branch": False}
"""Attributes of an If, and the condition that selects each."""


def split_branches(graph: Graph) -> dict[str, Graph] | None:
    """Return each branch of a graph that is one If on a boolean input as a graph; `None` for other graphs.

    A branch has the inputs that it reads. Constants share storages.
    """
    node = graph.first_node
    if len(graph) != 1 or node is None or node.dialect or node.op_type != "If":
        return None
    condition = node.operand(0)
    if condition is None or not condition.is_input or len(condition.uses) != 1:
        return None
    if list(graph.outputs) != node.results or not all(
        isinstance(node.attributes.get(name), Graph) for name in BRANCHES
    ):
        return None
    return {name: _select_branch(graph, is_true=is_true) for name, is_true in BRANCHES.items()}


def _select_branch(graph: Graph, *, is_true: bool) -> Graph:
    branch = rewrite.copy(graph)
    node = branch.first_node
    if node is not None:
        node.set_input(0, add_constant(branch, np.array(is_true), "condition"))
    inline_branches(branch, Journal())
    rewrite.remove_dead(branch)
    for value in [value for value in branch.inputs if not value.uses]:
        branch.remove_input(value)
    for value in [value for value in branch.constants if not value.uses]:
        branch.remove_constant(value)
    return branch


def join_branches(source: Graph, branches: Mapping[str, Graph]) -> Graph:
    """Return the graph `source` with changed branches; equal constants are stored once.

    An input is narrow if a branch reads it so, an output if both branches compute it so. `branches` are changed.
    """
    then, other = branches["then_branch"], branches["else_branch"]
    _align_types(then, other)
    graph = Graph(source.name, opsets={name: max(g.opsets.get(name, 0) for g in (then, other)) for name in then.opsets})
    graph.extents, graph.origin = source.extents.copy(), source.origin
    types = {value.name: value.fact for branch in (then, other) for value in branch.inputs}
    inputs = {value.name: graph.adopt_input(value.copy_detached()) for value in source.inputs}
    for name, value in inputs.items():
        value.fact = _with_type_of(value, types.get(name, value.fact))
    results = [
        Value(value.name, _with_type_of(value, found.fact))
        for value, found in zip(source.outputs, then.outputs, strict=True)
    ]
    old = source.first_node
    condition = None if old is None else old.operand(0)
    append_branches(graph, inputs, inputs["" if condition is None else condition.name], results, (then, other))
    Inference().graph(graph)
    return graph


def _align_types(a: Graph, b: Graph) -> None:
    """Cast inputs and outputs whose types differ: outputs to the wide type, inputs to the narrow type."""
    for first, second in ((a, b), (b, a)):
        for index, (value, other) in enumerate(zip(list(first.outputs), second.outputs, strict=True)):
            if value.dtype in NARROW and other.dtype is DType.FLOAT32:
                wide = Value(first.fresh(f"{value.name}_single"), _with_type_of(value, other.fact))
                first.append(Node("Cast", [value], [wide], {"to": DType.FLOAT32}))
                first.set_output(index, wide)
                rewrite.swap_names(value, wide)
    narrow_interface(a, b)
    narrow_interface(b, a)


def _with_type_of(value: Value, fact: object) -> TensorFact:
    own = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
    return replace(own, dtype=fact.dtype) if isinstance(fact, TensorFact) else own


def hoist_weights(graph: Graph) -> None:
    """Move DequantizeLinear of constants out of the bodies of `graph`, once for equal ones.

    ONNX Runtime fuses a product with a DequantizeLinear of its graph, and then rejects a weight of an outer graph.
    """
    for holder in list(graph):
        for node in [node for body in holder.bodies() for node in body]:
            if node.op == "DequantizeLinear" and all(value.is_constant for value in node.operands):
                results = [Value(graph.fresh(value.name), value.fact) for value in node.results]
                graph.insert_before(holder, rewrite.copy_node(node, {}, results))
                for value, hoisted in zip(node.results, results, strict=True):
                    value.replace_uses(hoisted)
                rewrite.erase(node)
    merge_duplicates(graph, Journal())


def names_in(patterns: Collection[str], branches: Mapping[str, Graph]) -> Callable[[Graph], tuple[str, ...]]:
    """Return a function that selects the patterns with a match in a branch; patterns without any match are in both."""
    known = {id(branch): _names(branch) for branch in branches.values()}

    def matches(branch: Graph, pattern: str) -> bool:
        return any(fnmatchcase(name, pattern) for name in known[id(branch)])

    lost = [pattern for pattern in patterns if not any(matches(branch, pattern) for branch in branches.values())]
    return lambda branch: tuple(pattern for pattern in patterns if pattern in lost or matches(branch, pattern))


def _names(graph: Graph) -> set[str]:
    return {name for node in graph for name in (node.name, node.op_type, *(value.name for value in node.results[:1]))}

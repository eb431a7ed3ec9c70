"""Move Transposes past element-wise operators until they meet another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.core.storage import ArrayStorage, Storage
from graphport.ops import registry
from graphport.ops.products import constant_elements, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.substitution import add_constant, graph_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

MAX_CHAIN = 16
"""Limit of operators between two Transposes."""


def push_transposes(graph: Graph, journal: Journal) -> None:
    """Merge two Transposes with only element-wise operators between them.

    Before  h = Transpose(x, perm=p);  k = Relu(Mul(h, c));  y = Transpose(k, perm=q)
    After   k = Relu(Mul(x, c'));  y = Transpose(k, perm=[p[i] for i in q])        c' is c in the order of x

    Does not apply to values with another consumer, computed second operands, or unknown ranks. Preserves values bit for
    bit.
    """
    apply(graph, journal, _push, {"Transpose"})


def _push(node: Node) -> str | None:
    second, chain = node.attributes.get("perm"), _chain(node)
    first = None if not chain else chain[0][0].operands[chain[0][1]].producer
    order = None if first is None else first.attributes.get("perm")
    if first is None or not isinstance(order, tuple) or not isinstance(second, tuple):
        return None
    perm = [axis for axis in order if isinstance(axis, int)]
    constants = [_permute_constant(part, index, perm) for part, index in chain]
    source = first.operand(0)
    if source is None or None in constants:
        return None
    graph = graph_of(node)
    for (part, index), storage in zip(chain, constants, strict=True):
        if storage is not None and len(part.operands) == 2:
            part.set_input(1 - index, add_constant(graph, storage, part.operands[1 - index].name))
        # The value now has another layout, so it gets another name.
        graph.rename(part.output, graph.fresh(part.output.name))
        part.output.fact = _unpermuted_fact(part.output.fact, perm)
    chain[0][0].set_input(chain[0][1], source)
    node.set_attribute("perm", tuple(perm[axis] for axis in second if isinstance(axis, int)))
    return f"cancels with the Transpose before {len(chain)} operators"


def _chain(node: Node) -> list[tuple[Node, int]]:
    """Return the operators between a Transpose and the one before it, in order, and the operand that each passes on."""
    found: list[tuple[Node, int]] = []
    value, reader = node.operand(0), node
    while value is not None and value.producer is not None and len(found) <= MAX_CHAIN:
        if sole_consumer(value) is not reader:
            return []
        producer = value.producer
        if producer.op == "Transpose":
            return found[::-1]
        index = _elementwise_operand(producer)
        if index is None:
            return []
        found.append((producer, index))
        value, reader = producer.operand(index), producer
    return []


def _elementwise_operand(node: Node) -> int | None:
    """Return the operand that a node processes element-wise, or None if there is none or another operand is computed.

    This follows from the operator definition: float arithmetic without reductions and without an axis attribute.
    """
    op_def = None if node.dialect else registry.op_defs().get(node.op_type)
    if op_def is None or op_def.role != "pointwise" or op_def.exactness == "accumulation" or len(node.outputs) != 1:
        return None
    if {"axis", "axes", "size"} & op_def.signature.keywords.keys() or len(node.operands) != len(node.inputs):
        return None
    computed = [index for index, value in enumerate(node.operands) if constant_elements(value) is None]
    if len(computed) != 1 or len(node.operands) > 2:
        return None
    value = node.operands[computed[0]]
    return computed[0] if isinstance(value.fact, TensorFact) and _is_as_large(value, node.output) else None


def _is_as_large(value: Value, result: Value) -> bool:
    one, two = value.fact, result.fact
    return isinstance(one, TensorFact) and isinstance(two, TensorFact) and None is not one.shape == two.shape


def _permute_constant(node: Node, index: int, perm: list[int]) -> Storage | None:
    """Return the constant operand permuted to the new layout; any value if there is none."""
    if len(node.operands) == 1:
        return ArrayStorage(np.zeros(0, np.float32))
    array = constant_elements(node.operands[1 - index])
    if array is None or array.ndim > len(perm):
        return None
    if array.size == 1:
        return ArrayStorage(array)
    padded = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    return store_array(np.ascontiguousarray(padded.transpose(np.argsort(perm))))


def _unpermuted_fact(fact: object, perm: list[int]) -> TensorFact:
    """Return the fact of a value before the permutation `perm`."""
    if not isinstance(fact, TensorFact) or fact.shape is None:
        message = f"{fact} has no shape"
        raise ValueError(message)
    dims = list(fact.shape)
    for axis, place in enumerate(perm):
        dims[place] = fact.shape[axis]
    return fact.with_shape(dims)

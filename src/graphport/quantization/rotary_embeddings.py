"""Fuse rotary position embeddings into ONNX Runtime's operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx.rules.com_microsoft.binding import DIALECT
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant

if TYPE_CHECKING:
    from graphport.ir.graph import Graph

_RANK = 4
_LAST_AXES = (-1, _RANK - 1)


class _Rotation(NamedTuple):
    """Rotated value [batch, heads, length, 2 n], with cosines and sines [length, n]."""

    x: Value
    cosines: Value
    sines: Value


def with_rotations(graph: Graph) -> Graph:
    """Return a copy of `graph` with fused rotary embeddings; `graph` if there are none.

    Before  a, b = Split(x, axis=-1);  y = Concat(a * c - b * s, b * c + a * s, axis=-1)
    After   y = com.microsoft.RotaryEmbedding(x, [0], c, s)

    With one token, a small decoder spends most of its time on kernel calls, and these are eight.
    """
    if not any(_rotation(node) for node in graph):
        return graph
    twin = rewrite.copy(graph)
    first = add_constant(twin, np.zeros(1, np.int64), "first_position")
    for node in list(twin):
        rotation = _rotation(node)
        if rotation is not None:
            result = node.output
            found = Value(twin.fresh(f"{result.name}_turned"), result.fact)
            operands = [rotation.x, first, rotation.cosines, rotation.sines]
            new = Node("RotaryEmbedding", operands, [found], {}, dialect=DIALECT, name=node.name, origin=node.origin)
            twin.insert_before(node, new)
            rewrite.replace(result, found)
    rewrite.remove_dead(twin)
    return twin


def _rotation(node: Node) -> _Rotation | None:
    """Match the Concat of a rotated tensor."""
    if not _is(node, "Concat") or len(node.operands) != 2 or node.attributes.get("axis") not in _LAST_AXES:
        return None
    lower, upper = (value.producer for value in node.operands)
    split = _split(lower)
    if split is None or not _is(lower, "Sub") or not _is(upper, "Add"):
        return None
    taken, added = _factors(lower, split), _factors(upper, split)
    a, b = split.results
    if list(taken) != [a, b] or added != {a: taken[b], b: taken[a]}:
        return None
    found = _Rotation(split.operands[0], taken[a], taken[b])
    return found if _is_supported(found, a, b) else None


def _split(node: Node | None) -> Node | None:
    """Return the Split of the rotated tensor that `node` is computed from."""
    products = [] if node is None else [value.producer for value in node.operands]
    makers = [value.producer for product in products if product is not None for value in product.operands]
    found = next((maker for maker in makers if _is(maker, "Split")), None)
    is_fit = found is not None and len(found.results) == 2 and found.attributes.get("axis", 0) in _LAST_AXES
    return found if is_fit else None


def _factors(node: Node | None, split: Node) -> dict[Value, Value]:
    """Return the factors of both halves, in the order in which `node` uses the products."""
    found: dict[Value, Value] = {}
    for value in () if node is None else node.operands:
        product = value.producer
        if product is not None and _is(product, "Mul"):
            x, y = product.operands
            half, factor = (x, y) if x in split.results else (y, x)
            if half in split.results:
                found[half] = factor
    return found


def _is_supported(rotation: _Rotation, a: Value, b: Value) -> bool:
    """Whether the kernel supports the operands: floats, equal halves, and a row per position."""
    facts = [value.fact for value in (rotation.x, a, b, rotation.cosines, rotation.sines)]
    known = [fact for fact in facts if isinstance(fact, TensorFact) and fact.shape is not None]
    if len(known) < len(facts) or any(fact.dtype != DType.FLOAT32 for fact in known):
        return False
    x, first, second, *tables = known
    if x.rank != _RANK or not isinstance(first.dims[-1], int) or first.dims[-1] != second.dims[-1]:
        return False
    return all(
        table.rank == 2 and table.dims[1] == first.dims[-1] and (table.dims[0] == x.dims[2] or table.dims[0] != 1)
        for table in tables
    )


def _is(node: Node | None, op_type: str) -> bool:
    return node is not None and not node.dialect and node.op_type == op_type

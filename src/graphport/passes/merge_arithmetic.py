"""Merge sums and products with constants, and remove neutral ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.products import constant_elements, sole_consumer
from graphport.passes.journal import Journal, apply
from graphport.passes.substitution import add_constant, bypass, float_elements, graph_of, rounded

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def remove_neutral(graph: Graph, journal: Journal) -> None:
    """Remove additions of 0, multiplications and divisions by 1, and powers of 1.

    Before  h = Mul(x, 1);  y = Relu(h)
    After   y = Relu(x)

    Does not apply to constants that enlarge the result. Preserves values, except for the sign of a zero.
    """
    apply(graph, journal, _remove, registry.stating("neutral").keys())


def _remove(node: Node) -> str | None:
    neutral = registry.stating("neutral")[node.op]
    sides = (1, 0) if node.op in ("Add", "Mul") else (1,)
    for side in sides:
        constant, value = constant_elements(node.operand(side)), node.operand(1 - side)
        if constant is None or value is None or constant.dtype.kind not in "fiuV":
            continue
        if not (constant == constant.dtype.type(neutral)).all() or value.fact != node.output.fact:
            continue
        if isinstance(value.fact, TensorFact) and value.fact.shape is not None and bypass(node, value):
            return f"removed: its result equals {value.name}"
    return None


def merge_arithmetic(graph: Graph, journal: Journal) -> None:
    """Merge two sums with constants, or two products, into one.

    Before  h = Mul(x, a);  y = Div(h, b)
    After   y = Mul(x, a / b)

    Does not apply to integers, to constants whose combination has more elements than the larger one, to an `h` with
    another consumer, or to results that are not finite. Preserves values up to rounding.
    """
    apply(graph, journal, _merge, registry.stating("inverse").keys())


def _merge(node: Node) -> str | None:
    found = _split_constant(node)
    if found is None:
        return None
    value, second = found
    before = value.producer
    if (
        before is None
        or before.op not in (node.op, registry.op_defs()[node.op].inverse)
        or sole_consumer(value) is not node
    ):
        return None
    inner = _split_constant(before)
    if inner is None:
        return None
    source, first = inner
    joined = _joined(before, first, node, second)
    if joined is None or joined.size > max(first.size, second.size):
        return None
    dtype = node.output.dtype
    storage = None if dtype is None else rounded(joined, dtype)
    if storage is None:
        return None
    node.inputs = [source, add_constant(graph_of(node), storage, f"{node.output.name}.constant")]
    node.op_type = "Add" if node.op in ("Add", "Sub") else "Mul"
    return f"merged with {value.name}"


def _split_constant(node: Node) -> tuple[Value, np.ndarray[tuple[int, ...], np.dtype[np.float64]]] | None:
    """Return the computed operand, and the constant that is added, subtracted, multiplied or divided by."""
    for side in (1, 0) if node.op in ("Add", "Mul") else (1,):
        constant, value = float_elements(node.operand(side)), node.operand(1 - side)
        if constant is not None and value is not None and not value.is_constant:
            return value, constant
    return None


def _joined(
    one: Node,
    first: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    two: Node,
    second: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    with np.errstate(all="ignore"):
        if two.op in ("Add", "Sub"):
            return (first if one.op == "Add" else -first) + (second if two.op == "Add" else -second)
        joined = (first if one.op == "Mul" else 1 / first) * (second if two.op == "Mul" else 1 / second)
    return joined if np.isfinite(joined).all() else None

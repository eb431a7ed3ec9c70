"""Zeros that recurrent layers begin with anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.products import numbers
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import filling

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

_STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Operands that are states to begin with."""

_MOVES = frozenset(
    {"Cast", "CastLike", "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze"}
)
"""Operators whose results have entries of what they move, and no others."""


def drop_zero_states(graph: Graph, journal: Journal) -> None:
    """Let a recurrent layer begin with the zeros that it begins with anyway.

    Before  h = ConstantOfShape(Concat(2, batch, 8));  y = LSTM(x, w, r, b, , h[:1], h[:1])
    After   y = LSTM(x, w, r, b)

    What computed the extents of the zeros goes when nobody reads it. Leaves alone: a state that is fed, or that is not
    proven to be 0. Keeps values bit for bit.
    """
    apply(graph, journal, _drop, _STATES.keys())


def _drop(node: Node) -> str | None:
    dropped: list[str] = []
    for index in _STATES[node.op]:
        value = node.operand(index)
        if value is not None and _is_zero(value):
            node.set_input(index, None)
            dropped.append(value.name)
    return f"begins with 0 without {' and '.join(dict.fromkeys(dropped))}" if dropped else None


def _is_zero(value: Value) -> bool:
    """Whether every entry is 0, however many there are."""
    open_values, seen = [value], {value}
    while open_values:
        each = open_values.pop()
        array, made = numbers(each), each.producer
        if array is not None:
            if array.any():
                return False
            continue
        if made is None or made.dialect:
            return False
        if made.op == "ConstantOfShape":
            if filling(made).any():
                return False
            continue
        if made.op not in _MOVES:
            return False
        for operand in made.operands if made.op == "Concat" else made.operands[:1]:
            if operand not in seen:
                seen.add(operand)
                open_values.append(operand)
    return True

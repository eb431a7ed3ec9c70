"""Remove zero initial states of recurrent layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry
from graphport.ops.products import constant_elements
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import fill_value

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def drop_zero_states(graph: Graph, journal: Journal) -> None:
    """Remove an initial state that is zero, the default of recurrent layers.

    Before  h = ConstantOfShape(Concat(2, batch, 8));  y = LSTM(x, w, r, b, , h[:1], h[:1])
    After   y = LSTM(x, w, r, b)

    The computation of the state's shape is removed when it has no consumer left. Does not apply to a state that is an
    input or not provably 0. Preserves values bit for bit.
    """
    apply(graph, journal, _drop, registry.stating("states").keys())


def _drop(node: Node) -> str | None:
    dropped: list[str] = []
    op_def = registry.op_defs()[node.op]
    for index, operand in enumerate(op_def.signature.operands):
        value = node.operand(index) if operand.name in op_def.states else None
        if value is not None and _is_zero(value):
            node.set_input(index, None)
            dropped.append(value.name)
    return f"uses the default initial state 0 instead of {' and '.join(dict.fromkeys(dropped))}" if dropped else None


def _is_zero(value: Value) -> bool:
    """Whether all elements are 0."""
    open_values, seen = [value], {value}
    while open_values:
        each = open_values.pop()
        array, made = constant_elements(each), each.producer
        if array is not None:
            if array.any():
                return False
            continue
        if made is None or made.dialect:
            return False
        if made.op == "ConstantOfShape":
            if fill_value(made).any():
                return False
            continue
        op_def = registry.op_defs().get(made.op)
        if op_def is None or not (op_def.picks or made.op in ("Cast", "CastLike")):
            return False
        for operand in made.operands[:1] if op_def.signature.variadic is None else made.operands:
            if operand not in seen:
                seen.add(operand)
                open_values.append(operand)
    return True

"""Lambda lifting: bodies of higher-order operators receive all captured values, also constants, as operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.formats.pytorch.parameters import INITIALIZER
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.rules.emitting import DIALECT, ELEMENT, ITEM, dtype_name, is_python_scalar
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

_ADDITIONAL = "3"
"""Index of the argument of `cond` and `while_loop` that lists the operands of the bodies."""
_CLONE, _TENSOR = "aten.clone.default", "aten.scalar_tensor.default"


def close_bodies(graph: Graph) -> None:
    """Convert captured values of all bodies to operands, innermost bodies first."""
    for node in list(graph):
        if node.dialect != DIALECT or not node.has_bodies:
            continue
        bodies = list(node.bodies())
        for body in bodies:
            close_bodies(body)
            _own_outputs(body)
        _close(graph, node, bodies)


def _own_outputs(body: Graph) -> None:
    """Make a body return each value once, and only values that it computes."""
    returned: list[Value] = []
    for value in body.outputs:
        if value.graph is body and value.producer is not None and value not in returned and not is_python_scalar(value):
            returned.append(value)
            continue
        copy = Value(body.fresh(value.name), value.fact)
        body.append(Node(_CLONE, [value], [copy], {KEYS: ("self",)}, dialect=DIALECT))
        returned.append(copy)
    body.set_outputs(returned)


def _close(graph: Graph, node: Node, bodies: Sequence[Graph]) -> None:
    hoisted: dict[tuple[int, str], Value] = {}
    outside: dict[Value, None] = {}
    for body in bodies:
        for inner in body:
            for index, value in enumerate(inner.inputs):
                if value is None or (value.graph is body and not value.is_constant):
                    continue
                source = value if value.graph is not body else _hoisted(graph, value, hoisted)
                inner.set_input(index, source)
                outside[source] = None
    operands = [_as_tensor(graph, node, value) for value in outside]
    for body in bodies:
        for source, operand in zip(outside, operands, strict=True):
            _receive(body, source, operand)
        for constant in list(body.constants):
            if not constant.uses:
                body.remove_constant(constant)
    keys = node.attributes.get(KEYS)
    names = tuple(str(key) for key in keys) if isinstance(keys, tuple) else ()
    if operands:
        node.remove_attribute(_ADDITIONAL)
        node.inputs = [*node.inputs, *operands]
        node.set_attribute(KEYS, (*names, *[f"{_ADDITIONAL}{ITEM}"] * len(operands)))
    else:
        node.set_attribute(_ADDITIONAL, ())


def _hoisted(graph: Graph, constant: Value, known: dict[tuple[int, str], Value]) -> Value:
    """Move a constant of a body to the enclosing graph."""
    key = id(constant.storage), constant.name
    if key not in known:
        made = graph.add_constant(graph.fresh(constant.name), constant.fact, constant.storage, origin=constant.origin)
        if constant.note(INITIALIZER) is not None:
            made.notes[INITIALIZER] = True
        known[key] = made
    return known[key]


def _as_tensor(graph: Graph, node: Node, value: Value) -> Value:
    """Return a captured value as an operand; a Python scalar is converted to a tensor."""
    if not is_python_scalar(value):
        return value
    result = Value(graph.fresh(value.name), value.fact)
    attributes: dict[str, Any] = {KEYS: ("s",)}
    if value.dtype is not None:
        attributes["dtype"] = dtype_name(value.dtype)
    graph.insert_before(node, Node(_TENSOR, [value], [result], attributes, dialect=DIALECT))
    return result


def _receive(body: Graph, source: Value, operand: Value) -> None:
    """Replace a captured value in a body by an input; a Python scalar by the input's `item()`."""
    inner = body.add_input(body.fresh(source.name), operand.fact)
    found = inner
    if is_python_scalar(source):
        found = Value(body.fresh(source.name), source.fact)
        first = next(iter(body), None)
        read = Node(ELEMENT, [inner], [found], {KEYS: ("self",)}, dialect=DIALECT)
        body.insert_before(first, read) if first is not None else body.append(read)
    for node in body:
        for index, value in enumerate(node.inputs):
            if value is source and node.outputs[0] is not found:
                node.set_input(index, found)

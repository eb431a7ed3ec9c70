"""Small graphs that the tests of `graphport.ir` share."""

from __future__ import annotations

from collections.abc import Iterable

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify

FACT = TensorFact(DType.FLOAT32, (1, 2))


def chain(length: int) -> tuple[Graph, list[Node]]:
    """x → Relu → Relu → … → output; the values are x, v0, v1, …"""
    graph = Graph()
    value = graph.add_input("x", FACT)
    nodes: list[Node] = []
    for number in range(length):
        nodes.append(graph.append(Node("Relu", [value], [Value(f"v{number}", FACT)])))
        value = nodes[-1].output
    graph.add_output(value)
    return graph, nodes


def relu(operand: Value, name: str) -> Node:
    return Node("Relu", [operand], [Value(name)])


def names(values: Iterable[Value | None]) -> list[str | None]:
    return [None if value is None else value.name for value in values]


def first(graph: Graph) -> Node:
    return next(iter(graph))


def order(graph: Graph) -> list[str]:
    forward = [node.output.name for node in graph]
    assert [node.output.name for node in reversed(graph)] == forward[::-1]
    assert len(graph) == len(forward)
    verify(graph)
    return forward


def branch(graph: Graph, read: Value, name: str = "b") -> tuple[Node, Graph]:
    """An `If` behind the last node of `graph` whose body reads `read`."""
    body = Graph("then")
    inner = body.append(relu(read, name))
    body.add_output(inner.output)
    node = graph.append(Node("If", [], [Value(f"{name}_if")], {"then_branch": body}))
    return node, body

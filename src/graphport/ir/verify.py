"""Structural laws that every graph of every dialect keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.graph import Graph, Node, Use, Value

if TYPE_CHECKING:
    from collections.abc import Iterator


class VerificationError(Exception):
    """A structural invariant of a graph is violated: a bug in the code that built or changed it."""


def verify(graph: Graph) -> None:
    """Verify a top-level graph and all its bodies.

    Values, their graph, producer and uses refer to each other. Operands are computed before their use, in the same
    graph or an outer one. Names are unique in each scope and reserved. Bodies know their node, and no graph is the body
    of two nodes. The last operand and result are present. Only constants have storage.

    Raises:
        VerificationError: lists each violated invariant and its location, one per line.
    """
    found = list(_Verifier().check(graph))
    if found:
        raise VerificationError("\n".join(found))


class _Verifier:
    def __init__(self) -> None:
        self.names: dict[str, Value] = {}
        self.visible: set[Value] = set()
        self.reads: dict[Use, Value] = {}
        self.values: dict[Value, None] = {}
        self.seen: set[Graph] = set()

    def check(self, graph: Graph) -> Iterator[str]:
        # Iterative, because bodies have the nesting depth of the file.
        pending = [self.graph(graph)]
        while pending:
            for found in pending[-1]:
                if isinstance(found, Graph):
                    pending.append(self.graph(found))
                    break
                yield found
            else:
                pending.pop()
        yield from self.uses()

    def graph(self, graph: Graph) -> Iterator[str | Graph]:
        """Report the violations in `graph`, and yield each body at the position where it must be checked."""
        if graph in self.seen:
            yield f"graph {graph.name} is a body twice"
            return
        self.seen.add(graph)
        broken = list(_list_faults(graph))
        if broken:
            yield from broken
            return
        entered: list[Value] = []
        for value in graph.values():
            begins = value.is_input and graph.parent is None  # a default value, if it has storage
            if value not in graph.constants and ((value.storage is not None and not begins) or value.is_literal):
                yield f"%{value.name} has numbers like a constant and is none"
        for value in [*graph.inputs, *graph.constants]:
            yield from self.enter(graph, value, entered)
            if value.producer is not None:
                yield f"%{value.name} is an input or constant, yet {value.producer.op} computes it"
        for node in graph:
            yield from self.operands(node)
            for body in node.bodies():
                if body.parent is not node:
                    yield f"a body of {node!r} belongs to another node"
                yield body
            yield from _result_faults(node)
            for value in node.results:
                yield from self.enter(graph, value, entered)
        for index, value in enumerate(graph.outputs):
            self.reads[Use(graph, index)] = value
            if value not in self.visible:
                yield f"graph {graph.name} returns %{value.name}, which is not computed"
        for value in entered:
            self.visible.discard(value)
            if self.names.get(value.name) is value:
                del self.names[value.name]

    def enter(self, graph: Graph, value: Value, entered: list[Value]) -> Iterator[str]:
        """Let `value` be seen from here to the end of its graph."""
        if value in self.values:
            yield f"%{value.name} is defined twice"
            return
        self.values[value] = None
        self.visible.add(value)
        entered.append(value)
        if value.graph is not graph:
            yield f"%{value.name} does not know that it is in graph {graph.name}"
        if not graph.is_reserved(value.name):
            yield f"graph {graph.name} may give the name of %{value.name} again"
        if self.names.setdefault(value.name, value) is not value:
            yield f"duplicate value name {value.name}"

    def operands(self, node: Node) -> Iterator[str]:
        for index, operand in enumerate(node.inputs):
            if operand is None:
                continue
            self.reads[Use(node, index)] = operand
            if operand not in self.visible:
                yield f"{node!r} reads %{operand.name} before it is computed"
        if node.inputs and node.inputs[-1] is None:
            yield f"the last operand of {node!r} is None"

    def uses(self) -> Iterator[str]:
        for use, value in self.reads.items():
            if use not in value.uses:
                yield f"%{value.name} does not know that {use.user!r} reads it as number {use.index}"
        for value in self.values:
            for use in value.uses:
                if self.reads.get(use) is not value:
                    yield f"%{value.name} believes that {use.user!r} reads it as number {use.index}"
            if value.returns != sum(isinstance(use.user, Graph) for use in value.uses):
                yield f"%{value.name} believes that it is returned {value.returns} times"


def _list_faults(graph: Graph) -> Iterator[str]:
    count = 0
    previous: Node | None = None
    node = graph.first_node
    while node is not None:
        if node.previous is not previous:
            # Going on might never end.
            yield f"the list of nodes is broken before {node!r}"
            return
        if node.graph is not graph:
            yield f"{node!r} does not know that it is in graph {graph.name}"
        count += 1
        previous, node = node, node.next
    if graph.last_node is not previous:
        yield f"graph {graph.name} does not know its last node"
    if len(graph) != count:
        yield f"graph {graph.name} counts {len(graph)} nodes and has {count}"


def _result_faults(node: Node) -> Iterator[str]:
    for index, value in enumerate(node.outputs):
        if value is not None and (value.producer is not node or value.index != index):
            yield f"%{value.name} does not know that it is result {index} of {node!r}"
    if node.outputs and node.outputs[-1] is None:
        yield f"the last result of {node!r} is absent"

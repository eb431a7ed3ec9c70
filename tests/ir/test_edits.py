"""Any sequence of edits keeps every structural law."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graphport.core.facts import UNKNOWN
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.verify import verify
from tests.draws import times
from tests.strategies import graphs

places = st.integers(0, 1 << 16)
"""Which of those that are there, counted round and round."""


def around(graph: Graph) -> list[Graph]:
    """The graph and those around it, innermost first."""
    found = [graph]
    while graph.parent is not None and graph.parent.graph is not None:
        graph = graph.parent.graph
        found.append(graph)
    return found


def visible(graph: Graph, before: Node | None) -> list[Value]:
    """What a node right before `before` (at the end of `graph` without one) may read."""
    found: list[Value] = []
    for scope in around(graph):
        found += [*scope.inputs, *scope.constants]
        for node in scope:
            if node is before:
                break
            found += node.results
        before = scope.parent
    return found


class Edits(RuleBasedStateMachine):
    @initialize(graph=graphs(most_nodes=4, nesting=1))
    def start(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def all_graphs(self) -> list[Graph]:
        return list(walk(self.graph))

    @property
    def all_nodes(self) -> list[Node]:
        return [node for graph in self.all_graphs for node in graph]

    def pick_graph(self, place: int) -> Graph:
        return self.all_graphs[place % len(self.all_graphs)]

    def pick(self, values: Sequence[Value], place: int) -> Value | None:
        return values[place % len(values)] if values and place % 7 else None

    @invariant()
    def every_law_is_kept(self) -> None:
        verify(self.graph)

    @rule(place=places, name=st.sampled_from(["x", "y", "x_1"]))
    def add_values(self, place: int, name: str) -> None:
        graph = self.pick_graph(place)
        graph.add_input(name)
        graph.add_output(graph.add_constant(name, UNKNOWN))

    @rule(where=places, operands=st.lists(places, max_size=3), count=st.integers(0, 3), behind=st.booleans())
    def insert_nodes(self, where: int, operands: list[int], count: int, behind: bool) -> None:
        for number in range(5):
            graph = self.pick_graph(where + number)
            nodes = list(graph)
            place = nodes[(where + number) % len(nodes)] if nodes else None
            readable = visible(graph, place.next if place is not None and behind else place)
            results = [Value(graph.fresh("n")) for _ in range(count)]
            node = Node("Add", [self.pick(readable, x + number) for x in operands], results)
            if place is None:
                graph.append(node)
            elif behind:
                graph.insert_after(place, node)
            else:
                graph.insert_before(place, node)
            for value in results[number:]:
                graph.add_output(value)

    @precondition(lambda self: self.all_nodes)
    @rule(where=places, index=st.integers(0, 4), operand=places)
    def set_an_operand(self, where: int, index: int, operand: int) -> None:
        node = self.all_nodes[where % len(self.all_nodes)]
        assert node.graph is not None
        node.set_input(index, self.pick(visible(node.graph, node), operand))

    @precondition(lambda self: self.all_nodes)
    @rule(where=places, operand=places, keep=st.booleans())
    def replace_a_value(self, where: int, operand: int, keep: bool) -> None:
        node = self.all_nodes[where % len(self.all_nodes)]
        assert node.graph is not None
        new = self.pick(visible(node.graph, node), operand)
        for old in node.results:
            if new is not None:
                rewrite.replace(old, new, keep=old.users if keep else ())

    @precondition(lambda self: self.all_nodes)
    @rule(where=places)
    def replace_a_node(self, where: int) -> None:
        node = self.all_nodes[where % len(self.all_nodes)]
        assert node.graph is not None
        new = node.graph.insert_after(node, Node("New", node.inputs, [], node.attributes))
        new.take_outputs(node)
        node.graph.remove(node)

    @precondition(lambda self: len(self.all_nodes) > 4)
    @rule(where=places)
    def cut_a_node_out(self, where: int) -> None:
        node = self.all_nodes[where % len(self.all_nodes)]
        for index, value in enumerate(node.outputs):
            if value is not None:
                for user in value.users:
                    user.inputs = [None if operand is value else operand for operand in user.inputs]
                for graph in self.all_graphs:
                    graph.set_outputs(output for output in graph.outputs if output is not value)
                node.drop_output(index) if index % 2 else None
        rewrite.erase(node)

    @rule(where=places, operand=places, name=st.sampled_from(["body", "other"]), is_nested=st.booleans())
    def give_a_body(self, where: int, operand: int, name: str, is_nested: bool) -> None:
        for node in self.all_nodes[where % 5 :: 5]:
            assert node.graph is not None
            body = Graph("body")
            root = self.graph
            inner = body.append(Node("Relu", [], [Value(root.fresh("i"))]))
            inner.set_input(0, self.pick(visible(node.graph, node), operand))
            body.add_output(inner.output)
            node.set_attribute(name, ((), (body,)) if is_nested else body)
            break

    @precondition(lambda self: self.all_nodes)
    @rule(where=places)
    def forget_the_attributes(self, where: int) -> None:
        node = self.all_nodes[where % len(self.all_nodes)]
        for name in list(node.attributes):
            node.remove_attribute(name)

    @rule(where=places, random=st.randoms(use_true_random=False))
    def shuffle_and_sort(self, where: int, random) -> None:
        graph = self.pick_graph(where)
        nodes = list(graph)
        random.shuffle(nodes)
        for node in nodes:
            graph.move_before(nodes[0], node)
        assert rewrite.sort_topologically(graph) == []

    @precondition(lambda self: len(self.all_nodes) > 8)
    @rule(where=places)
    def remove_what_is_dead(self, where: int) -> None:
        rewrite.remove_dead(self.graph if where % 3 else self.pick_graph(where))

    @precondition(lambda self: len(self.all_nodes) < 500)  # each walk may double them
    @rule(where=places)
    def edit_while_walking(self, where: int) -> None:
        graph = self.pick_graph(where)
        count = len(graph)
        visited = 0
        for number, node in enumerate(graph):
            visited += 1
            if any(value.uses for value in node.results):
                value = next(value for value in node.results if value.uses)
                if number < count:
                    new = graph.insert_after(node, Node("Copy", [value], [Value(graph.fresh("w"))]))
                    rewrite.replace(value, new.output, keep=[new])
            else:
                graph.remove(node)
        assert visited >= count

    @rule()
    def go_on_with_a_copy(self) -> None:
        self.graph = rewrite.copy(self.graph)

    @rule(where=places)
    def swap_and_rename(self, where: int) -> None:
        values = [value for graph in self.all_graphs for value in graph.values()]
        for a, b in zip(values[where % 3 :: 3], values[where % 5 :: 5], strict=False):
            a_name, b_name = a.name, b.name
            self.graph.rename(a, b_name)
            self.graph.rename(b, a_name)


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=times(100), stateful_step_count=25, deadline=None)

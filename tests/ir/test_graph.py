from __future__ import annotations

import pytest

from graphport.core.facts import UNKNOWN
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Use, Value, walk
from graphport.ir.verify import verify
from tests.ir.samples import FACT, branch, chain, names, order, relu

# --- inputs, constants, outputs ---------------------------------------------------------------------------------------


def test_graph_has_its_constructor_arguments():
    opsets = {"": 25}
    graph = Graph("g", opsets=opsets)
    assert (graph.name, graph.opsets, graph.parent, graph.origin) == ("g", {"": 25}, None, None)
    assert graph.opsets is not opsets
    assert (Graph().name, Graph().opsets) == ("main", {})


def test_inputs_and_constants_keep_their_order():
    graph = Graph()
    storage = storage_of([1.0])
    x, y = graph.add_input("x", FACT), graph.add_input("x")
    w, v = graph.add_constant("w", FACT, storage), graph.add_constant("x", FACT)
    assert names(graph.inputs) == ["x", "x_1"]
    assert names(graph.constants) == ["w", "x_2"]
    assert (x.fact, y.fact, w.fact, w.storage, v.storage) == (FACT, UNKNOWN, FACT, storage, None)
    assert list(graph.input_set) == [x, y]
    assert {value.graph for value in (x, y, w, v)} == {graph}
    verify(graph)


def test_values_are_listed_inputs_first_and_results_in_the_order_of_nodes():
    graph, _ = chain(2)
    graph.add_constant("w", FACT)
    assert names(graph.values()) == ["x", "w", "v0", "v1"]


def test_values_may_be_removed_during_iteration():
    graph = Graph()
    for _ in range(3):
        graph.add_constant("w", FACT)
    for value in graph.values():
        graph.remove_constant(value)
    assert list(graph.values()) == []


@pytest.mark.parametrize("adopt", [Graph.adopt_input, Graph.adopt_constant])
def test_value_belongs_to_one_graph(adopt):
    graph, (node,) = chain(1)
    for value in (graph.inputs[0], node.output, relu(graph.inputs[0], "y").output):
        with pytest.raises(ValueError, match="is in a graph already"):
            adopt(Graph(), value)
    free = Value("free")
    assert adopt(graph, free) is free
    assert free.graph is graph


def test_only_unused_inputs_and_constants_are_removed():
    graph, (node,) = chain(1)
    x, w = graph.inputs[0], graph.add_constant("w", FACT)
    with pytest.raises(ValueError, match="%x is still read"):
        graph.remove_input(x)
    with pytest.raises(ValueError, match="%w is not one of graph main"):
        graph.remove_input(w)
    with pytest.raises(ValueError, match="%x is not one of graph main"):
        graph.remove_constant(x)
    node.inputs = [w]
    with pytest.raises(ValueError, match="%w is still read"):
        graph.remove_constant(w)
    graph.remove_input(x)
    node.inputs = []
    graph.remove_constant(w)
    assert (graph.inputs, list(graph.constants), x.graph, w.graph) == ([], [], None, None)
    verify(graph)


def test_outputs_are_set_singly_or_together():
    graph, (a, b) = chain(2)
    graph.add_output(a.output)
    assert list(a.output.uses) == [Use(b, 0), Use(graph, 1)]
    graph.set_output(0, a.output)
    assert names(graph.outputs) == ["v0", "v0"]
    assert not b.output.uses
    graph.set_outputs(value for value in graph.outputs if value.is_output)
    assert names(graph.outputs) == ["v0", "v0"]
    graph.set_outputs([b.output])
    assert (list(a.output.uses), list(b.output.uses)) == ([Use(b, 0)], [Use(graph, 0)])
    with pytest.raises(IndexError):
        graph.set_output(1, b.output)
    with pytest.raises(IndexError, match="no output -1"):
        graph.set_output(-1, b.output)
    verify(graph)


def test_lists_of_a_graph_are_copies():
    graph, _ = chain(1)
    graph.inputs.clear()
    graph.outputs.clear()
    assert (len(graph.inputs), len(graph.outputs)) == (1, 1)


# --- names ------------------------------------------------------------------------------------------------------------


def test_fresh_names_are_unique():
    graph, _ = chain(1)
    assert [graph.fresh(name) for name in ("x", "x", "v0", "y", "y", "", "")] == [
        "x_1",
        "x_2",
        "v0_1",
        "y",
        "y_1",
        "value",
        "value_1",
    ]


def test_a_reserved_name_is_not_fresh():
    graph = Graph()
    assert not graph.is_reserved("x")
    graph.reserve("x")
    assert graph.is_reserved("x")
    assert graph.fresh("x") == "x_1"


def test_two_values_can_change_names_by_renaming():
    graph, (a, b) = chain(2)
    graph.rename(a.output, "v1")
    graph.rename(b.output, "v0")
    assert (a.output.name, b.output.name) == ("v1", "v0")
    assert (graph.fresh("v0"), graph.fresh("v1")) == ("v0_1", "v1_1")
    verify(graph)


def test_fresh_avoids_renamed_values():
    graph, (a,) = chain(1)
    graph.rename(a.output, "y")
    assert graph.fresh("y") == "y_1"


def test_a_body_avoids_names_around_it_and_next_to_it():
    graph, (a,) = chain(1)
    _, first = branch(graph, a.output, "b")
    _, second = branch(graph, a.output, "c")
    assert [first.fresh(name) for name in ("x", "v0", "c", "b")] == ["x_1", "v0_1", "c_1", "b_1"]
    assert second.fresh("x") == "x_2"
    assert graph.fresh("b") == "b_2"
    assert second.add_input("inner").graph is second
    assert graph.fresh("inner") == "inner_1"


def test_fresh_names_of_a_body_are_reserved_in_the_graph():
    body = Graph("then")
    assert body.fresh("later") == "later"
    graph = Graph()
    graph.append(Node("If", attributes={"then_branch": body}))
    assert graph.fresh("later") == "later_1"


def test_attached_body_shares_names_with_the_graph():
    graph, (a,) = chain(1)
    body = Graph("then")
    body.add_input("b")
    a.set_attribute("then_branch", body)
    assert graph.fresh("b") == "b_1"
    assert body.fresh("x") == "x_1"


def test_nested_bodies_share_names_with_the_graph():
    inner, outer, graph = Graph("inner"), Graph("outer"), Graph()
    inner.add_input("i")
    outer.append(Node("If", attributes={"then_branch": inner}))
    graph.append(Node("If", attributes={"then_branch": outer}))
    assert graph.fresh("i") == "i_1"
    graph.add_input("x")
    assert inner.fresh("x") == "x_1"


def test_moved_body_brings_its_names_to_the_new_graph():
    old, (a,) = chain(1)
    node, body = branch(old, a.output)
    body.add_input("added")
    new = Graph()
    moved = new.append(Node("If", attributes=node.attributes))
    assert moved.attributes["then_branch"] is body
    assert [new.fresh(name) for name in ("b", "added", "v0")] == ["b_1", "added_1", "v0"]
    new.add_input("y")
    assert body.fresh("y") == "y_1"


# --- bodies -----------------------------------------------------------------------------------------------------------


def test_graphs_among_the_attributes_are_bodies():
    one, two, three = Graph("one"), Graph("two"), Graph("three")
    node = Node("X", attributes={"a": one, "n": 1, "b": (1, (two, ()), three), "pads": (1, 2)})
    assert list(node.bodies()) == [one, two, three]
    assert {body.parent for body in node.bodies()} == {node}


def test_body_root_is_the_outermost_graph():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    _, inner = branch(body, a.output, "c")
    assert (inner.root, body.root, graph.root) == (graph, graph, graph)
    assert list(walk(graph)) == [graph, body, inner]
    assert body.parent is node
    alone = Graph()
    Node("If", attributes={"then_branch": alone})
    assert alone.root is alone


def test_graphs_are_walked_in_the_order_of_nodes_and_attributes():
    graph = Graph()
    bodies = [Graph(name) for name in "abcd"]
    graph.append(Node("If", attributes={"then_branch": bodies[0], "else_branch": bodies[1]}))
    graph.append(Node("If", attributes={"branches": (bodies[2], bodies[3])}))
    assert list(walk(graph)) == [graph, *bodies]


def test_deeply_nested_attributes_are_searched_for_bodies():
    nested = ()
    for _ in range(10_000):
        nested = (nested,)
    body = Graph("body")
    assert list(Node("X", attributes={"n": nested, "b": (nested, body)}).bodies()) == [body]


def test_replaced_body_loses_its_uses():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    _, deeper = branch(body, a.output, "c")
    kept = list(a.output.uses)[:1]
    new = Graph("new")
    node.set_attribute("then_branch", new)
    assert list(a.output.uses) == kept
    assert not any(value.uses for inner in (body, deeper) for value in inner.values())
    assert (body.parent, new.parent, deeper.outputs) == (None, node, [])
    graph.set_outputs([])
    verify(graph)


def test_reassigned_body_keeps_its_uses():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    node.set_attribute("then_branch", body)
    node.set_attribute("then_branch", (body, 1))
    node.set_attribute("else_branch", body)
    node.remove_attribute("then_branch")
    assert (body.parent, len(a.output.uses)) == (node, 2)
    assert list(node.attributes) == ["else_branch"]
    verify(graph)


def test_an_attribute_is_forgotten_with_its_body():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    node.remove_attribute("no such one")
    node.remove_attribute("then_branch")
    assert (node.attributes, body.parent, len(a.output.uses)) == ({}, None, 1)
    verify(graph)


def test_removed_node_drops_uses_of_its_bodies():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    graph.remove(node)
    assert (len(a.output.uses), body.parent) == (1, None)
    verify(graph)


def test_body_taken_over_survives_removal_of_the_first_node():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    new = graph.insert_after(node, Node("If", [], [], node.attributes))
    new.take_outputs(node)
    graph.remove(node)
    assert (body.parent, len(a.output.uses)) == (new, 2)
    verify(graph)


# --- nodes in a graph -------------------------------------------------------------------------------------------------


def test_nodes_are_iterated_in_order():
    graph, (a, b, c) = chain(3)
    assert order(graph) == ["v0", "v1", "v2"]
    assert (graph.first_node, graph.last_node) == (a, c)
    assert (a.previous, a.next, b.previous, b.next, c.previous, c.next) == (None, b, a, c, b, None)
    assert repr(graph) == "<graph main: 3 nodes>"
    assert (Graph().first_node, Graph().last_node, len(Graph()), list(Graph()), list(reversed(Graph()))) == (
        None,
        None,
        0,
        [],
        [],
    )


@pytest.mark.parametrize(
    ("place", "before", "after"),
    [
        pytest.param(0, ["new", "v0", "v1", "v2"], ["v0", "new", "v1", "v2"], id="first"),
        pytest.param(1, ["v0", "new", "v1", "v2"], ["v0", "v1", "new", "v2"], id="middle"),
        pytest.param(2, ["v0", "v1", "new", "v2"], ["v0", "v1", "v2", "new"], id="last"),
    ],
)
def test_a_node_is_put_before_and_after_another(place, before, after):
    graph, nodes = chain(3)
    new = relu(graph.inputs[0], "new")
    assert graph.insert_before(nodes[place], new) is new
    assert order(graph) == before
    graph, nodes = chain(3)
    new = relu(graph.inputs[0], "new")
    assert graph.insert_after(nodes[place], new) is new
    assert order(graph) == after
    assert new.output.graph is graph
    assert graph.fresh("new") == "new_1"


def test_node_is_inserted_only_once():
    graph, (a, b) = chain(2)
    other, (c,) = chain(1)
    for put in (graph.append, lambda node: graph.insert_before(b, node), lambda node: graph.insert_after(b, node)):
        for node in (a, c):
            with pytest.raises(ValueError, match="is in graph main already"):
                put(node)
    assert (order(graph), order(other)) == (["v0", "v1"], ["v0"])


def test_insertion_point_must_be_in_the_graph():
    graph, (a, b) = chain(2)
    _, (c,) = chain(1)
    free = Node("Relu")
    for change in (
        lambda: graph.insert_before(c, free),
        lambda: graph.insert_after(c, free),
        lambda: graph.move_before(c, a),
        lambda: graph.move_before(a, c),
        lambda: graph.remove(c),
        lambda: graph.remove(free),
        lambda: graph.reorder([a, c]),
    ):
        with pytest.raises(ValueError, match="is not in graph main"):
            change()
    assert order(graph) == ["v0", "v1"]
    assert b.graph is graph


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        pytest.param(0, ["v1", "v2"], id="first"),
        pytest.param(1, ["v0", "v2"], id="middle"),
        pytest.param(2, ["v0", "v1"], id="last"),
    ],
)
def test_a_node_is_removed(place, expected):
    graph, nodes = chain(3)
    node = nodes[place]
    value = node.output
    value.replace_uses(node.operands[0])
    graph.remove(node)
    assert order(graph) == expected
    assert (node.graph, node.inputs, value.graph) == (None, (), None)
    del nodes[place]
    assert [graph.first_node, graph.last_node] == nodes


def test_node_with_used_results_is_not_removed():
    graph, (a, _) = chain(2)
    split = graph.append(Node("Split", [a.output], [Value("s"), Value("t")]))
    graph.add_output(split.results[1])
    with pytest.raises(ValueError, match="%t is still read"):
        graph.remove(split)
    assert split.results[0].graph is graph
    assert order(graph) == ["v0", "v1", "s"]


def test_removed_node_may_be_inserted_again():
    graph, (a, b) = chain(2)
    graph.set_outputs([])
    graph.remove(b)
    b.inputs = [a.output]
    graph.insert_after(a, b)
    assert order(graph) == ["v0", "v1"]


@pytest.mark.parametrize(
    ("place", "moved", "expected"),
    [
        pytest.param(0, 2, ["v2", "v0", "v1"], id="to the front"),
        pytest.param(2, 0, ["v1", "v0", "v2"], id="to the back"),
        pytest.param(1, 0, ["v0", "v1", "v2"], id="where it is"),
        pytest.param(1, 1, ["v0", "v1", "v2"], id="before itself"),
    ],
)
def test_a_node_is_moved(place, moved, expected):
    graph, nodes = chain(3)
    for node in nodes:
        node.inputs = [graph.inputs[0]]
    graph.move_before(nodes[place], nodes[moved])
    assert order(graph) == expected


def test_nodes_are_put_in_a_new_order():
    graph, nodes = chain(3)
    for node in nodes:
        node.inputs = [graph.inputs[0]]
    graph.reorder([nodes[2], nodes[0], nodes[1]])
    assert order(graph) == ["v2", "v0", "v1"]
    for wrong in (nodes[:2], [*nodes, nodes[0]], [nodes[0], nodes[0], nodes[1]]):
        with pytest.raises(ValueError, match=r"nodes are not the 3 of graph main"):
            graph.reorder(wrong)
    assert order(graph) == ["v2", "v0", "v1"]
    Graph().reorder([])


# --- walking while editing --------------------------------------------------------------------------------------------


def test_iteration_visits_nodes_inserted_after_the_current():
    graph, nodes = chain(2)
    seen = []
    for node in graph:
        seen.append(node.output.name)
        if node is nodes[0]:
            graph.insert_after(nodes[0], relu(graph.inputs[0], "behind"))
            graph.insert_before(nodes[0], relu(graph.inputs[0], "before"))
        if node is nodes[1]:
            graph.append(relu(graph.inputs[0], "end"))
    assert seen == ["v0", "behind", "v1", "end"]


def test_reverse_iteration_visits_nodes_inserted_before_the_current():
    graph, nodes = chain(2)
    seen = []
    for node in reversed(graph):
        seen.append(node.output.name)
        if node is nodes[1]:
            graph.insert_after(nodes[1], relu(graph.inputs[0], "behind"))
            graph.insert_before(nodes[1], relu(graph.inputs[0], "before"))
    assert seen == ["v1", "before", "v0"]


@pytest.mark.parametrize(("walked", "insert"), [(iter, Graph.insert_before), (reversed, Graph.insert_after)])
def test_nodes_may_be_replaced_during_iteration(walked, insert):
    graph, _ = chain(5)
    seen = []
    for node in walked(graph):
        seen.append(node.output.name)
        new = insert(graph, node, Node("Elu", node.inputs, [Value(graph.fresh("new"))]))
        node.output.replace_uses(new.output)
        graph.remove(node)
    assert sorted(seen) == ["v0", "v1", "v2", "v3", "v4"]
    assert {node.op for node in graph} == {"Elu"}
    verify(graph)


@pytest.mark.parametrize("walked", [iter, reversed])
def test_nodes_that_are_removed_ahead_of_a_walk_are_not_visited(walked):
    graph, nodes = chain(5)
    graph.set_outputs([])
    for node in nodes:
        node.inputs = ()
    seen = []
    for node in walked(graph):
        seen.append(node)
        if node is nodes[2]:
            for gone in nodes[1:4]:
                graph.remove(gone)
    assert seen == [node for node in walked(nodes) if node in (nodes[0], nodes[2], nodes[4]) or node is seen[1]]
    assert order(graph) == ["v0", "v4"]


def test_nodes_may_be_removed_during_iteration():
    graph, nodes = chain(3)
    graph.set_outputs([])
    for node in nodes:
        node.inputs = ()
    for node in graph:
        for gone in list(graph):
            graph.remove(gone)
        assert node is nodes[0]
    assert (order(graph), graph.first_node, graph.last_node) == ([], None, None)


def test_replace_input_keeps_the_position():
    graph, (node,) = chain(1)
    x, z = graph.inputs[0], graph.add_input("z")
    other = Value("x")
    with pytest.raises(ValueError, match="%x is still read"):
        graph.replace_input(x, other)
    x.replace_uses(other)
    graph.replace_input(x, other)
    assert graph.inputs == [other, z]
    assert (x.graph, other.graph, other.is_input, x.is_input) == (None, graph, True, False)
    assert node.inputs == (other,)
    verify(graph)
    another = Value("k")
    graph.replace_input(z, another)
    assert graph.inputs == [other, another]
    assert graph.fresh("k") == "k_1"
    with pytest.raises(ValueError, match="%k"):
        graph.replace_input(another, another)

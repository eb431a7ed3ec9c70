from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.diagnostics import Source, Span
from graphport.core.storage import storage_of
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from tests.every import every
from tests.ir.samples import FACT, branch, chain, first, names, order, relu
from tests.strategies import graphs
from tests.structure import assert_same

# --- replace ----------------------------------------------------------------------------------------------------------


def test_readers_read_the_new_value_and_names_stay_inside():
    graph, (a, b) = chain(2)
    rewrite.replace(a.output, graph.inputs[0])
    assert names(b.inputs) == ["x"]
    assert names(graph.values()) == ["x", "v0", "v1"]
    verify(graph)


def test_replace_keeps_the_output_name():
    graph, (a, b) = chain(2)
    new = graph.append(relu(a.output, "new"))
    rewrite.replace(b.output, new.output)
    assert names(graph.outputs) == ["v1"]
    assert (new.output.name, b.output.name) == ("v1", "new")
    assert graph.outputs == [new.output]
    verify(graph)


def test_constant_may_become_a_named_output():
    graph, (a,) = chain(1)
    w = graph.add_constant("w", FACT)
    rewrite.replace(a.output, w)
    assert (names(graph.outputs), graph.outputs[0]) == (["v0"], w)
    verify(graph)


def test_an_input_that_becomes_an_output_keeps_its_name_after_an_identity():
    graph, (a,) = chain(1)
    reader = graph.append(relu(a.output, "r"))
    x = graph.inputs[0]
    rewrite.replace(a.output, x)
    identity = first(graph)
    assert (identity.op, identity.inputs, identity.output.name) == ("Identity", (x,), "v0")
    assert (names(graph.outputs), x.name, identity.output.fact) == (["v0"], "x", x.fact)
    assert reader.inputs == (x,)
    verify(graph)


def test_another_output_keeps_its_name_after_an_identity():
    graph, (a, b) = chain(2)
    graph.add_output(a.output)
    rewrite.replace(b.output, a.output)
    assert names(graph.outputs) == ["v1", "v0"]
    assert [node.op for node in graph] == ["Relu", "Identity", "Relu"]
    verify(graph)


def test_replacing_a_body_output_by_an_outer_value_inserts_identity():
    graph, (a, _) = chain(2)
    _, body = branch(graph, a.output)
    inner = body.outputs[0]
    span = Span(Source("m"), 1, 2)
    assert inner.producer is not None
    inner.producer.origin = span
    rewrite.replace(inner, a.output)
    identity = first(body)
    assert (identity.op, names(body.outputs), identity.origin) == ("Identity", ["b"], span)
    verify(graph)


def test_an_identity_is_put_into_an_empty_graph():
    graph = Graph()
    x, w = graph.add_input("x"), graph.add_constant("w", FACT)
    graph.add_output(w)
    rewrite.replace(w, x)
    assert [str(node) for node in graph] == ["%w = Identity(%x)"]
    assert names(graph.outputs) == ["w"]
    verify(graph)


def test_replace_keeps_excepted_consumers():
    graph, (_a, b) = chain(2)
    new = graph.append(relu(b.output, "new"))
    late = graph.append(relu(b.output, "late"))
    rewrite.replace(b.output, new.output, keep=[new])
    assert [str(node) for node in graph] == [
        "%v0 = Relu(%x)",
        "%new = Relu(%v0)",
        "%v1 = Relu(%new)",
        "%late = Relu(%v1)",
    ]
    assert late.inputs == (new.output,)
    verify(graph)


def test_an_input_that_is_returned_cannot_be_replaced():
    graph, (a,) = chain(1)
    x = graph.inputs[0]
    graph.add_output(x)
    with pytest.raises(ValueError, match="%x is an input and an output"):
        rewrite.replace(x, a.output)
    rewrite.replace(x, x)
    assert names(graph.outputs) == ["v0", "x"]


def test_replacing_a_value_without_graph_raises():
    graph, (a,) = chain(1)
    stray = Value("stray")
    graph.add_output(stray)
    with pytest.raises(ValueError, match="%stray is in no graph"):
        rewrite.replace(stray, a.output)


# --- dead code --------------------------------------------------------------------------------------------------------


def test_nodes_that_no_output_depends_on_are_removed():
    graph, (a, _b) = chain(2)
    w = graph.add_constant("w", FACT)
    dead = graph.append(Node("Add", [a.output, w], [Value("dead")]))
    graph.append(relu(dead.output, "deader"))
    assert rewrite.remove_dead(graph) == 2
    assert order(graph) == ["v0", "v1"]
    assert names(graph.values()) == ["x", "v0", "v1"]
    assert rewrite.remove_dead(graph) == 0


def test_remove_dead_keeps_inputs_and_partly_used_nodes():
    graph = Graph()
    graph.add_input("unused")
    split = graph.append(Node("Split", [], [Value("s"), Value("t")]))
    graph.add_output(split.results[1])
    assert rewrite.remove_dead(graph) == 0
    assert names(graph.values()) == ["unused", "s", "t"]


def test_remove_dead_covers_bodies_and_their_captured_operands():
    graph, (a,) = chain(1)
    only_here = graph.append(relu(a.output, "only_here"))
    node, body = branch(graph, a.output)
    body.add_constant("w", FACT)
    body.append(relu(only_here.output, "dead"))
    graph.add_output(node.output)
    assert rewrite.remove_dead(graph) == 2
    assert (names(graph.values()), names(body.values())) == (["x", "v0", "b_if"], ["b"])
    verify(graph)


def test_remove_dead_removes_nodes_with_bodies():
    graph, (a, b) = chain(2)
    graph.set_outputs([a.output])
    branch(graph, b.output)
    assert rewrite.remove_dead(graph) == 2
    assert order(graph) == ["v0"]


def test_a_node_is_erased_wherever_it_is():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    body.set_outputs([])
    rewrite.erase(first(body))
    assert len(body) == 0
    rewrite.erase(node)
    assert order(graph) == ["v0"]
    with pytest.raises(ValueError, match="is in no graph"):
        rewrite.erase(node)


# --- copies -----------------------------------------------------------------------------------------------------------


@given(graphs())
def test_a_copy_has_the_same_content(graph):
    twin = rewrite.copy(graph)
    verify(twin)
    assert_same(graph, twin)
    storages = [value.storage for inner in walk(graph) for value in inner.values()]
    assert [value.storage for inner in walk(twin) for value in inner.values()] == storages
    everything = {*walk(graph), *(value for inner in walk(graph) for value in inner.values())}
    assert not everything & {*walk(twin), *(value for inner in walk(twin) for value in inner.values())}
    verify(graph)


def test_copy_duplicates_notes_and_keeps_origins():
    graph, (a,) = chain(1)
    span = Span(Source("m"), 1, 2)
    for owner in (graph, a, a.output, graph.inputs[0], graph.add_constant("w", FACT, storage_of([1.0]))):
        owner.origin = span
        owner.notes["onnx"] = 1
    twin = rewrite.copy(graph)
    assert_same(graph, twin)
    twin.notes["more"] = 1
    first(twin).notes["more"] = 1
    twin.inputs[0].notes["more"] = 1
    assert_same(graph, rewrite.copy(graph))
    assert list(graph.notes) == list(a.notes) == ["onnx"]


def test_copy_keeps_is_literal():
    graph = Graph()
    graph.add_constant("c", FACT).is_literal = True
    assert [value.is_literal for value in rewrite.copy(graph).constants] == [True]


def test_copy_node_copies_bodies_in_attributes():
    body, storage = Graph("body"), storage_of([1.0])
    attributes = {"a": 1, "pads": (1, 2), "nested": ((1, ()), storage), "body": body, "bodies": ((body, 1), (2,))}
    copied = rewrite.copy_node(Node("X", attributes=attributes), {}).attributes
    twin = copied["body"]
    assert isinstance(twin, Graph)
    assert twin is not body
    assert copied == attributes | {"body": twin, "bodies": ((twin, 1), (2,))}
    assert copied["pads"] is attributes["pads"]


def test_copy_does_not_create_empty_notes():
    graph, _ = chain(1)
    twin = rewrite.copy(graph)
    assert [owner._notes for owner in (twin, first(twin), twin.inputs[0])] == [None] * 3


def test_copied_body_keeps_captured_operands():
    graph, (a,) = chain(1)
    _, body = branch(graph, a.output)
    body.add_output(graph.inputs[0])
    twin = rewrite.copy(body)
    assert_same(body, twin)
    assert twin.parent is None
    assert first(twin).inputs == (a.output,)
    assert twin.outputs[1] is graph.inputs[0]


def test_a_graph_out_of_order_is_copied_without_ties_to_it():
    graph, (a, b) = chain(2)
    a.set_input(1, b.output)
    twin = rewrite.copy(graph)
    assert [str(node) for node in twin] == ["%v0 = Relu(%x, %v1)", "%v1 = Relu(%v0)"]
    assert len(b.output.uses) == 2


def test_bodies_nested_deeply_are_copied():
    graph = outermost = Graph()
    value = graph.add_input("x")
    for _ in range(300):
        body = Graph("body")
        graph.append(Node("If", attributes={"then_branch": (1, (body,), ())}))
        graph = body
    graph.add_output(value)
    twin = rewrite.copy(outermost)
    verify(twin)
    assert list(walk(twin))[-1].outputs == twin.inputs


def test_attributes_nested_deeply_are_copied():
    body = Graph("body")
    nested = (body, None)
    for number in range(3_000):
        nested = (number, nested, ())
    graph = Graph()
    graph.append(Node("X", attributes={"n": nested}))
    copied: Any = first(rewrite.copy(graph)).attributes["n"]
    for number in reversed(range(3_000)):
        assert (copied[0], copied[2]) == (number, ())
        copied = copied[1]
    assert (copied[0].name, copied[0] is body, copied[1]) == ("body", False, None)


def test_a_node_is_copied_reading_other_values():
    graph, (a, b) = chain(2)
    x, other = graph.inputs[0], graph.add_input("other")
    a.inputs = [x, None, other]
    twin = rewrite.copy_node(a, {x: b.output})
    assert (twin.graph, str(twin)) == (None, "%v0 = Relu(%v1, _, %other)")
    assert twin.output is not a.output
    y = Value("y")
    assert rewrite.copy_node(a, {}, [y, None]).outputs == (y,)


def test_a_node_is_copied_with_its_bodies():
    graph, (a,) = chain(1)
    node, body = branch(graph, a.output)
    x = graph.inputs[0]
    twin = rewrite.copy_node(node, {a.output: x}, [Value(graph.fresh("y"))])
    graph.append(twin)
    (copied,) = twin.bodies()
    assert (copied is body, copied.parent, str(first(copied))) == (False, twin, "%b = Relu(%x)")
    verify(graph)


# --- order ------------------------------------------------------------------------------------------------------------


def test_each_node_is_put_after_those_that_it_reads_from():
    graph, (a, b, c) = chain(3)
    graph.reorder([c, b, a])
    assert rewrite.sort_topologically(graph) == []
    assert order(graph) == ["v0", "v1", "v2"]


def test_sorted_graph_is_not_reordered():
    graph = Graph()
    x = graph.add_input("x")
    for name in "dacb":
        graph.append(relu(x, name))
    assert rewrite.sort_topologically(graph) == []
    assert order(graph) == ["d", "a", "c", "b"]


def test_topological_sort_is_stable():
    graph = Graph()
    x = graph.add_input("x")
    late, b, _c, early, _e = (graph.append(relu(x, name)) for name in ("late", "b", "c", "early", "e"))
    late.inputs = [early.output]
    b.inputs = [x, x]
    assert rewrite.sort_topologically(graph) == []
    assert order(graph) == ["b", "c", "early", "late", "e"]


def test_captured_operands_are_sorted_before_the_node():
    graph, (a,) = chain(1)
    _node, body = branch(graph, a.output)
    deeper, _ = branch(body, a.output, "c")
    late = graph.append(relu(a.output, "late"))
    first(next(deeper.bodies())).set_input(0, late.output)
    assert rewrite.sort_topologically(graph) == []
    assert order(graph) == ["v0", "late", "b_if"]


def test_outer_values_returned_by_a_body_are_sorted_before_the_node():
    graph, (a,) = chain(1)
    _node, body = branch(graph, a.output)
    late = graph.append(relu(a.output, "late"))
    body.add_output(late.output)
    rewrite.sort_topologically(graph)
    assert order(graph) == ["v0", "late", "b_if"]


def test_sorting_a_graph_does_not_sort_its_bodies():
    graph, (a,) = chain(1)
    _, body = branch(graph, a.output)
    body.insert_before(first(body), relu(first(body).output, "c"))
    rewrite.sort_topologically(graph)
    assert names(body.values()) == ["c", "b"]
    rewrite.sort_topologically(body)
    assert names(body.values()) == ["b", "c"]


def test_a_cycle_is_returned_and_put_last():
    graph = Graph()
    x = graph.add_input("x")
    after, a, b, c, _free = (graph.append(relu(x, name)) for name in ("after", "a", "b", "c", "free"))
    after.inputs = [a.output]
    a.inputs = [x, c.output]
    b.inputs = [a.output]
    c.inputs = [x, b.output]
    assert rewrite.sort_topologically(graph) == [b, c, a]
    assert [node.output.name for node in graph] == ["free", "after", "a", "b", "c"]


def test_node_with_its_result_as_operand_is_a_cycle():
    graph, (a,) = chain(1)
    a.set_input(1, a.output)
    assert rewrite.sort_topologically(graph) == [a]


@given(graphs(nesting=1), st.randoms(use_true_random=False))
def test_sorting_undoes_any_shuffling(graph, random):
    nodes = list(graph)
    random.shuffle(nodes)
    graph.reorder(nodes)
    assert rewrite.sort_topologically(graph) == []
    verify(graph)
    sorted_once = list(graph)
    rewrite.sort_topologically(graph)
    assert list(graph) == sorted_once


@given(graphs())
def test_a_graph_in_order_is_not_touched(graph):
    nodes = list(graph)
    rewrite.sort_topologically(graph)
    assert list(graph) == nodes


# --- captured values --------------------------------------------------------------------------------------------------


def test_captured_lists_outer_values_used_in_bodies():
    graph, (a, b) = chain(2)
    node, body = branch(graph, b.output)
    branch(body, a.output, "c")
    body.add_output(graph.inputs[0])
    first(body).set_input(1, b.output)
    assert names(rewrite.captured(node)) == ["v1", "x", "v0"]
    assert rewrite.captured(a) == {}


def test_copy_node_does_not_iterate_over_the_mapping():
    class Known(dict[Value, Value]):
        def keys(self):
            raise AssertionError

        __iter__ = keys

    graph, (a, b) = chain(2)
    twins = Known({graph.inputs[0]: a.output})
    assert rewrite.copy_node(a, twins).inputs == (a.output,)
    assert rewrite.copy_node(b, twins).inputs == (a.output,)


# --- take_back --------------------------------------------------------------------------------------------------------


def uses(graph: Graph) -> dict[Value, list[Any]]:
    """Who reads each value, bodies included, in the order in which they began to."""
    return {value: list(value.uses) for value in graph.values()}


def bodies_of(*read: Value) -> list[Graph]:
    """Bodies that no node has yet: one that returns what it reads, one with a node, one with a body of its own."""
    plain, inner, outer = Graph("plain"), Graph("inner"), Graph("outer")
    for value in read:
        plain.add_output(value)
        inner.append(relu(value, inner.fresh("r")))
        outer.append(relu(value, outer.fresh("r")))
        branch(outer, value, outer.fresh("b"))
    return [plain, inner, outer]


@every("place", [0, 1, 3])
def test_failed_rule_is_rolled_back(place):
    """Nodes between two, bodies that a node has, and bodies that none has; readers that were there before stay."""
    graph, nodes = chain(4)
    kept, _ = branch(graph, nodes[2].output, "kept")
    before, node = (nodes[place - 1] if place else None), nodes[place]
    said, read = to_text(graph), uses(graph)
    operand = node.operands[0]
    one = relu(operand, "one")
    graph.insert_before(node, one)
    two = Node("Add", [one.output, operand], [Value("two"), Value("three")])
    graph.insert_before(node, two)
    graph.insert_before(node, Node("If", [two.results[1]], [Value("if")], {"then_branch": bodies_of(operand)[1]}))
    left = bodies_of(operand, one.output, two.results[1], operand)
    rewrite.take_back(graph, before, node)
    assert (to_text(graph), uses(graph)) == (said, read)
    assert [two.inputs, one.inputs] == [(), ()]
    assert not any(body.outputs or any(each.inputs for each in body) for body in left)
    assert kept.graph is graph
    verify(graph)

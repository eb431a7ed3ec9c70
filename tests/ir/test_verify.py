from __future__ import annotations

import pytest
from hypothesis import given

from graphport.core.facts import UNKNOWN
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Use, Value
from graphport.ir.verify import VerificationError, verify
from tests.ir.samples import first
from tests.strategies import graphs


def model() -> Graph:
    """x, w → a = Add(x, w) → (b, c) = Split(a) → If, whose body returns d = Relu(b); c is returned."""
    graph = Graph()
    x, w = graph.add_input("x"), graph.add_constant("w", UNKNOWN)
    add = graph.append(Node("Add", [x, w], [Value("a")]))
    split = graph.append(Node("Split", [add.output], [Value("b"), Value("c")]))
    body = Graph("then")
    relu = body.append(Node("Relu", [split.output], [Value("d")]))
    body.add_output(relu.output)
    graph.append(Node("If", [], [Value("e")], {"then_branch": body}))
    graph.add_output(split.results[1])
    return graph


def nodes(graph: Graph) -> list[Node]:
    return list(graph)


def body_of(graph: Graph) -> Graph:
    return next(body for node in graph for body in node.bodies())


LAWS = {}


def forget_uses(value: Value) -> None:
    for use in list(value.uses):
        value.lose(use)


def law(message: str):
    """The test that `verify` says `message` of the model after the function has broken it."""

    def register(break_it):
        LAWS[break_it.__name__] = (break_it, message)
        return break_it

    return register


@law("%x does not know that it is in graph main")
def an_input_knows_its_graph(graph):
    graph.inputs[0].graph = None


@law("%w does not know that it is in graph main")
def a_constant_knows_its_graph(graph):
    next(iter(graph.constants)).graph = Graph()


@law("%a does not know that it is in graph main")
def a_result_knows_its_graph(graph):
    nodes(graph)[0].output.graph = body_of(graph)


@law("%d does not know that it is in graph then")
def a_result_in_a_body_knows_the_body(graph):
    first(body_of(graph)).output.graph = graph


@law("%w is an input or constant, yet Split computes it")
def constants_are_not_computed(graph):
    next(iter(graph.constants)).producer = nodes(graph)[1]


@law("%x is an input or constant, yet Split computes it")
def inputs_are_not_computed(graph):
    graph.inputs[0].producer = nodes(graph)[1]


@law("%a has numbers like a constant and is none")
def results_have_no_numbers(graph):
    nodes(graph)[0].output.storage = storage_of([1.0])


@law("%x has numbers like a constant and is none")
def inputs_are_not_literal(graph):
    graph.inputs[0].is_literal = True


@law("%x is defined twice")
def no_input_is_a_constant(graph):
    graph.constants[graph.inputs[0]] = None


@law("%a is defined twice")
def no_result_is_another_one_too(graph):
    split = nodes(graph)[1]
    split._outputs = (*split._outputs, nodes(graph)[0].output)


@law("%c does not know that it is result 1 of %b, %c = Split(%a)")
def a_result_knows_its_number(graph):
    nodes(graph)[1].results[1].index = 0


@law("%a does not know that it is result 0 of %a = Add(%x, %w)")
def a_result_knows_its_producer(graph):
    nodes(graph)[0].output.producer = nodes(graph)[1]


@law("the last result of %b, %c, _ = Split(%a) is absent")
def absent_results_do_not_come_last(graph):
    nodes(graph)[1]._outputs += (None,)


@law("the last operand of %b, %c = Split(%a, _) is None")
def absent_operands_do_not_come_last(graph):
    split = nodes(graph)[1]
    split._given = (*split.inputs, None)


@law("%a = Add(%x, %w, %c) reads %c before it is computed")
def operands_are_computed_before(graph):
    nodes(graph)[0].set_input(2, nodes(graph)[1].results[1])


@law("%a = Add(%x, %w, %a) reads %a before it is computed")
def no_node_reads_itself(graph):
    nodes(graph)[0].set_input(2, nodes(graph)[0].output)


@law("%d = Relu(%b, %e) reads %e before it is computed")
def no_body_reads_what_its_node_computes(graph):
    first(body_of(graph)).set_input(1, nodes(graph)[2].output)


@law("%f = Relu(%d) reads %d before it is computed")
def nobody_reads_what_is_in_a_body(graph):
    graph.append(Node("Relu", [first(body_of(graph)).output], [Value("f")]))


@law("%a = Add(%x, %w, %stray) reads %stray before it is computed")
def operands_are_in_the_graph(graph):
    nodes(graph)[0].set_input(2, Value("stray"))


@law("graph main returns %stray, which is not computed")
def outputs_are_in_the_graph(graph):
    graph.add_output(Value("stray"))


@law("graph main returns %d, which is not computed")
def no_graph_returns_what_is_in_a_body(graph):
    graph.add_output(first(body_of(graph)).output)


@law("duplicate value name a")
def names_are_unique_in_a_graph(graph):
    graph.rename(nodes(graph)[1].output, "a")


@law("duplicate value name a")
def names_in_a_body_differ_from_those_around_it(graph):
    graph.rename(first(body_of(graph)).output, "a")


@law("graph main may give the name of %new again")
def the_graph_knows_its_names(graph):
    nodes(graph)[0].output.name = "new"


@law("a body of %e = If() belongs to another node")
def a_body_knows_its_node(graph):
    body_of(graph).parent = nodes(graph)[0]


@law("graph then is a body twice")
def a_body_has_one_node(graph):
    nodes(graph)[2].attributes["else_branch"] = body_of(graph)


@law("graph main is a body twice")
def no_graph_is_in_itself(graph):
    nodes(graph)[2].attributes["else_branch"] = graph


@law("%a does not know that %b, %c = Split(%a) reads it as number 0")
def a_value_knows_its_readers(graph):
    forget_uses(nodes(graph)[0].output)


@law("%b does not know that %d = Relu(%b) reads it as number 0")
def a_value_knows_its_readers_in_bodies(graph):
    forget_uses(nodes(graph)[1].output)


@law("%c does not know that <graph main: 3 nodes> reads it as number 0")
def a_value_knows_who_returns_it(graph):
    forget_uses(nodes(graph)[1].results[1])
    nodes(graph)[1].results[1].returns = 0


@law("%c believes that it is returned 2 times")
def a_value_knows_how_often_it_is_returned(graph):
    nodes(graph)[1].results[1].returns += 1


@law("%x believes that %a = Add(%x, %w) reads it as number 1")
def a_value_is_read_by_whom_it_says(graph):
    graph.inputs[0].gain(Use(nodes(graph)[0], 1))


@law("%x believes that %y = Relu(%x) reads it as number 0")
def readers_are_in_the_graph(graph):
    Node("Relu", graph.inputs, [Value("y")])


@law("%x believes that %y = Relu(%x) reads it as number 0")
def readers_are_in_no_other_graph(graph):
    Graph().append(Node("Relu", graph.inputs, [Value("y")]))


@law("%a = Add(%x, %w) does not know that it is in graph main")
def a_node_knows_its_graph(graph):
    nodes(graph)[0].graph = None


@law("the list of nodes is broken before %e = If()")
def nodes_know_their_neighbours(graph):
    nodes(graph)[2].previous = nodes(graph)[0]


@law("the list of nodes is broken before %a = Add(%x, %w)")
def the_list_of_nodes_ends(graph):
    nodes(graph)[2].next = nodes(graph)[0]


@law("graph main does not know its last node")
def a_graph_knows_its_last_node(graph):
    graph._last = nodes(graph)[1]


@law("graph main counts 2 nodes and has 3")
def a_graph_counts_its_nodes(graph):
    graph._length -= 1


@pytest.mark.parametrize(("break_it", "message"), LAWS.values(), ids=LAWS)
def test_a_broken_law_is_named(break_it, message):
    graph = model()
    break_it(graph)
    with pytest.raises(VerificationError) as caught:
        verify(graph)
    assert message in str(caught.value).splitlines()


def test_the_model_keeps_every_law():
    verify(model())


def test_every_broken_law_is_reported():
    graph = model()
    graph.add_output(Value("stray"))
    body_of(graph).parent = None
    with pytest.raises(VerificationError) as caught:
        verify(graph)
    assert str(caught.value).splitlines() == [
        "a body of %e = If() belongs to another node",
        "graph main returns %stray, which is not computed",
    ]


def test_sibling_bodies_may_use_equal_names():
    graph = model()
    body = Graph("other")
    body.add_output(body.append(Node("Relu", [graph.inputs[0]], [Value("d")])).output)
    graph.append(Node("If", [], [], {"then_branch": body}))
    verify(graph)


def test_name_of_a_body_value_may_be_reused_after_the_body():
    graph = model()
    graph.append(Node("Relu", [], [Value("d")]))
    verify(graph)


def test_body_may_return_an_outer_value():
    graph = model()
    body_of(graph).add_output(graph.inputs[0])
    verify(graph)


def test_deeply_nested_bodies_are_verified():
    graph = outermost = Graph()
    value = graph.add_input("x")
    for _ in range(2_000):
        body = Graph("body")
        graph.append(Node("If", attributes={"then_branch": body}))
        graph = body
    graph.add_output(value)
    verify(outermost)
    graph.add_output(Value("stray"))
    with pytest.raises(VerificationError, match="returns %stray, which is not computed"):
        verify(outermost)


@given(graphs())
def test_random_graphs_keep_every_law(graph):
    verify(graph)

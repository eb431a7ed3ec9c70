from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.search import Direction, Path, activations, has_path, nodes_on_paths, paths
from graphport.ir.text import from_text
from tests.strategies import graphs

NETWORK = """
graph g(%x, %w) {
  %a = Conv(%x, %w)
  %b = Relu(%a)
  %c = Conv(%b, %w)
  %d = Add(%c, %a)
  %e = Conv(%d)
  return %e
}
"""

FUSE_BN = """
graph g(%x, %w) {
  %a = Conv(%x, %w)
  %b = BatchNormalization(%a)
  %c = Gemm(%b, %w)
  %d = Relu(%c)
  %e = BatchNormalization(%d)
  %f = ConvTranspose(%e)
  %g = BatchNormalization(%f)
  %h = BatchNormalization(%f)
  return %g, %h
}
"""


def said(path) -> str:
    return " ".join(node.output.name for node in path)


def all_said(found: list[Path]) -> list[str]:
    return [said(path) for path in found]


def test_path_follows_relays_to_an_end():
    graph = from_text(NETWORK)
    assert all_said(paths(graph, "Conv", "Conv", relay={"Relu", "Clip"})) == ["a b c"]
    assert all_said(paths(graph, ["Conv"], ["Conv"], relay=["Relu", "Add"])) == ["a b c", "a d e", "c d e"]
    assert all_said(paths(graph, "Conv", "Conv")) == []
    assert all_said(paths(graph, "Conv", "Relu")) == ["a b"]


def test_path_direction_may_be_up():
    graph = from_text(NETWORK)
    assert all_said(paths(graph, "Add", "Conv", direction="up")) == ["d c", "d a"]
    assert all_said(paths(graph, "Conv", "Conv", relay=lambda node: True, direction="up")) == [
        "c b a",
        "e d c",
        "e d a",
    ]


def test_the_pattern_that_ppq_fuses_batch_normalization_by():
    found = paths(from_text(FUSE_BN), {"Conv", "Gemm", "ConvTranspose"}, {"BatchNormalization"})
    assert all_said(found) == ["a b", "f g", "f h"]


def test_a_path_ends_at_the_first_end():
    graph = from_text("graph g(%x) { %a = A(%x) %b = B(%a) %c = B(%b) return %c }")
    assert all_said(paths(graph, "A", "B", relay="B")) == ["a b"]
    assert all_said(paths(graph, "B", "B", relay="B")) == ["b c"]


def test_start_node_may_be_a_relay():
    graph = from_text("graph g(%x) { %a = A(%x) %b = A(%a) %c = B(%b) return %c }")
    assert all_said(paths(graph, "A", "B", relay="A")) == ["a b c", "b c"]


def test_conditions_are_functions_of_nodes():
    graph = from_text(NETWORK)
    found = paths(
        graph,
        lambda node: len(node.operands) == 2,
        lambda node: bool(node.output.is_output),
        relay=lambda node: node.op != "Conv",
    )
    assert all_said(found) == ["a d e", "c d e", "d e"]


def test_operators_of_dialects_have_their_full_names():
    graph = from_text("graph g(%x) { %a = nnef.conv(%x) %b = nnef.relu(%a) return %b }")
    assert all_said(paths(graph, "nnef.conv", "nnef.relu")) == ["a b"]
    assert paths(graph, "conv", "relu") == []
    assert paths(graph, "nnef.conv nnef.relu", "nnef.relu") == []


def test_step_predicate_receives_both_nodes():
    graph = from_text(NETWORK)

    def is_other(here: Node, there: Node) -> bool:
        return (here.op, there.op) != ("Conv", "Add")

    assert all_said(paths(graph, "Conv", "Conv", relay=["Relu", "Add"], step=is_other)) == ["a b c"]
    assert all_said(paths(graph, "Conv", "Add", relay=lambda node: True, step=lambda here, there: False)) == [
        "a d",
        "c d",
    ]
    assert all_said(paths(graph, "Relu", "Add", relay="Conv", step=lambda here, there: here.op == "Relu")) == ["b c d"]


def test_repeated_operand_gives_one_neighbour():
    graph = from_text("graph g(%x) { %a, %b = Split(%x) %c = Add(%a, %a, %b) return %c }")
    assert all_said(paths(graph, "Split", "Add")) == ["a c"]
    assert all_said(paths(graph, "Add", "Split", direction="up")) == ["c a"]


def test_paths_are_ordered_by_start_and_consumer():
    graph = from_text("graph g(%x) { %a = A(%x) %b = A(%x) %c = C(%b) %d = C(%a, %b) %e = C(%a) return %c }")
    nodes = {node.output.name: node for node in graph}
    assert all_said(paths(graph, "A", "C")) == ["a d", "a e", "b c", "b d"]
    nodes["d"].inputs = [nodes["a"].output]
    assert all_said(paths(graph, "A", "C")) == ["a e", "a d", "b c"]


def test_a_search_stops_at_its_limit():
    graph = from_text(NETWORK)
    found = paths(graph, "Conv", "Conv", relay=["Relu", "Add"])
    for limit in range(4):
        assert paths(graph, "Conv", "Conv", relay=["Relu", "Add"], limit=limit) == found[:limit]


# --- bodies -----------------------------------------------------------------------------------------------------------

WITH_BODIES = """
graph g(%x) {
  %a = Conv(%x)
  %b = If(%x) {then = graph t() {
    %c = If() {then = graph u() { %d = Relu(%a) %e = Neg(%d) return %e }}
    return %c
  }}
  %f = If(%x) {then = graph v() { return %b }}
  return %f
}
"""


def test_captured_operands_count_as_operands_of_the_node():
    graph, body, inner, _ = walk(from_text(WITH_BODIES))
    assert all_said(paths(graph, "Conv", "If")) == ["a b"]
    assert all_said(paths(graph, "If", "If", relay="If")) == ["b f"]
    assert all_said(paths(graph, "If", "Conv", relay="If", direction="up")) == ["b a", "f b a"]
    assert paths(graph, "Conv", "Relu") == []
    assert all_said(paths(inner, "Relu", "Neg")) == ["d e"]
    assert paths(body, "If", "If", relay="If") == []
    assert paths(inner, "Relu", "Conv", direction="up") == []


# --- existence, sets, activations -------------------------------------------------------------------------------------


def diamonds(count: int) -> Graph:
    """A chain of `count` diamonds between a start and an end: 2 to the power of `count` paths."""
    graph = Graph()
    value = graph.append(Node("Start", [], [Value("start")])).output
    for number in range(count):
        left, right = (graph.append(Node("Relu", [value], [Value(f"{side}{number}")])).output for side in "lr")
        value = graph.append(Node("Add", [left, right], [Value(f"add{number}")])).output
    graph.add_output(graph.append(Node("End", [value], [Value("end")])).output)
    return graph


def test_has_path_is_fast_for_exponentially_many_paths():
    graph = diamonds(1_000)
    relays = {"Relu", "Add"}
    assert len(paths(diamonds(5), "Start", "End", relay=relays)) == 32
    assert has_path(graph, "Start", "End", relay=relays)
    assert has_path(graph, "End", "Start", relay=relays, direction="up")
    assert not has_path(graph, "Start", "End", relay="Add")
    assert len(nodes_on_paths(graph, "Start", "End", relay=relays)) == len(graph)
    assert len(paths(graph, "Start", "End", relay=relays, limit=3)) == 3


def test_dead_ends_are_pruned():
    graph = diamonds(1_000)
    assert paths(graph, "Start", "Nothing", relay={"Relu", "Add"}) == []
    assert nodes_on_paths(graph, "Start", "Nothing", relay={"Relu", "Add"}) == []


def test_relay_predicate_is_called_once_per_node():
    graph = diamonds(50)
    asked: list[Node] = []

    def relay(node: Node) -> bool:
        asked.append(node)
        return node.op in {"Relu", "Add"}

    assert has_path(graph, "Start", lambda node: node.op == "End", relay=relay)
    assert len(asked) == len(set(asked)) == len(graph) - 2


def test_nodes_on_paths_are_in_graph_order():
    graph = from_text(NETWORK)
    assert said(nodes_on_paths(graph, "Conv", "Conv", relay=["Relu", "Add"])) == "a b c d e"
    assert said(nodes_on_paths(graph, "Conv", "Conv", relay="Relu")) == "a b c"
    assert said(nodes_on_paths(graph, "Conv", "Conv", relay=["Relu"], direction="up")) == "a b c"
    assert said(nodes_on_paths(graph, "Add", "Conv")) == "d e"


def test_nodes_on_paths_without_end_follows_all_relays():
    graph = from_text(NETWORK)
    assert said(nodes_on_paths(graph, "Add", None, relay="Conv")) == "d e"
    assert said(nodes_on_paths(graph, "Add", None)) == "d"
    assert said(nodes_on_paths(graph, "Add", None, relay=["Conv", "Relu"], direction="up")) == "a b c d"
    assert nodes_on_paths(graph, "Nothing", None) == []


def test_activations_read_directly():
    graph = from_text("""
    graph g(%x) {
      %a = Conv(%x) %b = Relu(%a) %c = Clip(%a) %d = Neg(%a) %e = Gemm(%d) %f = Neg(%e) %h = Relu(%f)
      return %h
    }""")
    found = activations(graph, {"Conv", "Gemm"}, {"Relu", "Clip"})
    assert [(said([node]), said(readers)) for node, readers in found.items()] == [("a", "b c")]


# --- every path that there is -----------------------------------------------------------------------------------------


def every_path(graph: Graph, start: str, end: str, relay: set[str], direction: Direction) -> list[Path]:
    """The same by following every edge, in a graph without bodies."""

    def beside(node: Node) -> list[Node]:
        if direction == "down":
            return list(dict.fromkeys(user for value in node.results for user in value.users))
        return list(dict.fromkeys(value.producer for value in node.operands if value.producer is not None))

    def follow(path: Path) -> list[Path]:
        found: list[Path] = []
        for node in beside(path[-1]):
            if node.op == end:
                found.append((*path, node))
            elif node.op in relay:
                found += follow((*path, node))
        return found

    return [path for node in graph if node.op == start for path in follow((node,))]


WORDS = st.sampled_from(["A", "B", "C"])


@given(graphs(most_nodes=9, nesting=0), st.data(), WORDS, WORDS, st.sets(WORDS), st.sampled_from(["up", "down"]))
def test_paths_equal_exhaustive_search(graph, data, start, end, relay, direction):
    for node in graph:
        node.dialect, node.op_type = "", data.draw(WORDS)
    expected = every_path(graph, start, end, relay, direction)
    assert paths(graph, start, end, relay=relay, direction=direction) == expected
    assert has_path(graph, start, end, relay=relay, direction=direction) == bool(expected)
    nodes = {node for path in expected for node in path}
    assert nodes_on_paths(graph, start, end, relay=relay, direction=direction) == [n for n in graph if n in nodes]
    direct = {node: [path[1] for path in expected if path[0] is node] for node in graph}
    if not relay and direction == "down":
        assert activations(graph, start, end) == {node: found for node, found in direct.items() if found}


@pytest.mark.parametrize("search", [paths, has_path, nodes_on_paths])
def test_an_empty_graph_has_no_paths(search: Callable[..., object]):
    assert not search(Graph(), "A", "B", relay="C")
    assert activations(Graph(), "A", "B") == {}

"""Matches of small subgraphs by conditions on nodes and edges."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.ir import search
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.search import Path, matches
from graphport.ir.text import from_text
from tests.strategies import graphs

SWISH = """
graph g(%x) {
  %a = Conv(%x)
  %b = Sigmoid(%a)
  %c = Mul(%a, %b)
  %d = Conv(%c)
  %e = Sigmoid(%d)
  %f = Mul(%d, %e)
  %g = Relu(%e)
  return %f, %g
}
"""
TRIANGLE = [(0, 1), (1, 2), (0, 2)]


def said(found: list[Path]) -> list[str]:
    return [" ".join(node.output.name for node in path) for path in found]


def test_pattern_has_nodes_and_edges():
    graph = from_text(SWISH)
    assert said(matches(graph, ["Conv", "Sigmoid", "Mul"], TRIANGLE)) == ["a b c", "d e f"]
    assert said(matches(graph, ["Sigmoid", "Conv"], [(1, 0)])) == ["b a", "e d"]
    assert said(matches(graph, [lambda node: len(node.operands) == 2], [])) == ["c", "f"]


def test_closed_match_has_no_external_consumers():
    graph = from_text(SWISH)
    assert said(matches(graph, ["Conv", "Sigmoid", "Mul"], TRIANGLE, is_closed=True)) == ["a b c"]
    assert said(matches(graph, ["Mul", "Conv"], [(0, 1)], is_closed=True)) == ["c d"]
    returned = from_text("graph g(%x) { %a = A(%x) %b = B(%a) return %a, %b }")
    assert matches(returned, ["A", "B"], [(0, 1)], is_closed=True) == []


def test_pattern_nodes_match_distinct_nodes():
    graph = from_text("graph g(%x) { %a = A(%x) %b = B(%a) %c = B(%a) return %b, %c }")
    assert said(matches(graph, ["A", "B", "B"], [(0, 1), (0, 2)])) == ["a b c", "a c b"]


def test_captured_operands_count_as_operands_of_the_node():
    graph = from_text("graph g(%x) { %a = A(%x) %b = If(%x) {then = graph t() { %c = B(%a) return %c }} return %b }")
    assert said(matches(graph, ["A", "If"], [(0, 1)])) == ["a b"]


def test_a_search_stops_at_its_limit():
    graph = from_text(SWISH)
    assert said(matches(graph, ["Conv", "Sigmoid", "Mul"], TRIANGLE, limit=1)) == ["a b c"]
    assert matches(graph, ["Conv"], [], limit=0) == []


@pytest.mark.parametrize(
    ("pattern", "edges", "message"),
    [
        pytest.param([], [], "do not connect 0 pattern nodes", id="nothing"),
        pytest.param(["A"], [(0, 0)], "do not connect 1 pattern nodes", id="a loop"),
        pytest.param(["A", "B"], [(0, 2)], "do not connect 2 pattern nodes", id="no such place"),
        pytest.param(["A", "B", "C"], [(1, 2)], "pattern node 1 is not connected", id="in pieces"),
    ],
)
def test_invalid_pattern_raises_valueerror(pattern, edges, message):
    with pytest.raises(ValueError, match=message):
        matches(Graph(), pattern, edges)


def star(count: int) -> Graph:
    graph = Graph()
    hub = graph.append(Node("Hub", [], [Value("hub")])).output
    for number in range(count):
        graph.append(Node("Leaf", [hub], [Value(f"leaf{number}")]))
    return graph


def test_nodes_without_possible_match_are_not_tried(monkeypatch):
    monkeypatch.setattr(search, "MAX_TRIED", 0)
    assert matches(star(3000), ["Hub", "Leaf", "End"], [(0, 1), (1, 2)]) == []


def test_search_above_max_tried_raises_valueerror(monkeypatch):
    monkeypatch.setattr(search, "MAX_TRIED", 100)
    with pytest.raises(ValueError, match="more than 100 nodes were tried"):
        matches(star(20), ["Hub", "Leaf", "Leaf", "Leaf"], [(0, 1), (0, 2), (0, 3)])


WORDS = st.sampled_from(["A", "B"])
PATTERNS = st.sampled_from([[(0, 1)], [(1, 0)], [(0, 1), (1, 2)], TRIANGLE, [(0, 1), (0, 2)], [(0, 2), (1, 2)]])


@given(graphs(most_nodes=7, nesting=0), st.data(), PATTERNS)
def test_matches_equal_exhaustive_search(graph, data, edges):
    for node in graph:
        node.dialect, node.op_type = "", data.draw(WORDS)
    pattern = [data.draw(WORDS) for _ in range(1 + max(max(edge) for edge in edges))]

    def reads(a: Node, b: Node) -> bool:
        return any(value in b.operands for value in a.results)

    expected = [
        nodes
        for nodes in permutations(graph, len(pattern))
        if all(node.op == op_type for node, op_type in zip(nodes, pattern, strict=True))
        and all(reads(nodes[a], nodes[b]) for a, b in edges)
    ]
    found = matches(graph, pattern, edges)
    assert set(found) == set(expected)
    assert len(found) == len(expected)


CROSSED = [*TRIANGLE, (0, 3), (1, 3), (2, 3)]
TWICE_READ = [(0, 1), (0, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    "edges", [TRIANGLE, CROSSED, TWICE_READ, TWICE_READ[::-1]], ids=["3", "6", "4", "4 from behind"]
)
def test_every_edge_of_a_match_exists(edges):
    """Among nodes with many operands: each has matching neighbours, and few groups have all edges."""
    for seed in range(12):
        r = Random(seed)
        graph = Graph()
        values: list[Value] = []
        for number in range(8):
            operands = [value for value in values if r.random() < 0.6]
            values.append(graph.append(Node(r.choice("AB"), operands, [Value(f"v{number}")])).output)
        words = r.choices("AB", k=1 + max(map(max, edges)))
        expected = [
            nodes
            for nodes in permutations(graph, len(words))
            if [node.op for node in nodes] == words and all(nodes[a].output in nodes[b].inputs for a, b in edges)
        ]
        assert set(matches(graph, words, edges)) == set(expected)


def test_search_stops_at_10000_results_by_default():
    """Each of 14 levels has two nodes: there are 16,384 paths and matches."""
    lines = ["%v0 = A(%x)"]
    for step in range(14):
        lines += [f"%{side}{step} = R(%v{step})" for side in "ab"]
        lines.append(f"%v{step + 1} = {'R' if step < 13 else 'E'}(%a{step}, %b{step})")
    graph = from_text("\n".join(["graph g(%x) {", *lines, "return %v14 }"]))
    assert len(search.paths(graph, "A", "E", relay="R")) == 10_000
    assert len(search.paths(graph, "A", "E", relay="R", limit=20_000)) == 1 << 14
    assert len(matches(star(150), ["Hub", "Leaf", "Leaf"], [(0, 1), (0, 2)])) == 10_000

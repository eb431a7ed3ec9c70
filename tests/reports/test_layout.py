"""Boxes do not overlap, edges that can go down do, and nothing has too many entries."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.ir.graph import Graph, Node, Value
from graphport.reports.layout import GAP, isotonic_positions, layout, tops
from graphport.reports.scopes import MAX_ENTRIES, find_scopes
from graphport.reports.svg import drawing
from tests.draws import times
from tests.reports.test_report import chain


@st.composite
def drawn(draw):
    widths = draw(st.lists(st.floats(20, 200), min_size=1, max_size=30))
    ends = st.integers(0, len(widths) - 1)
    return widths, draw(st.lists(st.tuples(ends, ends), max_size=60))


@given(drawn())
def test_boxes_do_not_overlap(case):
    widths, edges = case
    found = layout(widths, edges)
    placed = [entry for layer in found.layers for entry in layer]
    assert Counter(placed) == Counter(range(len(found.x)))
    for layer in found.layers:
        for left, right in pairwise(layer):
            if max(left, right) < len(widths):
                assert found.x[right] - found.x[left] >= (widths[left] + widths[right]) / 2 + GAP - 1e-6
    assert min(found.x[i] - widths[i] / 2 for i in range(len(widths))) >= -1e-6


@given(drawn())
def test_acyclic_edges_point_downwards(case):
    widths, edges = case
    down = [(a, b) for a, b in edges if a < b]
    found = layout(widths, down)
    layer = {entry: number for number, entries in enumerate(found.layers) for entry in entries}
    for edge in found.edges:
        assert layer[edge.source] < layer[edge.target]
        if edge.bends:
            assert [layer[bend] for bend in edge.bends] == list(range(layer[edge.source] + 1, layer[edge.target]))


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(1, 50)), min_size=1, max_size=12))
def test_isotonic_positions_minimize_displacement(case):
    wanted = [place for place, _ in case]
    offsets = np.cumsum([step for _, step in case]).tolist()
    found = np.array(isotonic_positions(wanted, offsets, [1.0] * len(wanted)))
    assert (np.diff(found) >= np.diff(offsets) - 1e-6).all()
    # Nothing near them that keeps the distances is nearer: each step back along one coordinate or all behind it.
    cost = ((found - wanted) ** 2).sum()
    for index in range(len(wanted)):
        for step in (-0.5, 0.5):
            other = found.copy()
            other[index:] += step
            if (np.diff(other) >= np.diff(offsets)).all():
                assert ((other - wanted) ** 2).sum() >= cost - 1e-6


def test_layer_height_is_that_of_its_tallest_box():
    found = layout([50, 50, 50], [(0, 1), (0, 2)])
    assert tops(found, [10, 40, 20]) == [0.0, 36.0, 76.0]


def entries(graph: Graph) -> Counter:
    nodes = list(graph)
    found, places = find_scopes(graph, nodes)
    counts = Counter(scope.get("parent") for scope in found)
    counts.update(places)
    return counts


def test_long_chains_are_folded_into_blocks_that_repeat():
    graph = Graph()
    value = graph.add_input("x")
    for _ in range(2000):
        for op in ("Conv", "BatchNormalization", "Relu", "Conv", "Add"):
            value = graph.append(Node(op, [value], [Value(graph.fresh("v"))])).output
    graph.add_output(value)
    assert max(entries(graph).values()) <= MAX_ENTRIES
    found, places = find_scopes(graph, list(graph))
    blocks = [index for index, scope in enumerate(found) if scope["kind"] == "block"]
    sizes = Counter(places)
    assert {sizes[index] for index in blocks} == {5}
    assert len(blocks) == 2000


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
@settings(max_examples=times(20))
def test_no_scope_has_too_many_entries(count, seed):
    random = np.random.default_rng(seed)
    graph = Graph()
    values = [graph.add_input("x")]
    for index in range(count):
        path = "/".join(random.choice(["a", "b", "c"], int(random.integers(0, 4))).tolist())
        op = str(random.choice(["Relu", "Neg", "Abs"]))
        operand = values[int(random.integers(0, len(values)))]
        values.append(graph.append(Node(op, [operand], [Value(graph.fresh("v"))], name=f"{path}/n{index}")).output)
    graph.add_output(values[-1])
    assert max(entries(graph).values()) <= MAX_ENTRIES
    assert sum(entries(graph).values()) >= count


def test_a_drawing_has_a_box_for_every_node():
    import graphport as gp

    said = drawing(gp.report(gp.from_onnx(chain())).document)
    assert said.count(">Conv<") == said.count(">Relu<") == said.count(">Add<") == 1
    assert said.count("<rect") == 1 + 2 + 2 * 4

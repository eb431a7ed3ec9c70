"""Random graphs whose constants several nodes read, some in bodies: each reader gets one of its own, or none does."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import graphport as gp
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ir.verify import verify
from graphport.passes import split_parameters as module
from graphport.passes.journal import Journal
from tests.draws import times
from tests.passes.cases import B, graph, info, model, node, some

SMALL = 80
"""A limit that one large constant here meets, or four small ones."""


@st.composite
def nets(draw: st.DrawFn) -> gp.Model:
    """Sums and products with constants, of which some are results, read twice by one node, or read by a body."""
    rows = draw(st.lists(st.sampled_from([1, 4]), min_size=1, max_size=3))
    constants = {f"c{index}": some(count, 5, seed=index) for index, count in enumerate(rows)}
    names = st.sampled_from(list(constants))
    nodes: list[Any] = [node("Add", "x c0", "start")]
    last, used = "start", {"c0"}
    for index in range(draw(st.integers(1, 6))):
        left, right = draw(names), draw(names)
        used |= {left, right}
        square, total = node("Mul", f"{left} {right}", f"s{index}"), node("Add", f"s{index} {last}", f"t{index}")
        if draw(st.integers(0, 2)):
            nodes += [square, total]
        else:
            # A constant of its own, which nobody outside reads.
            own = [node("Mul", f"t{index} o{index}", f"p{index}"), node("Add", f"p{index} o{index}", f"q{index}")]
            then = graph([square, total, *own], [], [info(f"q{index}", None)], {f"o{index}": some(1, 5, seed=index)})
            other = helper.make_graph(
                [node("Sub", f"{last} {left}", f"e{index}")], "else", [], [info(f"e{index}", None)]
            )
            nodes.append(node("If", "c", f"i{index}", then_branch=then, else_branch=other))
        last = nodes[-1].output[0]
    results = [last, *draw(st.lists(st.sampled_from(sorted(used)), max_size=2, unique=True))]
    given = {name: constants[name] for name in sorted(used)}
    return gp.from_onnx(model(nodes, [info("c", [], B), info("x", [4, 5])], [info(n, None) for n in results], given))


def readings(graph: Graph) -> dict[Value, int]:
    """How often each constant is read; a result is read once more."""
    found = [value for inner in walk(graph) for value in inner.constants]
    return {value: sum(isinstance(use.user, Node) for use in value.uses) + value.is_output for value in found}


def computed(told: gp.Model) -> list[Any]:
    feeds = {"x": some(4, 5, seed=9)}
    return [gp.run(told, {**feeds, "c": np.array(c)}, backend="reference").ordered for c in (True, False)]


@settings(max_examples=times(25))
@given(nets(), st.integers(0, 1))
def test_parameters_are_split_within_the_copy_limit(told: gp.Model, missing: int) -> None:
    expected, net, journal = computed(told), told.graph, Journal()
    before = readings(net)
    growth = {value: value.storage.nbytes * (count - 1) for value, count in before.items() if value.storage}
    large = {value: size for value, size in growth.items() if size > SMALL}
    with (
        patch.object(module, "MAX_SMALL_BYTES", SMALL),
        patch.object(module, "MAX_COPY_BYTES", sum(large.values()) - missing),
    ):
        module.split_parameters(net, journal)
    verify(net)
    np.testing.assert_equal(computed(told), expected)
    after = readings(net)
    kept = large if missing else {}
    assert {value: after[value] for value in before} == {
        value: count if value in kept else 1 for value, count in before.items()
    }
    assert all(after[value] == 1 for value in after if value not in before)
    assert (
        len(journal.done)
        == sum(count - 1 for value, count in before.items() if value not in kept)
        == len(after) - len(before)
    )
    assert len(journal.left) == sum(before[value] - 1 for value in kept)


@settings(max_examples=times(30))
@given(nets())
def test_options_split_or_keep_all_shared_parameters(told: gp.Model) -> None:
    expected, net = computed(told), told.graph
    before = readings(net)
    further = sum(count - 1 for count in before.values())
    kept, split = Journal(), Journal()
    module.keep_shared_parameters(net, kept)
    assert (readings(net), len(kept.left), len(kept.done)) == (before, further, 0)
    with patch.object(module, "MAX_SMALL_BYTES", 0), patch.object(module, "MAX_COPY_BYTES", 0):
        module.split_every_parameter(net, split)
    verify(net)
    np.testing.assert_equal(computed(told), expected)
    assert set(readings(net).values()) <= {1}
    assert (len(split.left), len(split.done)) == (0, further)

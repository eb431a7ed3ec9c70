"""Inputs that are given other lengths: targets that were written for the old ones follow."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core.dims import Symbol
from graphport.passes.open_axes import reopen
from tests.laws import computed
from tests.passes.cases import info, model, node

N = Symbol("N")


def reopened(shape, targets, new, **attributes):
    """The graph of a chain of Reshapes whose input has another shape, and what is found wrong."""
    names = ["x", *(f"t{index}" for index in range(len(targets)))]
    nodes = [node("Reshape", f"{names[k]} s{k}", names[k + 1], **attributes) for k in range(len(targets))]
    constants = {f"s{k}": np.array(target, np.int64) for k, target in enumerate(targets)}
    graph = gp.from_onnx(model(nodes, [info("x", shape)], [info(names[-1], None)], constants, opset=18)).graph
    findings = reopen(graph, {graph.inputs[0]: new})
    return graph, findings


def targets_of(graph):
    return [each.inputs[1].storage.numpy().tolist() for each in graph]


@pytest.mark.parametrize(
    ("shape", "target", "new", "expected"),
    [
        pytest.param([1, 256, 1, 1], [1, 256], [N, 256, 1, 1], [0, 256], id="the axis itself is copied"),
        pytest.param([2, 3, 4], [2, 12], [5, 3, 4], [5, 12], id="a number"),
        pytest.param([2, 3, 4], [6, 4], [N, 3, 4], [-1, 4], id="joined with the next one"),
        pytest.param([2, 3, 4], [6, 4], [5, 3, 4], [15, 4], id="joined, a number"),
        pytest.param([2, 8], [-1, 4], [N, 8], [-1, 4], id="the rest already"),
        pytest.param([2, 8], [0, 8], [N, 8], [0, 8], id="copied already"),
        pytest.param([2, 3, 4], [2, -1], [N, 3, 4], [0, -1], id="beside the rest"),
        pytest.param([2, 3, 4], [2, 3, 2, 2], [2, N, 4], [2, 0, 2, 2], id="the second axis"),
        pytest.param([2, 3, 4], [2, 1, 3, 4], [2, N, 4], [2, 1, -1, 4], id="moved by a new one"),
        pytest.param([2, 3, 4], [6, -1], [N, 3, 4], [-1, 4], id="the rest is told where it is needed elsewhere"),
        pytest.param([2, 3, 4], [2, 12], [2, 3, 4], [2, 12], id="nothing new"),
    ],
)
def test_a_target_follows(shape, target, new, expected):
    graph, findings = reopened(shape, [target], new)
    assert targets_of(graph) == [expected]
    assert not findings


def test_where_a_zero_is_a_length_the_rest_is_asked_for():
    graph, _ = reopened([2, 8], [[2, 8]], [N, 8], allowzero=1)
    assert targets_of(graph) == [[-1, 8]]
    graph, _ = reopened([2, 3, 4], [[2, -1]], [N, 3, 4], allowzero=1)
    assert targets_of(graph) == [[-1, 12]]


def test_an_axis_that_stands_behind_an_open_one_cannot_be_told():
    graph, _ = reopened([2, "M", 4], [[2, -1, 2, 2]], [2, Symbol("M"), 8])
    assert targets_of(graph) == [[2, -1, 2, 2]]


def test_an_axis_that_is_parted_again_follows():
    graph, findings = reopened([2, 3], [[6], [2, 3]], [4, 3])
    assert targets_of(graph) == [[12], [4, 3]]
    assert not [each for each in findings if each.is_error]


def test_a_target_in_which_the_axis_cannot_be_told_is_a_finding():
    graph, findings = reopened([2, 3], [[3, 2]], [4, 3])
    assert targets_of(graph) == [[3, 2]]
    assert [each.code for each in findings if each.is_error] == ["SHAPE0001"]


def test_a_target_that_is_computed_is_left_alone():
    nodes = [node("Shape", "x", "s"), node("Reshape", "x s", "y")]
    graph = gp.from_onnx(model(nodes, [info("x", [2, 3])], [info("y", None)], opset=18)).graph
    assert not reopen(graph, {graph.inputs[0]: [N, 3]})
    assert [str(dim) for dim in graph.outputs[0].fact.shape] == ["N", "3"]


@st.composite
def targets(draw: st.DrawFn):
    """A shape whose first axis is a batch, and a target that keeps it apart or joins it with what follows."""
    rest = draw(st.lists(st.sampled_from([2, 3, 5]), min_size=1, max_size=3))
    batch = draw(st.sampled_from([1, 7]))
    cuts = sorted(set(draw(st.lists(st.integers(0, len(rest)), max_size=2))))
    bounds = [0, *[cut + 1 for cut in cuts], len(rest) + 1]
    shape = [batch, *rest]
    return shape, [prod(shape[a:b]) for a, b in pairwise(bounds) if a != b]


@settings(max_examples=40)
@given(targets(), st.sampled_from([None, 2, 4]))
def test_any_batch_is_reshaped_as_its_items_are(case, length):
    shape, target = case
    graph, findings = reopened(shape, [target], [N if length is None else length, *shape[1:]])
    assert not [each for each in findings if each.is_error]
    count = length or 4
    x = np.arange(count * prod(shape[1:]), dtype=np.float32).reshape(count, *shape[1:])
    (found,) = computed(graph, {"x": x})
    np.testing.assert_array_equal(found, x.reshape(-1, *target[1:]))

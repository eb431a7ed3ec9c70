"""Changed input sizes: constant Reshape shapes for the old sizes are adapted."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core.dims import Symbol
from graphport.passes.open_axes import set_input_shapes
from tests.draws import times
from tests.laws import computed
from tests.passes.cases import I64, info, model, node

N = Symbol("N")


def reopened(shape, targets, new, **attributes):
    """Return a chain of Reshapes after a change of its input shape, and the errors."""
    names = ["x", *(f"t{index}" for index in range(len(targets)))]
    nodes = [node("Reshape", f"{names[k]} s{k}", names[k + 1], **attributes) for k in range(len(targets))]
    constants = {f"s{k}": np.array(target, np.int64) for k, target in enumerate(targets)}
    graph = gp.from_onnx(model(nodes, [info("x", shape)], [info(names[-1], None)], constants, opset=18)).graph
    findings = set_input_shapes(graph, {graph.inputs[0]: new})
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


def test_reshape_with_allowzero_uses_minus_one_for_the_batch():
    graph, _ = reopened([2, 8], [[2, 8]], [N, 8], allowzero=1)
    assert targets_of(graph) == [[-1, 8]]
    graph, _ = reopened([2, 3, 4], [[2, -1]], [N, 3, 4], allowzero=1)
    assert targets_of(graph) == [[-1, 12]]


def test_reshape_target_after_a_symbolic_dim_is_kept():
    graph, _ = reopened([2, "M", 4], [[2, -1, 2, 2]], [2, Symbol("M"), 8])
    assert targets_of(graph) == [[2, -1, 2, 2]]


def test_an_axis_that_is_parted_again_follows():
    graph, findings = reopened([2, 3], [[6], [2, 3]], [4, 3])
    assert targets_of(graph) == [[12], [4, 3]]
    assert not [each for each in findings if each.is_error]


def test_a_target_in_which_the_axis_cannot_be_determined_is_a_finding():
    graph, findings = reopened([2, 3], [[3, 2]], [4, 3])
    assert targets_of(graph) == [[3, 2]]
    assert [each.code for each in findings if each.is_error] == ["SHAPE0001"]


def test_computed_reshape_target_is_kept():
    nodes = [node("Shape", "x", "s"), node("Reshape", "x s", "y")]
    graph = gp.from_onnx(model(nodes, [info("x", [2, 3])], [info("y", None)], opset=18)).graph
    assert not set_input_shapes(graph, {graph.inputs[0]: [N, 3]})
    assert [str(dim) for dim in graph.outputs[0].fact.shape] == ["N", "3"]


@st.composite
def targets(draw: st.DrawFn):
    """Draw a shape with a batch axis, and a Reshape shape that keeps it separate or joins it with later axes."""
    rest = draw(st.lists(st.sampled_from([2, 3, 5]), min_size=1, max_size=3))
    batch = draw(st.sampled_from([1, 7]))
    cuts = sorted(set(draw(st.lists(st.integers(0, len(rest)), max_size=2))))
    bounds = [0, *[cut + 1 for cut in cuts], len(rest) + 1]
    shape = [batch, *rest]
    return shape, [prod(shape[a:b]) for a, b in pairwise(bounds) if a != b]


@settings(max_examples=times(40))
@given(targets(), st.sampled_from([None, 2, 4]))
def test_reshape_of_any_batch_matches_its_items(case, length):
    shape, target = case
    graph, findings = reopened(shape, [target], [N if length is None else length, *shape[1:]])
    assert not [each for each in findings if each.is_error]
    count = length or 4
    x = np.arange(count * prod(shape[1:]), dtype=np.float32).reshape(count, *shape[1:])
    (found,) = computed(graph, {"x": x})
    np.testing.assert_array_equal(found, x.reshape(-1, *target[1:]))


def of_graph(nodes, inputs, constants, new, opset=18):
    """Return a graph after a change of its first input's shape, and the errors."""
    proto = model(nodes, [info(*each) for each in inputs], [info("y", None)], constants, opset=opset)
    graph = gp.from_onnx(proto).graph
    return graph, [each for each in set_input_shapes(graph, {graph.inputs[0]: new}) if each.is_error]


def constant_of(graph, op, index):
    (found,) = [each for each in graph if each.op == op]
    storage = found.inputs[index].storage
    return None if storage is None else storage.numpy().tolist()


@pytest.mark.parametrize(
    ("target", "new", "expected"),
    [
        pytest.param([2, 3, 4], [5, 3, 4], [5, 3, 4], id="the old batch"),
        pytest.param([2, 3, 4], [2, 3, 4], [2, 3, 4], id="nothing new"),
        pytest.param([2, 3, 4], [N, 3, 4], [2, 3, 4], id="an open batch"),
        pytest.param([7, 3, 4], [5, 3, 4], [7, 3, 4], id="another number"),
        pytest.param([2], [5, 3, 4], [2], id="a vector"),
        pytest.param([3, 2, 4], [5, 3, 4], [3, 2, 4], id="another axis"),
    ],
)
def test_constant_expand_target_follows_the_new_batch(target, new, expected):
    constants = {"c": np.ones(1, np.float32), "s": np.array(target, np.int64)}
    graph, _ = of_graph([node("Relu", "x", "h"), node("Expand", "c s", "y")], [("x", [2, 3, 4])], constants, new)
    assert constant_of(graph, "Expand", 1) == expected
    assert graph.outputs[0].fact.shape == tuple(expected)


def test_expand_concatenated_with_the_batch_follows_the_new_batch():
    constants = {"c": np.arange(4, dtype=np.float32).reshape(1, 1, 4), "s": np.array([2, 1, 4], np.int64)}
    nodes = [node("Expand", "c s", "e"), node("Concat", "e x", "y", axis=1)]
    graph, errors = of_graph(nodes, [("x", [2, 3, 4])], constants, [3, 3, 4])
    x = np.ones((3, 3, 4), np.float32)
    (found,) = computed(graph, {"x": x})
    assert not errors
    np.testing.assert_array_equal(found, np.concatenate([np.tile(constants["c"], (3, 1, 1)), x], axis=1))


def test_computed_expand_target_is_kept():
    nodes = [node("Relu", "x", "h"), node("Identity", "s", "t"), node("Expand", "h t", "y")]
    graph, errors = of_graph(nodes, [("x", [1, 3]), ("s", [2], I64)], {}, [4, 3])
    assert constant_of(graph, "Expand", 1) is None
    assert not errors


@pytest.mark.parametrize(
    ("sizes", "attributes", "expected", "axes"),
    [
        pytest.param([1, 3, 8, 10], {}, [8, 10], (2, 3), id="all axes"),
        pytest.param([1, 3, 8, 5], {}, [8], (2,), id="one of them changes"),
        pytest.param([3, 8, 10], {"axes": [1, 2, 3]}, [8, 10], (2, 3), id="stated axes"),
        pytest.param([10, 8, 3], {"axes": [-1, -2, 1]}, [10, 8], (3, 2), id="from the end"),
        pytest.param([8, 10], {"axes": [2, 3]}, [8, 10], (2, 3), id="only those"),
        pytest.param([8, 10], {"axes": [-2, -1]}, [8, 10], (-2, -1), id="only those, from the end"),
        pytest.param([2, 6, 8, 10], {}, [2, 6, 8, 10], None, id="every one"),
        pytest.param([1, 3, 4, 5], {}, [1, 3, 4, 5], None, id="none"),
    ],
)
def test_resize_sizes_are_limited_to_the_changed_axes(sizes, attributes, expected, axes):
    nodes = [node("Resize", "x _ _ s", "y", mode="nearest", **attributes)]
    constants = {"s": np.array(sizes, np.int64)}
    graph, _ = of_graph(nodes, [("x", [1, 3, 4, 5])], constants, [2, 3, 4, 5])
    assert constant_of(graph, "Resize", 3) == expected
    assert graph.first_node.attributes.get("axes") == axes
    if axes == (2, 3):
        x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
        assert graph.outputs[0].fact.shape == (2, 3, 8, 10)
        apart, _ = of_graph(nodes, [("x", [1, 3, 4, 5])], constants, [1, 3, 4, 5])
        one = [computed(apart, {"x": each[None]})[0] for each in x]
        np.testing.assert_array_equal(computed(graph, {"x": x})[0], np.concatenate(one))


def test_resize_scales_and_computed_sizes_are_kept():
    scales = [node("Resize", "x _ c", "y", mode="nearest")]
    graph, errors = of_graph(scales, [("x", [1, 3, 4])], {"c": np.array([1, 1, 2], np.float32)}, [5, 3, 4])
    assert (errors, graph.outputs[0].fact.shape) == ([], (5, 3, 8))
    sizes = [node("Resize", "x _ _ s", "y", mode="nearest")]
    graph, errors = of_graph(sizes, [("x", [1, 3, 4]), ("s", [3], I64)], {}, [5, 3, 4])
    assert (errors, constant_of(graph, "Resize", 3)) == ([], None)


def test_reshape_target_with_equal_dims_changes_the_axis_in_position():
    """A shape has the old size twice: the axis at the changed position is replaced."""
    graph, errors = reopened([2, 2, 3], [[2, 2, 3]], [2, 5, 3])
    assert (targets_of(graph), errors) == ([[2, 5, 3]], [])
    graph, errors = reopened([2, 2, 3], [[2, 2, 3]], [5, 2, 3])
    assert (targets_of(graph), errors) == ([[5, 2, 3]], [])


def test_two_axes_that_change_are_followed_each():
    graph, errors = reopened([2, 3, 4], [[2, 3, 2, 2]], [5, 7, 4])
    assert (targets_of(graph), errors) == ([[5, 7, 2, 2]], [])
    graph, errors = reopened([2, 3, 4], [[2, 3, 2, 2]], [N, Symbol("M"), 4])
    assert (targets_of(graph), errors) == ([[0, 0, 2, 2]], [])


def test_shared_reshape_target_is_changed_for_one_consumer_only():
    nodes = [node("Reshape", "x s", "a"), node("Reshape", "z s", "b"), node("Concat", "a b", "y", axis=0)]
    constants = {"s": np.array([2, 12], np.int64)}
    graph, errors = of_graph(nodes, [("x", [2, 3, 4]), ("z", [2, 12])], constants, [5, 3, 4])
    assert not errors
    assert [each.inputs[1].storage.numpy().tolist() for each in graph if each.op == "Reshape"] == [[5, 12], [2, 12]]
    assert graph.outputs[0].fact.shape == (7, 12)

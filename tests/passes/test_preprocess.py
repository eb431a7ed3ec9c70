"""Pictures before a network: the steps compute what NumPy does with them, and inputs keep their names."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.verify import verify
from graphport.passes.preprocess import NCHW_TO_NHWC, NHWC_TO_NCHW, Preprocess, permute_axes, preprocess
from tests.every import every
from tests.laws import canonical, computed
from tests.passes.cases import info, model, node

SHAPE = (2, 3, 4, 5)
MEAN, STD = (0.5, -1.0, 2.0), (2.0, 0.5, 4.0)


def network(shape: Any = SHAPE, nodes=None, dtype=1) -> Any:
    given = [node("Relu", "x", "h"), node("Neg", "h", "y")] if nodes is None else nodes
    return gp.from_onnx(model(given, [info("x", shape, dtype)], [info("y", None)], opset=18)).graph


def picture(shape, *, is_u8):
    random = np.random.default_rng(3)
    return random.integers(0, 256, shape, np.uint8) if is_u8 else random.normal(size=shape).astype(np.float32)


def expected(x, steps):
    y = x.astype(np.float32)
    y = y.transpose(NHWC_TO_NCHW) if steps.is_nhwc else y
    y = y[:, ::-1] if steps.is_reversed else y
    y = y * np.float32(steps.scale) if steps.scale is not None else y
    for numbers, change in ((steps.mean, np.subtract), (steps.std, np.divide)):
        y = change(y, np.array(numbers, np.float32).reshape(-1, 1, 1)) if numbers else y
    return -np.maximum(y, 0)


CHOICES = list(
    itertools.product([False, True], [False, True], [False, True], [None, 0.25], [(), MEAN, (0.5,)], [(), STD])
)


@every(("is_u8", "is_nhwc", "is_reversed", "scale", "mean", "std"), CHOICES[::3])
def test_steps_are_computed_in_their_order(is_u8, is_nhwc, is_reversed, scale, mean, std):
    graph = network()
    steps = Preprocess(is_u8=is_u8, is_nhwc=is_nhwc, is_reversed=is_reversed, scale=scale, mean=mean, std=std)
    preprocess(graph, graph.inputs[0], steps)
    verify(graph)
    (given,) = graph.inputs
    shape = tuple(SHAPE[axis] for axis in NCHW_TO_NHWC) if is_nhwc else SHAPE
    assert (given.name, given.fact.dtype, given.fact.shape) == ("x", DType.UINT8 if is_u8 else DType.FLOAT32, shape)
    x = picture(shape, is_u8=is_u8)
    (found,) = computed(canonical(graph), {"x": x})
    np.testing.assert_allclose(found, expected(x, steps), rtol=1e-6)


@pytest.mark.parametrize("shape", [SHAPE, ("N", 3, 4, 5)])
def test_pictures_of_another_size_are_resized(shape):
    graph = network(shape)
    preprocess(graph, graph.inputs[0], Preprocess(size=(8, 10)))
    assert tuple(map(str, graph.inputs[0].fact.shape)) == (str(shape[0]), "3", "8", "10")
    ramp = np.broadcast_to(np.repeat(np.arange(4, dtype=np.float32), 2)[:, None], (2, 3, 8, 10))
    (found,) = computed(canonical(graph), {"x": ramp})
    # Halving takes the mean of each pair of rows, which are alike.
    np.testing.assert_allclose(found, -np.broadcast_to(np.arange(4, dtype=np.float32)[:, None], SHAPE), rtol=1e-6)


def test_pictures_of_any_size_are_resized():
    graph = network()
    size = (Symbol("H"), Symbol("W"))
    preprocess(graph, graph.inputs[0], Preprocess(is_nhwc=True, size=size))
    assert [str(dim) for dim in graph.inputs[0].fact.shape] == ["2", "H", "W", "3"]
    for extents in ((4, 5), (7, 3)):
        (found,) = computed(canonical(graph), {"x": np.full((2, *extents, 3), 2, np.float32)})
        np.testing.assert_array_equal(found, np.full(SHAPE, -2, np.float32))


@every(
    ("shape", "steps", "words"),
    [
        pytest.param((2, 3, 4), Preprocess(scale=2.0), "expected an image of rank 4", id="three axes"),
        pytest.param(SHAPE, Preprocess(mean=(1.0, 2.0)), "2 elements for 3", id="means"),
        pytest.param(SHAPE, Preprocess(std=(1.0, 2.0)), "2 elements for 3", id="deviations"),
        pytest.param(
            (2, 3, "H", 5), Preprocess(size=(8, 8)), "the target size of the resize is unknown", id="open height"
        ),
        pytest.param(
            (2, 3, 4, "W"), Preprocess(size=(8, 8)), "the target size of the resize is unknown", id="open width"
        ),
    ],
)
def test_steps_that_do_not_fit_are_refused(shape, steps, words):
    graph = network(shape)
    with pytest.raises(ValueError, match=words):
        preprocess(graph, graph.inputs[0], steps)


@pytest.mark.parametrize("order", [NCHW_TO_NHWC, NHWC_TO_NCHW, (3, 1, 0, 2)])
def test_inputs_and_outputs_are_turned(order):
    x = picture(SHAPE, is_u8=False)
    (wanted,) = computed(network(), {"x": x})
    graph = network()
    permute_axes(graph, graph.inputs[0], order, is_input=True)
    permute_axes(graph, graph.outputs[0], order, is_input=False)
    verify(graph)
    assert ([value.name for value in graph.inputs], [value.name for value in graph.outputs]) == (["x"], ["y"])
    assert graph.inputs[0].fact.shape == tuple(SHAPE[axis] for axis in order)
    (found,) = computed(canonical(graph), {"x": x.transpose(order)})
    np.testing.assert_array_equal(found, wanted.transpose(order))


def test_output_of_unknown_rank_is_not_permuted():
    graph = network()
    graph.outputs[0].fact = graph.outputs[0].fact.__class__(DType.FLOAT32, None)
    permute_axes(graph, graph.outputs[0], NCHW_TO_NHWC, is_input=False)
    assert [each.op for each in graph] == ["Relu", "Neg"]


def test_a_network_of_no_nodes_has_steps():
    graph = network(nodes=[node("Identity", "x", "y")])
    preprocess(graph, graph.inputs[0], Preprocess(scale=2.0))
    x = picture(SHAPE, is_u8=False)
    np.testing.assert_array_equal(computed(canonical(graph), {"x": x})[0], 2 * x)


def test_prepended_nodes_have_the_name_and_shape_of_the_input():
    graph = network()
    preprocess(graph, graph.inputs[0], Preprocess(is_u8=True, size=(8, 10), is_reversed=True, scale=0.5, std=STD))
    assert [each.op for each in graph] == ["Cast", "Resize", "Gather", "Mul", "Div", "Relu", "Neg"]
    assert [each.output.name for each in graph][:3] == ["x_cast", "x_resize", "x_gather"]
    assert [value.name for value in graph.constants] == ["x_numbers", "x_numbers_1", "x_numbers_2", "x_numbers_3"]
    facts = [(value.fact.dtype, value.fact.shape) for value in graph.constants]
    assert facts == [
        (DType.INT64, (4,)),
        (DType.INT64, (3,)),
        (DType.FLOAT32, (1,)),
        (DType.FLOAT32, (3, 1, 1)),
    ]
    assert [value.storage.numpy().reshape(-1).tolist() for value in graph.constants] == [
        [*SHAPE],
        [2, 1, 0],
        [0.5],
        [*STD],
    ]


def test_image_with_symbolic_dims_is_resized_along_its_spatial_axes():
    for shape, axes, sizes in (
        (SHAPE, None, [*SHAPE]),
        (("N", 3, 4, 5), (2, 3), [4, 5]),
        ((2, "C", 4, 5), (2, 3), [4, 5]),
    ):
        graph = network(shape)
        preprocess(graph, graph.inputs[0], Preprocess(size=(8, 10)))
        resize = graph.first
        assert (resize.op, resize.attributes.get("axes"), resize.attributes["mode"]) == ("Resize", axes, "linear")
        assert resize.operands[-1].storage.numpy().tolist() == sizes


def test_a_picture_of_unknown_type_or_rank_is_refused():
    for fact in (UNKNOWN, TensorFact(DType.FLOAT32, None), TensorFact(None, SHAPE)):
        graph = network()
        graph.inputs[0].fact = fact
        with pytest.raises(ValueError, match="expected an image of rank 4"):
            preprocess(graph, graph.inputs[0], Preprocess(scale=2.0))


def test_scalar_mean_applies_to_a_symbolic_channel_count():
    for steps, count in ((Preprocess(mean=(1.0,)), 1), (Preprocess(is_reversed=True), 3)):
        graph = network((2, "C", 4, 5))
        preprocess(graph, graph.inputs[0], steps)
        assert graph.first.operands[1].storage.count == count
    with pytest.raises(ValueError, match="2 elements for C channels"):
        preprocess(network((2, "C", 4, 5)), network((2, "C", 4, 5)).inputs[0], Preprocess(mean=(1.0, 2.0)))


def test_permute_axes_updates_facts_and_keeps_unknown_shapes():
    graph = network()
    permute_axes(graph, graph.outputs[0], NCHW_TO_NHWC, is_input=False)
    (y,) = graph.outputs
    assert (y.name, y.fact) == ("y", TensorFact(DType.FLOAT32, (2, 4, 5, 3)))
    assert graph.last.attributes == {"perm": NCHW_TO_NHWC}
    graph = network()
    permute_axes(graph, graph.inputs[0], NCHW_TO_NHWC, is_input=True)
    assert graph.inputs[0].fact == TensorFact(DType.FLOAT32, (2, 4, 5, 3))
    assert graph.first.attributes == {"perm": NHWC_TO_NCHW}
    for fact in (UNKNOWN, TensorFact(DType.FLOAT32, None)):
        graph = network()
        graph.inputs[0].fact = fact
        permute_axes(graph, graph.inputs[0], NCHW_TO_NHWC, is_input=True)
        assert [each.op for each in graph] == ["Relu", "Neg"]


def test_an_output_that_is_returned_twice_is_turned_twice():
    graph = network()
    graph.add_output(graph.outputs[0])
    permute_axes(graph, graph.outputs[0], NCHW_TO_NHWC, is_input=False)
    assert graph.outputs[0] is graph.outputs[1]
    assert graph.outputs[0].name == "y"

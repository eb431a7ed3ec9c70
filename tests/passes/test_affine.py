"""Which nodes are a map with one factor and one summand for each channel, and what these are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.graph import Graph
from graphport.passes.affine import of_arithmetic, of_batchnorm, per_channel
from graphport.passes.journal import NotApplicable
from tests.every import every
from tests.laws import computed
from tests.passes.cases import info, model, node, norm, some

X = some(2, 4, 3)


def read(last, inputs: Any = (("x", X.shape),), opset: Any = 17, **constants) -> Any:
    infos = [info(name, shape) for name, shape in inputs]
    return gp.from_onnx(model([last], infos, [info("y", None)], constants, opset=opset)).graph


def applied(affine, x):
    def along(array, otherwise):
        return np.full(1, otherwise) if array is None else array

    return x * along(affine.factor, 1.0)[:, None] + along(affine.summand, 0.0)[:, None]


@every(("op", "is_left"), [(op, is_left) for op in ("Add", "Sub", "Mul", "Div") for is_left in (False, True)])
def test_arithmetic_with_a_constant_is_such_a_map(op, is_left):
    for shape in ((), (1,), (4, 1), (1, 4, 1), (1, 1, 1)):
        c = 2 + some(*shape)
        graph = read(node(op, "c x" if is_left else "x c", "y"), c=c)
        if op == "Div" and is_left:
            with pytest.raises(NotApplicable, match="divisor is computed"):
                of_arithmetic(graph.first)
            continue
        value, constant, affine = of_arithmetic(graph.first)
        assert (value.name, constant.name) == ("x", "c")
        np.testing.assert_allclose(applied(affine, X), computed(graph, {"x": X})[0], rtol=1e-5)
        assert {len(each) for each in (affine.factor, affine.summand) if each is not None} <= {1, c.size}


def test_affine_map_needs_exactly_one_constant_operand():
    with pytest.raises(NotApplicable, match="no operand is constant"):
        of_arithmetic(read(node("Add", "x x", "y")).first)
    with pytest.raises(NotApplicable, match="both operands are constant"):
        of_arithmetic(read(node("Add", "c d", "y"), c=some(4, 1), d=some(4, 1)).first)


@every("divisor", [0.0, 1e-310, np.inf, -np.inf, np.nan])
def test_a_divisor_without_a_finite_inverse_is_no_factor(divisor):
    c = np.array([1.0, 2.0, divisor, 4.0]).reshape(4, 1)
    graph: Any = gp.from_onnx(
        model([node("Div", "x c", "y")], [info("x", X.shape, 11)], [info("y", None, 11)], {"c": c})
    ).graph
    with pytest.raises(NotApplicable, match="no finite inverse"):
        of_arithmetic(graph.first)


def value_of(shape):
    return Graph().add_input("x", UNKNOWN if shape is UNKNOWN else TensorFact(DType.FLOAT32, shape))


@pytest.mark.parametrize(
    ("shape", "constant", "reason"),
    [
        pytest.param(UNKNOWN, (), "the rank of x is unknown", id="no fact"),
        pytest.param(None, (), "the rank of x is unknown", id="no shape"),
        pytest.param((2, 4), (1, 1, 1), "of rank 3 enlarges the result", id="one number of more axes"),
        pytest.param((2, 4), (1, 4, 1), "of rank 3 enlarges the result", id="more axes"),
        pytest.param((), (1,), "of rank 1 enlarges the result", id="of a number"),
        pytest.param((4,), (4,), "is not per-channel", id="a vector has no channels"),
        pytest.param((2, 4, 3), (3,), "is not per-channel", id="along the last axis"),
        pytest.param((4, 4, 4), (4, 1, 1), "is not per-channel", id="along the batch"),
        pytest.param((2, 4, 3), (4, 3), "is not per-channel", id="along two axes"),
        pytest.param((2, 1, 3), (4, 1), "4 elements may not match 1 channels", id="larger"),
        pytest.param((2, 5, 3), (4, 1), "4 elements may not match 5 channels", id="other"),
        pytest.param((2, Symbol("C"), 3), (4, 1), "may not match C channels", id="open"),
    ],
)
def test_constant_without_one_element_per_channel_is_not_applicable(shape, constant, reason):
    with pytest.raises(NotApplicable, match=reason):
        per_channel(np.ones(constant), value_of(shape))


def test_a_constant_for_each_channel_is_a_vector_of_them():
    for shape, constant in (((2, 4), (4,)), ((2, 4), (1, 4)), ((2, 4, 3), (4, 1)), ((Symbol("N"), 4), (4,))):
        np.testing.assert_array_equal(per_channel(np.arange(4.0).reshape(constant), value_of(shape)), np.arange(4.0))
    for shape, constant in (((), ()), ((4,), (1,)), ((2, 1, 3), (1, 1)), ((2, 4), (1, 1))):
        np.testing.assert_array_equal(per_channel(np.full(constant, 7.0), value_of(shape)), [7.0])


NORM = "x scale shift mean var"


def test_batchnorm_with_constant_statistics_is_an_affine_map():
    for attributes in ({}, {"epsilon": 0.25}):
        graph = read(node("BatchNormalization", NORM, "y", **attributes), **norm(4))
        found = applied(of_batchnorm(graph.first), X)
        np.testing.assert_allclose(found, computed(graph, {"x": X})[0], rtol=1e-4, atol=1e-5)


def test_a_normalization_that_is_no_such_map():
    training = node("BatchNormalization", NORM, "y m v", training_mode=1)
    with pytest.raises(NotApplicable, match="it is in training mode"):
        of_batchnorm(read(training, **norm(4)).first)
    numbers = norm(4)
    for place, (name, told) in enumerate((("scale", "scale"), ("shift", "B"), ("mean", "input_mean"))):
        rest = {each: array for each, array in numbers.items() if each not in (name, "var")}
        inputs = [("x", X.shape), (name, (4,)), ("var", (4,))]
        with pytest.raises(NotApplicable, match=f"^{told} and input_var are not float constants"):
            of_batchnorm(read(node("BatchNormalization", NORM, "y"), inputs, **rest).first)
        assert place < 3
    for name, bad in (("var", -1.0), ("scale", np.inf), ("mean", np.nan), ("shift", np.inf)):
        wrong = numbers | {name: np.array([1, bad, 1, 1], np.float32)}
        with pytest.raises(NotApplicable, match="is not finite"):
            of_batchnorm(read(node("BatchNormalization", NORM, "y"), **wrong).first)


def test_batchnorm_with_used_running_statistics_is_no_affine_map():
    graph = read(node("BatchNormalization", NORM, "y m v", training_mode=1), **norm(4))
    bn = graph.first
    bn.remove_attribute("training_mode")
    assert of_batchnorm(bn).factor is not None
    graph.add_output(bn.results[2])
    with pytest.raises(NotApplicable, match="its running statistics have consumers"):
        of_batchnorm(bn)

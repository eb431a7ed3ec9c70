"""A normalization that nothing took is a depthwise convolution, or a product and a sum, of the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.passes.journal import Journal
from graphport.passes.replace_batchnorm import batchnorm_to_conv, batchnorm_to_scale
from tests.passes.alone import applied, reasons
from tests.passes.cases import bn, info, model, norm, some

SHAPES = {2: (2, 4), 3: (2, 4, 3), 4: (2, 4, 3, 2), 5: (1, 4, 2, 3, 2), 6: (1, 4, 1, 2, 1, 2)}


def proto(shape, dtype: Any = np.float32, kind=1, **attributes):
    return model([bn("x", "y", **attributes)], [info("x", shape, kind)], [info("y", None, kind)], norm(4, dtype=dtype))


@pytest.mark.parametrize("rank", SHAPES)
def test_batchnorm_becomes_depthwise_conv(rank):
    ops, journal = applied(proto(SHAPES[rank]), batchnorm_to_conv, {"x": some(*SHAPES[rank])}, exact=False)
    assert ops == (["Conv"] if 3 <= rank <= 5 else ["BatchNormalization"])
    assert [note.text for note in journal.done] == (["is a depthwise Conv"] if 3 <= rank <= 5 else [])


@pytest.mark.parametrize("rank", SHAPES)
def test_it_is_a_product_and_a_sum(rank):
    ops, journal = applied(proto(SHAPES[rank]), batchnorm_to_scale, {"x": some(*SHAPES[rank])}, exact=False)
    assert ops == ["Mul", "Add"]
    assert [note.text for note in journal.done] == ["is a Mul and an Add"]


def test_doubles_are_not_convolved():
    given = proto(SHAPES[4], np.float64, 11)
    assert applied(given, batchnorm_to_conv, {"x": some(*SHAPES[4], dtype=np.float64)})[0] == ["BatchNormalization"]
    ops, _ = applied(given, batchnorm_to_scale, {"x": some(*SHAPES[4], dtype=np.float64)}, exact=False)
    assert ops == ["Mul", "Add"]


def test_constants_and_nodes_have_its_name():
    for work, names, shapes in (
        (batchnorm_to_conv, ["n"], [(4, 1, 1, 1), (4,)]),
        (batchnorm_to_scale, ["", "n"], [(4, 1, 1), (4, 1, 1)]),
    ):
        graph = gp.from_onnx(proto(SHAPES[4], name="n")).graph
        work(graph, Journal())
        assert [each.name for each in graph] == names
        constants = [value for each in graph for value in each.operands if value.is_constant]
        assert [(value.name, value.fact.shape) for value in constants] == [
            ("n.weight", shapes[0]),
            ("n.bias", shapes[1]),
        ]
        assert graph.outputs[0].name == "y"
    graph = gp.from_onnx(proto(SHAPES[4])).graph
    batchnorm_to_conv(graph, Journal())
    assert graph.first_node.attributes == {"group": 4, "kernel_shape": (1, 1)}
    assert graph.first_node.operands[1].name == "y.weight"


@pytest.mark.parametrize("work", [batchnorm_to_conv, batchnorm_to_scale])
@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (UNKNOWN, "the rank of its operand is unknown"),
        (TensorFact(DType.FLOAT32, None), "the rank of its operand is unknown"),
        (TensorFact(None, SHAPES[4]), "the element type of its operand is unknown"),
    ],
    ids=str,
)
def test_batchnorm_with_unknown_operand_facts_is_kept(work, fact, reason):
    graph, journal = gp.from_onnx(proto(SHAPES[4])).graph, Journal()
    graph.inputs[0].fact = fact
    work(graph, journal)
    assert (reasons(journal), [each.op for each in graph]) == ([reason], ["BatchNormalization"])


@pytest.mark.parametrize("work", [batchnorm_to_conv, batchnorm_to_scale])
def test_numbers_that_are_too_large_keep_it(work):
    numbers = norm(4) | {"scale": np.full(4, 3e38, np.float32), "var": np.full(4, 1e-3, np.float32)}
    given = model([bn("x", "y")], [info("x", SHAPES[4])], [info("y", None)], numbers)
    graph, journal = gp.from_onnx(given).graph, Journal()
    work(graph, journal)
    assert reasons(journal) == ["a result would overflow float32"]
    assert [each.op for each in graph] == ["BatchNormalization"]


def test_unused_statistics_of_batchnorm_are_removed():
    given = model([bn("x", "y m v", training_mode=1)], [info("x", SHAPES[4])], [info("y", None)], norm(4), opset=17)
    for work in (batchnorm_to_conv, batchnorm_to_scale):
        graph, journal = gp.from_onnx(given).graph, Journal()
        work(graph, journal)
        assert reasons(journal) == ["it is in training mode and uses the statistics of its operand"]
        graph.first_node.remove_attribute("training_mode")
        work(graph, Journal())
        assert "BatchNormalization" not in [each.op for each in graph]
        assert [value.name for each in graph for value in each.results][-1] == "y"

"""Constants that were written once for each item of a batch follow it: results of more items, as of each alone."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.dims import Symbol
from graphport.passes.open_axes import set_input_shapes
from tests.models import model, node

RANDOM = np.random.default_rng(0)
TOKEN = RANDOM.normal(size=(1, 1, 4)).astype(np.float32)


def net(token, axis=1):
    nodes = [node("Concat", ["c", "x"], ["j"], axis=axis), node("MatMul", ["j", "w"], ["y"])]
    constants = {"c": token, "w": RANDOM.normal(size=(4, 2)).astype(np.float32)}
    return gp.from_onnx(model(nodes, [("x", [2, 3, 4])], [("y", None)], constants))


def terms(items):
    return gp.from_onnx(model([node("Add", ["x", "c"], ["y"])], [("x", [2, 3, 4])], [("y", None)], {"c": items}))


@pytest.mark.parametrize("batch", [1, 5, Symbol("N")], ids=str)
@pytest.mark.parametrize("make", [net, terms])
def test_repeated_constant_items_follow_the_batch(make, batch):
    found = make(np.repeat(TOKEN, 2, axis=0))
    items = [RANDOM.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(3)]
    apart = np.concatenate([gp.run(found, {"x": each})["y"] for each in items])
    graph = found.graph
    assert not [finding for finding in set_input_shapes(graph, {graph.inputs[0]: [batch, 3, 4]}) if finding.is_error]
    for count in [batch] if isinstance(batch, int) else [1, 4, 6]:
        together = gp.run(found, {"x": np.concatenate(items)[:count]}, backend="reference")["y"]
        np.testing.assert_allclose(together, apart[:count], atol=1e-6)


@pytest.mark.parametrize(
    ("token", "axis"),
    [
        pytest.param(np.concatenate([TOKEN, -TOKEN]), 1, id="items that differ"),
        pytest.param(np.repeat(TOKEN, 2, axis=0).repeat(3, axis=1), 0, id="joined along the batch"),
    ],
)
def test_distinct_constant_items_do_not_follow_the_batch(token, axis):
    graph = net(token, axis).graph
    set_input_shapes(graph, {graph.inputs[0]: [5, 3, 4]})
    (joined, _) = graph
    np.testing.assert_array_equal(joined.operands[0].storage.numpy(), token)


@pytest.mark.parametrize("batch", [3, Symbol("N")], ids=str)
def test_an_image_is_resized_along_the_axes_that_change(batch):
    nodes = [node("Resize", ["x", "", "", "s"], ["y"], mode="linear")]
    constants = {"s": np.array([2, 3, 8, 10])}
    found = gp.from_onnx(model(nodes, [("x", [2, 3, 4, 5])], [("y", None)], constants, opset=19))
    x = RANDOM.normal(size=(2, 3, 4, 5)).astype(np.float32)
    alone = gp.run(found, {"x": x})["y"]
    graph = found.graph
    assert not set_input_shapes(graph, {graph.inputs[0]: [batch, 3, 4, 5]})
    (resized,) = graph
    assert resized.attributes["axes"] == (2, 3)
    found = gp.run(found, {"x": np.concatenate([x, x[:1]])})["y"]
    np.testing.assert_allclose(found, np.concatenate([alone, alone[:1]]), atol=1e-6)

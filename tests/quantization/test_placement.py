"""Placement: which layers and values are quantized, and which share a grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.placement import decide_placement
from graphport.quantization.targets import target
from tests.models import model, node
from tests.quantization import nets

ORT = target("onnxruntime")


def _placed(found, name="onnxruntime", floating=()):
    graph = found.graph
    chosen = {item for item in graph if item.name in floating}
    return decide_placement(graph, target(name), set(graph), chosen)


def _names(values):
    return {value.name for value in values}


def test_layers_with_weights_are_found():
    assert [layer.name for layer in _placed(nets.residual()).layers.values()] == ["first", "second", "head"]


def test_values_inside_a_fused_kernel_are_not_rounded():
    placement = _placed(nets.residual())
    assert "ar" in _names(placement.points)
    assert "a" not in _names(placement.points)


def test_a_value_that_others_read_before_the_activation_is_rounded():
    constants = {"w": np.ones((2, 2, 1, 1), np.float32)}
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("Add", ["a", "r"], ["s"]),
        node("Conv", ["s", "w"], ["y"]),
    ]
    found = gp.from_onnx(model(nodes, [("x", [1, 2, 3, 3])], [("y", [1, 2, 3, 3])], constants))
    assert {"x", "a", "r", "s"} <= _names(_placed(found).points)


def test_data_movement_operators_share_qparams():
    placement = _placed(nets.residual())
    roots = {value.name: root.name for value, root in placement.points.items()}
    assert roots["m"] == "sr"


def test_results_of_products_stay_real():
    placement = _placed(nets.products())
    assert _names(placement.points) == {"n", "hr"}
    assert not placement.carried


def test_inputs_are_quantized_for_layers_only():
    placement = _placed(nets.residual())
    point = next(value for value in placement.points if value.name == "x")
    assert point not in placement.carried
    assert [reader.name for reader in placement.readers[point]] == ["first"]


def test_sums_are_quantized_between_integer_layers_only():
    assert [item.name for item in _placed(nets.residual()).pointwise] == ["sum", "mean"]
    assert not _placed(nets.products()).pointwise


def test_float_nodes_setting_keeps_a_node_float():
    placement = _placed(nets.residual(), floating=("second",))
    assert [layer.name for layer in placement.layers.values()] == ["first", "head"]
    assert {item.name: reason for item, reason in placement.floating.items()} == {
        "second": "the settings keep it in float"
    }
    assert "c" not in _names(placement.points)


@pytest.mark.parametrize("name", ["tensorrt", "ncnn"])
def test_some_targets_quantize_layer_inputs_only(name):
    placement = _placed(nets.residual(), name)
    assert not placement.carried
    assert _names(placement.points) <= {"x", "ar", "f"}


def test_an_operator_without_a_kernel_stays_floating_and_reports_it():
    weight = np.ones((2, 2, 2, 2), np.float32)
    found = gp.from_onnx(
        model([node("ConvTranspose", ["x", "w"], ["y"])], [("x", [1, 2, 3, 3])], [("y", [1, 2, 4, 4])], {"w": weight})
    )
    placement = _placed(found)
    assert not placement.layers
    assert list(placement.floating.values()) == ["onnxruntime has no integer kernel for ConvTranspose"]


def test_a_product_of_two_activations_stays_floating_and_reports_it():
    found = gp.from_onnx(model([node("MatMul", ["x", "x"], ["y"])], [("x", [2, 4, 4])], [("y", [2, 4, 4])]))
    assert list(_placed(found).floating.values()) == ["both of its operands are computed"]


def test_concatenated_values_share_qparams_if_the_target_requires_it():
    r = np.random.default_rng(0)
    constants = {
        "w": r.normal(size=(2, 2, 1, 1)).astype(np.float32),
        "v": r.normal(size=(2, 4, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Conv", ["x", "w"], ["b"]),
        node("Concat", ["a", "b"], ["c"], axis=1),
        node("Conv", ["c", "v"], ["y"]),
    ]
    found = gp.from_onnx(model(nodes, [("x", [1, 2, 3, 3])], [("y", [1, 2, 3, 3])], constants))
    sharing = decide_placement(found.graph, replace(ORT, shared=frozenset({"Concat"})), set(found.graph))
    shared = {value.name: root.name for value, root in sharing.points.items()}
    assert shared["a"] == shared["b"] == shared["c"]
    own = {value.name: root.name for value, root in _placed(found).points.items()}
    assert len({own["a"], own["b"], own["c"]}) == 3


def test_shape_operands_are_not_quantized():
    nodes = [
        node("Conv", ["x", "w"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("Reshape", ["a", "s"], ["r"]),
        node("Conv", ["r", "w"], ["y"]),
    ]
    found = gp.from_onnx(
        model(nodes, [("x", ["N", 2, 3, 3])], [("y", ["N", 2, 3, 3])], {"w": np.ones((2, 2, 1, 1), np.float32)})
    )
    assert "s" not in _names(_placed(found).points)

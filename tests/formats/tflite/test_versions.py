"""Operators have the least version that can say them, and files the first release that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.container.least_version import version_of
from graphport.formats.tflite.container.releases import least_release, release_of
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from pathlib import Path


def node(op_type: str, *operands: str, result: str = "float32[1]", **attributes: Any) -> Node:
    """An operator on operands of these types and shapes."""
    given = [Value(f"x{index}", _fact(told)) for index, told in enumerate(operands)]
    return Node(op_type, given, [Value("y", _fact(result))], attributes, dialect="tflite")


def _fact(told: str) -> TensorFact:
    name, _, shape = told.rstrip("]").partition("[")
    return TensorFact(DType.of(name), tuple(int(n) for n in shape.split(",") if n))


_BYTE = (DType.INT8, -1, (0.5,), (0,))
_BY_AXIS = (DType.INT8, 0, (0.5, 0.25), (0, 0))


@pytest.mark.parametrize(
    ("made", "version"),
    [
        (node("CONV_2D", "float32[1,4,4,2]", "float32[3,1,1,2]"), 1),
        (node("CONV_2D", "float32[1,4,4,2]", "float32[3,1,1,1]"), 6),
        (node("CONV_2D", "int8[1,4,4,2]", "int8[3,1,1,2]"), 3),
        (node("CONV_2D", "float32[1,4,4,2]", "int8[2,1,1,2]", quantized=(None, _BY_AXIS)), 5),
        (node("CONV_2D", "float32[1,4,4,2]", "int8[2,1,1,2]", quantized=(None, _BYTE)), 2),
        (node("DEPTHWISE_CONV_2D", "float32[1,4,4,2]", "float32[1,3,3,2]", dilation_w_factor=2), 2),
        (node("FULLY_CONNECTED", "float32[1,2]", "int8[2,2]", quantized=(None, _BY_AXIS)), 12),
        (node("FULLY_CONNECTED", "float32[1,2]", "float32[2,2]"), 1),
        (node("ADD", "float32[2]", "float32[2]"), 1),
        (node("ADD", "int16[2]", "int16[2]", quantized=(_BYTE, _BYTE), pot_scale_int16=False), 3),
        (node("ADD", "int16[2]", "int16[2]"), 5),
        (node("MUL", "int8[2]", "int8[2]", quantized=(_BYTE, _BYTE), quantized_results=(_BYTE,)), 2),
        (node("SUB", "float32[1,1,1,1,2]", "float32[2]"), 3),
        (node("SUB", "float32[1,1,1,1,2]", "float32[1,1,1,1,2]"), 1),
        (node("NEG", "int8[2]"), 1),
        (node("QUANTIZE", "float32[2]", result="int16[2]"), 2),
        (node("BROADCAST_TO", "float32[2]"), 2),
        (node("WHERE", "bool[2]"), 1),
    ],
    ids=lambda each: f"{each.op_type}-{each.operands[0].fact}" if isinstance(each, Node) else str(each),
)
def test_versions_are_those_of_litert(made: Node, version: int) -> None:
    assert version_of(made) == version


def test_releases_are_compared_as_numbers() -> None:
    assert release_of("CONV_2D", 6) == "2.9.0"
    assert release_of("FULLY_CONNECTED", 12) == "2.17.0"
    assert least_release([("CONV_2D", 6), ("RSQRT", 3)]) == "2.15.0"
    assert release_of("BROADCAST_TO", 1) == release_of("NEG", 2) == release_of("custom.Own", 1) == ""


@pytest.mark.parametrize(("operator", "release"), [("Relu", "1.5.0"), ("Gelu", "2.9.0")])
def test_a_file_tells_the_first_release_that_runs_it(operator: str, release: str, tmp_path: Path) -> None:
    told = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "net", told[:1], told[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    assert gp.load(tmp_path / "m.tflite").versions == {"min_runtime": release}


def test_a_layer_without_bias_needs_no_later_version(tmp_path: Path) -> None:
    told = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    weight = onnx.numpy_helper.from_array(np.ones((2, 2), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "net", told[:1], told[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    (layer,) = gp.load(tmp_path / "m.tflite", raw=True).graph
    assert layer.op_type == "FULLY_CONNECTED"
    assert layer.notes["tflite.version"] == version_of(layer) < 6

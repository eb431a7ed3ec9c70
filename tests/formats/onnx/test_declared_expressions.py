"""Extents that ONNX Runtime's symbolic shape inference declares as formulas in SymPy's spelling."""

from __future__ import annotations

import numpy as np

import graphport as gp
from tests.models import model, node

ROWS, COLUMNS = "floor(floor(height/2 - 1/2)/2) + 1", "floor(floor(width/2 - 1/2)/2) + 1"
TOTAL = f"({ROWS})*({COLUMNS}) + (floor(height/2 - 1/2) + 1)*(floor(width/2 - 1/2) + 1)"


def test_inference_names_the_extents_that_a_formula_declares():
    constants = {"w": np.ones((2, 2, 3, 3), np.float32), "flat": np.array([0, 2, -1])}
    conv = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    nodes = [
        node("Conv", ["x", "w"], ["c"], **conv),
        node("Conv", ["c", "w"], ["d"], **conv),
        node("Reshape", ["c", "flat"], ["p"]),
        node("Reshape", ["d", "flat"], ["q"]),
        node("Concat", ["p", "q"], ["y"], axis=2),
    ]
    proto = model(nodes, [("x", ["N", 2, "height", "width"])], [("y", ["N", 2, TOTAL])], constants)
    loaded = gp.from_onnx(proto)
    shape = [str(dim) for dim in loaded.shapes()["y"].shape]
    assert shape == ["N", "2", "height_2"]
    assert loaded.graph.extents.evaluate_symbols({"height": 9, "width": 6})["height_2"] == 3 * 2 + 5 * 3


def test_a_formula_after_an_unknown_operator_is_an_expression_of_the_inputs():
    nodes = [node("Custom", ["x"], ["h"], domain="my.own"), node("Relu", ["h"], ["y"])]
    proto = model(nodes, [("x", ["N", "height"])], [("y", ["N", ROWS])])
    inner = model([node("Relu", ["x"], ["h"])], [("x", ["N"])], [("h", ["N", ROWS])])
    proto.graph.value_info.extend(inner.graph.output)
    assert str(gp.from_onnx(proto).shapes()["y"].shape[1]) == "(height+3)//4"


def test_a_formula_of_other_names_stays_a_name():
    nodes = [node("Custom", ["x"], ["y"], domain="my.own")]
    proto = model(nodes, [("x", ["N", 3])], [("y", ["N", ROWS])])
    assert str(gp.from_onnx(proto).shapes()["y"].shape[1]) == ROWS

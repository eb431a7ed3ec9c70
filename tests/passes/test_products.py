"""MatMul over joined axes is rewritten to the original axes; broadcasting operators read the smaller operand."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.passes.cases import info, model, node, some

CONSTANTS = {
    "w": some(8, 5),
    "b": some(5),
    "row": some(1, 5),
    "many": some(12, 5),
    "flat": np.array([-1, 8]),
    "heads": np.array([6, 4, 8]),
    "columns": np.array([6, 8, 4]),
    "part": np.array([2, 3, 4, 5]),
    "turned": np.array([3, 2, 4, 5]),
    "square": np.array([2, 3, 4, 4]),
    "wide": np.array([2, 3, 8, 4]),
    "shape": np.array([2, 3, 4, 8]),
    "line": np.array([8]),
    "more": np.array([7, 1, 1, 1, 1]),
    "batch": np.array([2, 3, 8, 5]),
}


def simplified(nodes, inputs, **options):
    used = {name for each in nodes for name in each.input}
    given = {name: array for name, array in CONSTANTS.items() if name in used}
    result, report = gp.simplify(gp.from_onnx(model(nodes, inputs, [info("y", None)], given)), **options)
    assert report.passed
    return [each.op for each in result.graph]


X = [info("x", [2, 3, 4, 8])]
Z = [*X, info("z", [2, 3, 8, 4])]
LINEAR = [node("Reshape", "x flat", "r"), node("MatMul", "r w", "p")]
BATCHED = [node("Reshape", "x heads", "r"), node("Reshape", "z columns", "s"), node("MatMul", "r s", "p")]


@pytest.mark.parametrize(
    ("nodes", "inputs", "expected"),
    [
        pytest.param([*LINEAR, node("Reshape", "p part", "y")], X, ["MatMul"], id="a matrix"),
        pytest.param(
            [*LINEAR, node("Add", "b p", "a"), node("Reshape", "a part", "y")], X, ["MatMul", "Add"], id="with a bias"
        ),
        pytest.param([*BATCHED, node("Reshape", "p square", "y")], Z, ["MatMul"], id="heads"),
        # Later nodes are unchanged.
        pytest.param([*LINEAR, node("Reshape", "p turned", "y")], X, ["Reshape", "MatMul", "Reshape"], id="other axes"),
        pytest.param(
            [*LINEAR, node("Add", "p many", "a"), node("Reshape", "a part", "y")],
            [info("x", [3, 4, 8])],
            None,
            id="a summand for each row",
        ),
    ],
)
def test_a_product_over_joined_axes(nodes, inputs, expected):
    if expected is None:
        nodes = [*nodes[:-1], node("Relu", "a", "y")]
        expected = ["Reshape", "Gemm", "Relu"]
    assert simplified(nodes, inputs) == expected


def test_a_product_of_open_axes():
    nodes = [
        node("Shape", "x", "n", start=0, end=2),
        *LINEAR,
        node("Concat", "n last", "s", axis=0),
        node("Reshape", "p s", "y"),
    ]
    CONSTANTS["last"] = np.array([5])
    assert simplified(nodes, [info("x", ["B", "T", 8])]) == ["MatMul"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param([node("Expand", "v shape", "e"), node("Add", "x e", "y")], ["Add"], id="a sum"),
        pytest.param(
            [
                node("Shape", "x", "s"),
                node("ConstantOfShape", "s", "e"),
                node("Less", "x e", "c"),
                node("Where", "c e x", "y"),
            ],
            ["Less", "Where"],
            id="zeros",
        ),
        pytest.param([node("Expand", "u batch", "e"), node("MatMul", "x e", "y")], ["MatMul"], id="a product's batch"),
        # Later nodes are unchanged.
        pytest.param([node("Expand", "v more", "e"), node("Add", "x e", "y")], ["Expand", "Add"], id="a larger result"),
        pytest.param(
            [node("Expand", "v wide", "e"), node("MatMul", "x e", "y")], ["Expand", "MatMul"], id="a product's sum"
        ),
    ],
)
def test_expands_before_a_broadcasting_operator_are_dropped(nodes, expected):
    shapes = {"v": [1, 1] if "wide" in nodes[0].input else [8], "u": [8, 5]}
    inputs = [*X, *(info(name, shape) for name, shape in shapes.items() if name in nodes[0].input)]
    assert simplified(nodes, inputs) == expected

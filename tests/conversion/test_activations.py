"""The memory of activations, against sets of values that are collected step by step from an ONNX file."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphport as gp
from tests.models import model, node, typed


def skip_connection() -> onnx.ModelProto:
    """An operand that is read again at the end, a result without a consumer, an output that is read by a node."""
    nodes = [
        node("Relu", ["x"], ["a"], name="first"),
        node("Split", ["a"], ["b", "unused"], name="split", axis=1, num_outputs=2),
        node("Concat", ["b", "b", "b"], ["c"], name="wide", axis=1),
        node("ReduceMax", ["c"], ["d"], name="narrow", keepdims=0),
        node("Mul", ["a", "d"], ["e"], name="scale"),
        node("Add", ["e", "w"], ["y"], name="add"),
    ]
    inputs = [("x", [2, 8]), ("never", [1000])]
    return model(nodes, inputs, [("y", [2, 8]), ("e", [2, 8])], {"w": np.ones((2, 8), np.float32)}, opset=18)


def expected_bytes(proto: onnx.ModelProto) -> list[int]:
    """Sum the float32 values that exist before or after each node and are read then or later."""
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    shapes = {
        each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        for each in [*inferred.input, *inferred.value_info, *inferred.output]
    }
    outputs = {each.name for each in proto.graph.output}
    found = []
    for step, current in enumerate(proto.graph.node):
        known = {each.name for each in proto.graph.input}.union(*(each.output for each in proto.graph.node[:step]))
        wanted = outputs.union(*(each.input for each in proto.graph.node[step:]))
        alive = (known & wanted) | set(current.output)
        found.append(sum(4 * prod(shapes[name]) for name in alive))
    return found


def test_live_bytes_count_values_with_later_consumers():
    proto = skip_connection()
    rows = gp.report(gp.load(proto)).to_rows()
    assert [row["live_bytes"] for row in rows] == expected_bytes(proto)
    peak: Any = gp.inspect(proto).activations
    assert (peak.peak_bytes, peak.sizes) == (max(expected_bytes(proto)), {})
    assert (peak.node, peak.operator) == ("wide", "Concat")


def test_the_largest_body_adds_to_its_node():
    small = helper.make_graph([node("Relu", ["x"], ["s"])], "small", [], [typed("s", [4])])
    steps = [node("Concat", ["x", "x", "x"], ["t"], axis=0), node("ReduceMax", ["t"], ["u"], keepdims=0)]
    large = helper.make_graph([*steps, node("Add", ["x", "u"], ["v"])], "large", [], [typed("v", [4])])
    nodes = [node("If", ["c"], ["y"], name="choice", then_branch=small, else_branch=large)]
    proto = model(nodes, [("x", [4]), typed("c", [], TensorProto.BOOL)], [("y", [4])], opset=18)
    peak: Any = gp.inspect(proto).activations
    assert peak.peak_bytes == 16 + 1 + 16 + (48 + 4)  # x, c, y; t and u of the second branch


@pytest.mark.parametrize(("shape", "sizes"), [((None, 3), {"N": 1}), ((5, 3), {})])
def test_open_dims_have_stated_sizes(shape, sizes):
    proto = model([node("Relu", ["x"], ["y"])], [("x", [shape[0] or "N", 3])], [("y", [shape[0] or "N", 3])])
    peak: Any = gp.inspect(proto).activations
    assert (peak.sizes, peak.peak_bytes) == (sizes, 2 * 4 * 3 * (shape[0] or 1))


def test_weights_are_listed_from_the_largest():
    constants = {"a": np.ones((2, 3), np.float32), "b": np.ones((6, 3), np.float16), "shape": np.array([3, 2])}
    nodes = [
        node("MatMul", ["x", "a"], ["h"]),
        node("Cast", ["b"], ["f"], to=TensorProto.FLOAT),
        node("Gemm", ["h", "f"], ["g"], transB=1),
        node("Reshape", ["g", "shape"], ["y"]),
    ]
    found = gp.inspect(model(nodes, [("x", [1, 2])], [("y", [3, 2])], constants))
    assert [(each.name, each.dtype, each.shape, each.nbytes) for each in found.weights] == [
        ("b", "float16", (6, 3), 36),
        ("a", "float32", (2, 3), 24),
    ]
    assert (found.parameters, found.weight_bytes) == (24, 60)

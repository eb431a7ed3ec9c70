"""Models with symbolic dims are written as TFLite, and LiteRT computes equal results at two sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import graphport as gp
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CASES = {
    "elements of the last axis": ("GatherElements", ["n", "m"], ["n", "k"], {"axis": 1}),
    "elements of the first axis": ("GatherElements", ["n", "m"], ["k", "m"], {"axis": 0}),
    "elements of three axes": ("GatherElements", ["n", "m", 2], ["n", "k", 2], {"axis": 1}),
    "pairs": ("GatherND", ["n", "m", 3], ["k", 2], {}),
    "pairs in a grid": ("GatherND", ["n", "m"], ["k", 1, "l", 2], {}),
    "a pair for each of a batch": ("GatherND", ["n", "m", 3], ["n", "k", 2], {"batch_dims": 1}),
    "one for each of a batch": ("GatherND", ["n", "m", 3], ["n", "k", 1], {"batch_dims": 1}),
    "slices": ("Gather", ["n", "m"], ["k"], {"axis": 1}),
}


def written(path: Path, op_type: str, data: Sequence[str | int], places: Sequence[str | int], **how: int) -> None:
    """Write one node with symbolic dims."""
    told = [
        helper.make_tensor_value_info("data", TensorProto.FLOAT, data),
        helper.make_tensor_value_info("places", TensorProto.INT64, places),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(op_type, ["data", "places"], ["y"], **how)], "g", told, [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


@pytest.mark.parametrize("case", CASES)
def test_places_along_open_axes(case: str, tmp_path: Path) -> None:
    op_type, data, places, how = CASES[case]
    written(tmp_path / "m.onnx", op_type, data, places, **how)
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    draw = np.random.default_rng(5)
    with LiteRT() as runtime:
        for sizes in ({"n": 4, "m": 5, "k": 3, "l": 2}, {"n": 2, "m": 7, "k": 6, "l": 1}):
            x = draw.normal(size=[int(sizes.get(str(n), n)) for n in data]).astype(np.float32)
            shape = [int(sizes.get(str(n), n)) for n in places]
            # Counted from the front and from the back, along the shortest axis that is picked from.
            most = min(sizes["n"], sizes["m"], 3)
            at = draw.integers(-most, most, size=shape, dtype=np.int64)
            (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"data": x, "places": at})
            (found,) = runtime(tmp_path / "m.tflite", [x, at])
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(
                gp.run(gp.load(tmp_path / "m.tflite"), {"data": x, "places": at})["y"], expected
            )


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_a_resize_whose_lengths_are_reported_after_an_open_batch(mode: str, tmp_path: Path) -> None:
    """As in PyTorch's export: the sizes are a Concat of the computed batch and constants."""
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], end=1),
        helper.make_node("Concat", ["n", "rest"], ["lengths"], axis=0),
        helper.make_node("Resize", ["x", "", "", "lengths"], ["y"], mode=mode),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    rest = onnx.numpy_helper.from_array(np.array([3, 8, 10], np.int64), "rest")
    graph = helper.make_graph(nodes, "g", [x], [y], [rest])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    op_type = {"linear": "RESIZE_BILINEAR", "nearest": "RESIZE_NEAREST_NEIGHBOR"}.get(mode)
    words = [node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph]
    assert op_type is None or op_type in words
    with LiteRT() as runtime:
        for n in (1, 3):
            given = np.random.default_rng(n).normal(size=(n, 3, 4, 5)).astype(np.float32)
            (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": given})
            (found,) = runtime(tmp_path / "m.tflite", [given])
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("case", ["an image", "a signal", "cut and filled up", "behind others"])
def test_a_transposed_convolution_of_an_open_batch(case: str, tmp_path: Path) -> None:
    """Its kernel has the shape of the result as an operand, which begins with a batch known at run time."""
    space = (5,) if case == "a signal" else (4, 5)
    random = np.random.default_rng(2)
    w = onnx.numpy_helper.from_array(random.normal(size=(3, 2, *[3] * len(space))).astype(np.float32), "w")
    stated = {"pads": [1, 0, 0, 1], "output_padding": [1, 0]} if case == "cut and filled up" else {}
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("ConvTranspose", ["h", "w"], ["y"], strides=[2] * len(space), **stated),
    ]
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, *space])]
    if case == "behind others":
        # No input of the graph begins with this batch.
        nodes.insert(0, helper.make_node("Concat", ["x0", "x0"], ["x"], axis=0))
        ports = [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", 3, *space])]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", ports, [y], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as runtime:
        for n in (1, 3):
            given = random.normal(size=(n, 3, *space)).astype(np.float32)
            (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {ports[0].name: given})
            (found,) = runtime(tmp_path / "m.tflite", [given])
            np.testing.assert_allclose(found, expected, atol=1e-5)
            again = gp.run(gp.load(tmp_path / "m.tflite"), {ports[0].name: given})["y"]
            np.testing.assert_allclose(again, expected, atol=1e-5)


BEHIND_A_BATCH = {
    "a resize by scales": (
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear"),
        {"scales": np.array([1, 1, 2, 3], np.float32)},
        "RESIZE_BILINEAR",
    ),
    "a resize by scales of two axes": (
        helper.make_node(
            "Resize",
            ["x", "", "scales"],
            ["y"],
            axes=[2, 3],
            coordinate_transformation_mode="align_corners",
            mode="linear",
        ),
        {"scales": np.array([2, 2], np.float32)},
        "RESIZE_BILINEAR",
    ),
    "a resize with a region that counts for nothing": (
        helper.make_node("Resize", ["x", "roi", "scales"], ["y"], mode="linear"),
        {"roi": np.arange(8, dtype=np.float32) / 9, "scales": np.array([1, 1, 2, 3], np.float32)},
        "RESIZE_BILINEAR",
    ),
    "a cubic resize with such a region": (
        helper.make_node("Resize", ["x", "roi", "scales"], ["y"], mode="cubic"),
        {"roi": np.arange(8, dtype=np.float32) / 9, "scales": np.array([1, 1, 2, 1], np.float32)},
        "FULLY_CONNECTED",
    ),
    "a cubic resize by scales": (
        helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic"),
        {"scales": np.array([1, 1, 2, 1], np.float32)},
        "FULLY_CONNECTED",
    ),
    "groups": (
        helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=2),
        {"scale": np.arange(4, dtype=np.float32), "bias": np.ones(4, np.float32)},
        "MEAN",
    ),
    "more of an axis of length 1": (
        helper.make_node("Expand", ["x", "shape"], ["y"]),
        {"shape": np.array([2, 1, 4, 1, 1])},
        "BROADCAST_TO",
    ),
    "the shape that it has": (helper.make_node("Expand", ["x", "shape"], ["y"]), {"shape": np.array([1, 1, 5])}, None),
}


@pytest.mark.parametrize("case", BEHIND_A_BATCH)
def test_what_leaves_an_open_batch_alone(case: str, tmp_path: Path) -> None:
    node, constants, op_type = BEHIND_A_BATCH[case]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 4, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    words = [node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph]
    assert op_type in words if op_type else "BROADCAST_TO" not in words
    with LiteRT() as runtime:
        for n in (1, 3):
            given = np.random.default_rng(n).normal(size=(n, 4, 4, 5)).astype(np.float32)
            (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": given})
            (found,) = runtime(tmp_path / "m.tflite", [given])
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("op_type", ["GRU", "LSTM"])
def test_recurrent_layers_over_an_open_batch(op_type: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    gates, draw = {"GRU": 3, "LSTM": 4}[op_type], np.random.default_rng(8)
    constants = {"w": (2, gates * 3, 5), "r": (2, gates * 3, 3), "b": (2, 2 * gates * 3)}
    stored = [
        onnx.numpy_helper.from_array(draw.normal(size=shape).astype(np.float32), name)
        for name, shape in constants.items()
    ]
    node = helper.make_node(op_type, ["x", *constants], ["y"], hidden_size=3, direction="bidirectional")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, "n", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as runtime:
        for n in (1, 3):
            given = draw.normal(size=(4, n, 5)).astype(np.float32)
            expected = gp.run(gp.load(tmp_path / "m.onnx"), {"x": given}, backend="onnxruntime")["y"]
            (found,) = runtime(tmp_path / "m.tflite", [given])
            np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("shape", [[0, 0, 2, 3], [0, -1, 3, 2], [0, 0, -1]])
def test_a_reshape_that_keeps_two_dynamic_dims(shape: list[int], tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m", 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = onnx.numpy_helper.from_array(np.array(shape), "shape")
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", [x], [y], [stored])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    with LiteRT() as runtime:
        for n, m in ((1, 4), (3, 2)):
            given = np.random.default_rng(n).normal(size=(n, m, 6)).astype(np.float32)
            (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": given})
            (found,) = runtime(tmp_path / "m.tflite", [given])
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_of_open_rows_and_columns(upper: int, tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "m"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Trilu", ["x"], ["y"], upper=upper)], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    with LiteRT() as runtime:
        (found,) = runtime(tmp_path / "m.tflite", [x])
    np.testing.assert_array_equal(found, np.triu(x) if upper else np.tril(x))

"""A written file is read back as an equal model, and its interface equals that of the ONNX file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.api.rewrite import rewrite_file
from graphport.core.diagnostics import DiagnosticError
from graphport.passes.simplify import SIMPLIFY
from tests.draws import spread
from tests.formats.tflite.test_cases import CASES, NAMES, assert_right, recorded
from tests.models import model, node

if TYPE_CHECKING:
    from pathlib import Path


def test_a_raw_graph_is_written_as_it_was_read(tmp_path: Path) -> None:
    for name in spread(NAMES, start=1):
        first = gp.load(CASES / f"{name}.tflite", raw=True)
        gp.save(first, tmp_path / "again.tflite")
        again = gp.load(tmp_path / "again.tflite", raw=True)
        assert [node.op for node in again.graph] == [node.op for node in first.graph]
        assert [node.attributes.keys() for node in again.graph] == [node.attributes.keys() for node in first.graph]
        inputs, expected = recorded(name)
        outputs = gp.run(again, dict(zip(again.inputs, inputs, strict=False)))
        assert_right(name, list(outputs.values()), expected)


def test_what_goes_through_onnx_and_back_computes_equal_results(tmp_path: Path) -> None:
    refused = []
    for name in spread(NAMES):
        source = gp.load(CASES / f"{name}.tflite")
        gp.save(source, tmp_path / "there.onnx")
        try:
            gp.save(gp.load(tmp_path / "there.onnx"), tmp_path / "back.tflite")
        except DiagnosticError:
            refused.append(name)
            continue
        back = gp.load(tmp_path / "back.tflite")
        inputs, expected = recorded(name)
        # Initial states are passed as inputs: an input of TFLite has no initial value.
        states = [value.storage.numpy() for value in list(source.inputs.values())[len(inputs) :]]
        outputs = gp.run(back, dict(zip(back.inputs, [*inputs, *states], strict=True)))
        found = list(outputs.values())
        if name == "floor_div":
            # TFLite has no float64 division: 6 / 0.3 in float32 is 20, in float64 slightly less.
            np.testing.assert_allclose(found.pop(), expected[-1], atol=1)
            expected = expected[:-1]
        assert_right(name, found, expected)
    # The last two have data-dependent dims before a gather or a sum.
    known = {"branches", "repeats", "sequence_lstm", "detections_of_each_class", "embedded_sparsely"}
    assert set(refused) <= known


@pytest.mark.parametrize("options", [b"size\x00\x01\x13(\x03", b"\xff\x80\x00k", b""])
def test_options_of_a_custom_operator_come_back_from_onnx(options: bytes, tmp_path: Path) -> None:
    node = helper.make_node("custom.Own", ["x"], ["y"], domain="tflite", custom_options=options)
    told = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", told[:1], told[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("tflite", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    gp.save(gp.load(tmp_path / "m.onnx"), tmp_path / "m.tflite")
    (own,) = gp.load(tmp_path / "m.tflite", raw=True).graph
    assert own.attributes["custom_options"] == options


def network(path: Path) -> dict[str, np.ndarray]:
    """Write a residual net: two convolutions, normalization, pooling, and a dense layer."""
    random = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=4),
        helper.make_node("BatchNormalization", ["c2", "g", "o", "m", "v"], ["n2"]),
        helper.make_node("Add", ["n2", "r1"], ["s"]),
        helper.make_node("Concat", ["s", "r1"], ["k"], axis=1),
        helper.make_node("MaxPool", ["k"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["a"]),
        helper.make_node("Flatten", ["a"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    shapes = {"w1": (4, 3, 3, 3), "b1": (4,), "w2": (4, 1, 3, 3), "w3": (5, 8), "b3": (5,)}
    shapes |= {"g": (4,), "o": (4,), "m": (4,), "v": (4,)}
    arrays = {
        name: np.abs(random.normal(size=shape)).astype(np.float32) - 0.2 * (name != "v")
        for name, shape in shapes.items()
    }
    constants = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return {"x": random.normal(size=(1, 3, 8, 8)).astype(np.float32)}


def test_a_net_keeps_its_interface_and_has_one_transpose(tmp_path: Path) -> None:
    inputs = network(tmp_path / "net.onnx")
    model = gp.load(tmp_path / "net.onnx")
    gp.save(model, tmp_path / "net.tflite")
    raw = gp.load(tmp_path / "net.tflite", raw=True)
    assert str(raw.inputs["x"].fact) == "float32[1, 3, 8, 8]"
    words = Counter(node.op_type for node in raw.graph)
    # One at the input (channels first), one before Flatten.
    assert words["TRANSPOSE"] <= 2
    assert words["DEPTHWISE_CONV_2D"] == words["CONV_2D"] == words["CONCATENATION"] == 1
    expected = gp.run(model, inputs)["y"]
    np.testing.assert_allclose(gp.run(raw, inputs)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["Det"])
def test_what_has_no_operator_is_refused_by_name(tmp_path: Path, operator: str) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "net", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    with pytest.raises(DiagnosticError, match=f"tflite: unsupported operator {operator}"):
        gp.save(gp.load(tmp_path / "net.onnx"), tmp_path / "net.tflite")


def test_a_simplified_file_is_written_in_canonical_operators(tmp_path):
    report = rewrite_file(CASES / "add_relu6.tflite", tmp_path / "small.onnx", SIMPLIFY)
    assert report.passed
    assert {node.op_type for node in onnx.load(tmp_path / "small.onnx").graph.node} == {"Add", "Clip"}


def test_constants_that_are_reshaped_do_not_hold_up_transposes(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    w, v = (random.normal(size=(4, n, 1, 1)).astype(np.float32) for n in (3, 4))
    constants = {"w": w, "v": v, "b": random.normal(size=4).astype(np.float32), "shape": np.array([1, 4, 1, 1])}
    nodes = [
        onnx.helper.make_node("Reshape", ["b", "shape"], ["c"]),
        onnx.helper.make_node("Conv", ["x", "w"], ["h"]),
        onnx.helper.make_node("Add", ["h", "c"], ["k"]),
        onnx.helper.make_node("Conv", ["k", "v"], ["y"]),
    ]
    told = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, n, 5, 6])
        for name, n in (("x", 3), ("y", 4))
    ]
    inits = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = onnx.helper.make_graph(nodes, "g", told[:1], told[1:], inits)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m.tflite")
    words = [node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph]
    assert words == ["TRANSPOSE", "CONV_2D", "ADD", "CONV_2D", "TRANSPOSE"]
    x = random.normal(size=(1, 3, 5, 6)).astype(np.float32)
    found = gp.run(gp.load(tmp_path / "m.tflite"), {"x": x}, backend="litert")["y"]
    np.testing.assert_allclose(found, gp.run(model, {"x": x})["y"], rtol=1e-5, atol=1e-5)


def test_channels_are_shuffled_split_looked_up_and_cut_where_they_come_last(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    constants = {
        "w": random.normal(size=(8, 3, 1, 1)).astype(np.float32),
        "v": random.normal(size=(4, 4, 1, 1)).astype(np.float32),
        "parted": np.array([1, 2, 4, 6, 7]),
        "joined": np.array([1, 8, 6, 7]),
        "sizes": np.array([3, 1]),
        "rows": np.array([2, 0, 5, 5]),
        "begin": np.array([0, 1]),
        "end": np.array([3, 7]),
        "axes": np.array([1, 3]),
        "steps": np.array([1, 2]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Reshape", ["c", "parted"], ["p"]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["t", "joined"], ["j"]),
        helper.make_node("Split", ["j"], ["a", "b"], axis=1),
        helper.make_node("Conv", ["a", "v"], ["d"]),
        helper.make_node("Split", ["d", "sizes"], ["e", "f"], axis=1),
        helper.make_node("Concat", ["f", "e"], ["g"], axis=1),
        helper.make_node("Gather", ["g", "rows"], ["h"], axis=2),
        helper.make_node("Slice", ["h", "begin", "end", "axes", "steps"], ["i"]),
        helper.make_node("Gather", ["b", "rows"], ["k"], axis=2),
        helper.make_node("Slice", ["k", "begin", "end", "axes", "steps"], ["l"]),
        helper.make_node("Add", ["i", "l"], ["y"]),
    ]
    told = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 6, 7]), ("y", [1, 3, 4, 3]))
    ]
    inits = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", told[:1], told[1:], inits)
    stated = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(stated, tmp_path / "m.onnx")
    model = gp.load(tmp_path / "m.onnx")
    gp.save(model, tmp_path / "m.tflite")
    words = Counter(node.op_type for node in gp.load(tmp_path / "m.tflite", raw=True).graph)
    # At each end one, and the shuffle itself.
    assert words["TRANSPOSE"] == 3
    assert words["SPLIT"] + words["SPLIT_V"] == words["GATHER"] == words["STRIDED_SLICE"] == 2
    x = random.normal(size=(1, 3, 6, 7)).astype(np.float32)
    found = gp.run(gp.load(tmp_path / "m.tflite"), {"x": x}, backend="litert")["y"]
    np.testing.assert_allclose(found, gp.run(model, {"x": x})["y"], rtol=1e-5, atol=1e-5)
    again = gp.run(gp.load(tmp_path / "m.tflite"), {"x": x})["y"]
    np.testing.assert_allclose(again, found, rtol=1e-5, atol=1e-5)


def test_results_without_elements_are_given_by_litert_too(tmp_path: Path) -> None:
    nodes = [node("Slice", ["x", "start", "end"], ["y"]), node("Neg", ["y"], ["z"])]
    constants = {"start": np.array([5]), "end": np.array([9])}
    found = gp.from_onnx(model(nodes, [("x", [4, 3])], [("z", [0, 3])], constants))
    gp.save(found, tmp_path / "m.tflite")
    x = np.ones((4, 3), np.float32)
    (z,) = gp.run(gp.load(tmp_path / "m.tflite"), {"x": x}, backend="litert").values()
    assert (z.shape, z.dtype) == ((0, 3), np.float32)

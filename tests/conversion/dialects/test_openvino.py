"""State, outputs and weights of OpenVINO's models, on the way to canonical graphs and back."""

from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.dialects.openvino import before
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir

DATA = Path(__file__).parents[2] / "formats" / "openvino" / "data"
X = np.array([[1, 2, 3, 4]], np.float32)


def compressed(folder, *, shift):
    """Weights of two groups of four, as compression writes them: integers, float16 scales, and a Convert at the end."""
    rng = np.random.default_rng(0)
    layers = [
        parameter("x", "3,8"),
        constant("w", rng.integers(0, 255, (5, 2, 4)), "uint8"),
        Layer("h", "opset1.Convert", {"destination_type": "f16"}, ["w"]),
        constant("s", rng.uniform(0.001, 0.01, (5, 2, 1)), "float16"),
    ]
    last = "h"
    if shift:
        layers += [
            constant("z", rng.integers(100, 150, (5, 2, 1)), "uint8"),
            Layer("zh", "opset1.Convert", {"destination_type": "f16"}, ["z"]),
            Layer("d", "opset1.Subtract", {}, ["h", "zh"]),
        ]
        last = "d"
    layers += [
        Layer("m", "opset1.Multiply", {}, [last, "s"]),
        constant("shape", [5, 8], "int64"),
        Layer("r", "opset1.Reshape", {"special_zero": "false"}, ["m", "shape"]),
        Layer("f", "opset1.Convert", {"destination_type": "f32"}, ["r"]),
        Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "true"}, ["x", "f"]),
    ]
    return write_ir(folder, layers, ["y"])


@pytest.mark.parametrize("shift", [False, True])
def test_compressed_weights_are_taken_apart_in_float32(shift, tmp_path):
    model = gp.load(compressed(tmp_path, shift=shift))
    constants = {v.name: v.storage.numpy().astype(np.float64) for v in model.graph.constants}
    zero = constants["z"] if shift else 0
    weights = ((constants["w"] - zero) * constants["s"]).reshape(5, 8)
    x = np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)
    np.testing.assert_allclose(gp.run(model, {"x": x})["y"], x @ weights.T, rtol=1e-5, atol=1e-6)
    assert {str(v.fact.dtype) for v in model.graph.constants} >= {"uint8", "float16"}


def test_every_result_is_a_value_of_its_own_under_its_name():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (2,)))
    storage = storage_of(np.ones(2, np.float32))
    one = graph.add_constant("one", TensorFact.of(storage), storage)
    y = graph.append(Node("opset1.ReLU", [x], [Value("y", x.fact)], dialect="openvino")).output
    graph.set_outputs([x, y, one, y])
    before(graph)
    found = graph.outputs
    assert len(set(found)) == 4
    assert found[1] is y
    assert [value.producer.word for value in found if value.producer] == [
        "Identity",
        "opset1.ReLU",
        "Identity",
        "Identity",
    ]
    assert [value.producer.operands[0] for value in found if value is not y and value.producer] == [x, one, y]


def test_steps_that_are_taken_back_are_one_layer(tmp_path):
    layers = [
        parameter("x", "2,3"),
        *(constant(name, value, "float32") for name, value in (("low", -1.28), ("high", 1.27))),
        Layer("y", "opset1.FakeQuantize", {"levels": 256}, ["x", "low", "high", "low", "high"]),
    ]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    assert [node.op for node in model.graph] == ["QuantizeLinear", "DequantizeLinear"]
    gp.save(model, tmp_path / "out.xml")
    assert [node.word for node in gp.load(tmp_path / "out.xml", raw=True).graph] == ["opset1.FakeQuantize"]
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(
        gp.run(model, {"x": x}, backend="openvino")["y"], gp.run(model, {"x": x})["y"], rtol=1e-5, atol=1e-6
    )


def test_half_the_bytes_where_asked(tmp_path):
    rng = np.random.default_rng(0)
    layers = [
        parameter("x", "3,64"),
        constant("w", rng.normal(size=(64, 64)), "float32"),
        constant("huge", np.full(64, 1e6), "float32"),
        Layer("m", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "w"]),
        Layer("y", "opset1.Add", {}, ["m", "huge"]),
    ]
    model = gp.load(write_ir(tmp_path, layers, ["y"]))
    gp.save(model, tmp_path / "half.xml", weights="f16")
    assert (tmp_path / "half.bin").stat().st_size == 64 * 64 * 2 + 64 * 4
    assert 'name="decompression"' in (tmp_path / "half.xml").read_text()
    x = rng.normal(size=(3, 64)).astype(np.float32)
    found = gp.run(gp.load(tmp_path / "half.xml"), {"x": x})["y"]
    np.testing.assert_allclose(found, gp.run(model, {"x": x})["y"], rtol=1e-3)


@pytest.mark.parametrize(("reader", "rounds"), [("MatMul", False), ("Gather", True)])
def test_codes_of_a_table_are_rounded_except_for_products(reader, rounds, tmp_path):
    table = np.array([-0.6961928009986877, -0.5250730514526367], np.float32)
    last = {
        "MatMul": Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "f"]),
        "Gather": Layer("y", "opset8.Gather", {"batch_dims": 0}, ["f", "i", "a"]),
    }
    layers = [
        parameter("x", "1,1"),
        Layer("w", "opset1.Const", {"element_type": "nf4", "shape": "1, 2", "offset": b"\x21", "size": 0}),
        Layer("h", "opset1.Convert", {"destination_type": "f16"}, ["w"]),
        constant("s", [[0.3]], "float16"),
        constant("i", [0], "int64"),
        constant("a", 0, "int64"),
        Layer("m", "opset1.Multiply", {}, ["h", "s"]),
        Layer("f", "opset1.Convert", {"destination_type": "f32"}, ["m"]),
        last[reader],
    ]
    found = gp.run(gp.load(write_ir(tmp_path, layers, ["y"])), {"x": np.ones((1, 1), np.float32)})["y"]
    codes = table.astype(np.float16).astype(np.float32) if rounds else table
    np.testing.assert_allclose(found[0], codes * np.float32(np.float16(0.3)), rtol=1e-7)

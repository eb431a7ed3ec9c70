"""Quantized models become float models that compute the same up to rounding."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.cli.main import cli
from tests.models import model, node, typed
from tests.quantization import nets

QUANTIZED = {
    *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"),
    *("ConvInteger", "MatMulInteger"),
}

FORMS = [
    pytest.param("residual", "q.onnx", {}, id="QDQ"),
    pytest.param("residual", "q.onnx", {"form": "qoperator"}, id="operators on integers, with fused Relu"),
    pytest.param("residual", "q.onnx", {"dynamic": True}, id="dynamic"),
    pytest.param("products", "q.onnx", {"dynamic": True}, id="dynamic products"),
    pytest.param("products", "q.onnx", {"weights_only": True, "weight_bits": 4, "weight_block": 16}, id="MatMulNBits"),
    pytest.param("residual", "q.xml", {"target": "openvino"}, id="FakeQuantize"),
    pytest.param("residual", "q.tflite", {"target": "tflite"}, id="TFLite"),
    pytest.param("residual", "q.tflite", {"target": "tflite", "full_integer": True}, id="integer inputs"),
    pytest.param("depthwise", "q.onnx", {"activation_bits": 16}, id="16 bits"),
]


def words(made: gp.Model) -> Counter[str]:
    return Counter(each.op_type for each in made.graph)


@pytest.mark.parametrize(("name", "file", "options"), FORMS)
def test_each_form_becomes_float(name: str, file: str, options: dict[str, Any], tmp_path: Path) -> None:
    source = getattr(nets, name)()
    gp.save(gp.quantize(source, nets.samples(source), preset="fast", **options), tmp_path / file)
    made = gp.dequantize(tmp_path / file)
    assert not QUANTIZED & set(words(made))
    assert made.report is not None
    assert not made.report.kept
    x = nets.samples(source, 24, seed=3)
    if file.endswith(".tflite"):
        x = {key: array[:1] for key, array in x.items()}
    expected, found = gp.run(source, x).ordered[0], gp.run(made, list(x.values())).ordered[0]
    least = 18 if options.get("weight_bits") == 4 else 28
    assert nets.snr(expected, found) > least
    assert made.report.passed


def test_it_has_the_operators_of_the_float_model(tmp_path: Path) -> None:
    source = nets.residual()
    for form in ("qdq", "qoperator"):
        gp.save(gp.quantize(source, nets.samples(source), preset="fast", form=form), tmp_path / "q.onnx")
        made, kinds = gp.dequantize(tmp_path / "q.onnx"), ("Conv", "Relu", "MaxPool", "Gemm", "Add")
        assert {kind: words(made)[kind] for kind in kinds} == {kind: words(source)[kind] for kind in kinds}, form


def test_eight_bit_floats_are_removed() -> None:
    scale = np.array(0.05, np.float32)
    nodes = [
        node("Cast", ["x"], ["a"], to=17),
        node("Cast", ["a"], ["b"], to=1),
        node("QuantizeLinear", ["b", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    import ml_dtypes
    import onnx

    proto = model(nodes, [("x", [2, 3])], [("y", [2, 3])], {"s": scale}, opset=19)
    zero = onnx.helper.make_tensor("z", 17, [], np.zeros(1, ml_dtypes.float8_e4m3fn).tobytes(), raw=True)
    proto.graph.initializer.append(zero)
    assert dict(words(gp.dequantize(gp.from_onnx(proto)))) == {"Relu": 1}


def test_a_fake_quantization_of_other_levels_is_removed(tmp_path: Path) -> None:
    import openvino
    from openvino import opset13

    x = opset13.parameter([1, 4], np.float32, name="x")
    limits = [opset13.constant(np.array(value, np.float32)) for value in (-1.0, 1.0, -1.0, 1.0)]
    fake = opset13.fake_quantize(x, *limits, levels=31)
    graph = openvino.Model([opset13.relu(fake).output(0)], [x])  # pyright: ignore[reportGeneralTypeIssues]
    openvino.save_model(graph, tmp_path / "f.xml", compress_to_fp16=False)
    made = gp.dequantize(tmp_path / "f.xml")
    assert dict(words(made)) == {"Relu": 1}
    assert made.report is not None
    assert made.report.removed == {"FakeQuantize": 1}


def test_integers_that_other_operators_read_remain_and_are_named() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("Cast", ["q"], ["i"], to=6),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    outputs = [("y", [4]), typed("i", [4], 6)]
    constants = {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}
    source = gp.from_onnx(model(nodes, [("x", [4])], outputs, constants))
    made = gp.dequantize(source)
    assert made.report is not None
    assert made.report.kept == ("q",)
    x = np.array([-0.2, 0.1, 1.0, 2.0], np.float32)
    assert np.array_equal(gp.run(source, {"x": x})["i"], gp.run(made, {"x": x})["i"])


def test_a_float_model_is_refused() -> None:
    with pytest.raises(gp.DiagnosticError, match="no quantized operators"):
        gp.dequantize(nets.residual())


def test_the_command_writes_and_proves(tmp_path: Path) -> None:
    source = nets.residual()
    gp.save(gp.quantize(source, nets.samples(source), preset="fast"), tmp_path / "q.onnx")
    np.savez(tmp_path / "x.npz", **nets.samples(source, 8))
    arguments = ["dequantize", tmp_path / "q.onnx", tmp_path / "f.xml", "--calibration", tmp_path / "x.npz", "--json"]
    result = CliRunner().invoke(cli, [str(op_type) for op_type in arguments])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] in ("verified", "consistent")
    assert document["removed"]["QuantizeLinear"] > 0
    assert document["samples"] == 8
    assert document["snr_db"] > 15


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_dequantize_removes_all_quantization_from_random_networks(data: st.DataObject) -> None:
    """Chains of convolutions, activations, moves and pools in every form: nothing is left, and the signal is kept."""
    r = np.random.default_rng(data.draw(st.integers(0, 999)))
    kinds = st.sampled_from(["Conv", "Relu", "MaxPool", "Transpose", "Sigmoid", "Concat", "Add"])
    value, nodes, channels = "x", [], 4
    constants: dict[str, np.ndarray] = {}
    for i, kind in enumerate(["Conv", *data.draw(st.lists(kinds, min_size=1, max_size=6)), "Conv"]):
        result = f"v{i}"
        match kind:
            case "Conv":
                constants[f"w{i}"] = (r.normal(size=(4, channels, 1, 1)) / np.sqrt(channels)).astype(np.float32)
                nodes.append(node("Conv", [value, f"w{i}"], [result]))
                channels = 4
            case "MaxPool":
                nodes.append(node("MaxPool", [value], [result], kernel_shape=[2, 2]))
            case "Transpose":
                nodes.append(node("Transpose", [value], [result], perm=[0, 1, 3, 2]))
            case "Concat":
                nodes.append(node("Concat", [value, value], [result], axis=1))
                channels *= 2
            case "Add":
                nodes.append(node("Add", [value, value], [result]))
            case _:
                nodes.append(node(kind, [value], [result]))
        value = result
    source = gp.from_onnx(model(nodes, [("x", ["N", 4, 12, 12])], [(value, None)], constants))
    form = data.draw(st.sampled_from(["qdq", "qoperator"]))
    made = gp.dequantize(gp.quantize(source, nets.samples(source, 16), preset="fast", form=form))
    assert not QUANTIZED & set(words(made))
    x = nets.samples(source, 8, seed=5)
    assert nets.snr(gp.run(source, x)[value], gp.run(made, x)[value]) > 25

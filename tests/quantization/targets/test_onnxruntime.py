"""ONNX Runtime: integer kernels compute the results that quantized graphs define."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import graphport as gp
from graphport.formats.onnx import runtime as backend
from graphport.quantization import processor
from graphport.quantization.choices import Choices
from graphport.quantization.engine import session
from graphport.quantization.settings import Settings
from tests.draws import spread
from tests.every import every
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.targets.pieces import OPERATORS, between, check, operator, pieces, quantized, weight

KERNELS = {
    "Conv": "QLinearConv", "Conv, depthwise": "QLinearConv", "Conv, grouped": "QLinearConv", "Add": "QLinearAdd",
    "Mul": "QLinearMul", "Concat": "QLinearConcat", "AveragePool": "QLinearAveragePool", "Gemm": "QGemm",
    "GlobalAveragePool": "QLinearGlobalAveragePool", "LeakyRelu": "QLinearLeakyRelu", "Sigmoid": "QLinearSigmoid",
    "MatMul": "QLinearMatMul", "SiLU": "QLinearSigmoid",
}  # fmt: skip


def _run(found, inputs):
    """Run with all optimizations and without a fallback backend."""
    return backend.prepare(found.graph).run(inputs)


def _operators(found, tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(gp.to_onnx(found).SerializeToString(), options, ["CPUExecutionProvider"])
    return [item.op_type for item in onnx.load(tmp_path / "optimized.onnx").graph.node]


@every("name", spread(list(OPERATORS)))
def test_operators_compute_the_specified_result(name):
    check(operator(name, "onnxruntime"), _run)


@pytest.mark.parametrize(("name", "kernel"), list(KERNELS.items()))
def test_operators_have_integer_kernels(name, kernel, tmp_path):
    assert kernel in _operators(operator(name, "onnxruntime"), tmp_path)


@pytest.mark.parametrize("name", ["Conv", "Relu", "ReLU6", "MaxPool", "Add", "Concat", "Transpose", "Reshape"])
def test_nodes_between_convolutions_are_integer(name, tmp_path):
    operators = _operators(operator(name, "onnxruntime"), tmp_path)
    assert not {"Conv", "Relu", "Clip", "Add", "FusedConv"} & set(operators)
    assert operators.count("QuantizeLinear") == 1
    assert operators.count("DequantizeLinear") <= 1


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm"])
def test_real_layers_between_integers_keep_their_weights(op, tmp_path):
    """The runtime rounds real weights by itself where values around them are rounded."""
    if op == "Gemm":
        nodes = [node("Gemm", ["x", "a"], ["h"]), node("Gemm", ["h", "b"], ["m"], name="real"),
                 node("Gemm", ["m", "c"], ["y"])]  # fmt: skip
        constants = {name: weight(8, 8, seed=i) for i, name in enumerate("abc")}
        found = gp.from_onnx(model(nodes, [("x", ["N", 8])], [("y", None)], constants))
    else:
        nodes = [node("Conv", ["x", "a"], ["h"]), node(op, ["h", "b"], ["m"], name="real"),
                 node("Conv", ["m", "c"], ["y"])]  # fmt: skip
        constants = {name: weight(8, 8, 3, 3, seed=i) for i, name in enumerate("abc")}
        found = gp.from_onnx(model(nodes, [("x", ["N", 8, 12, 12])], [("y", None)], constants))
    made = quantized(found, "onnxruntime", float_nodes=("real",))
    x = nets.samples(found, 4, seed=5)
    plain, optimized = (session(made.graph, optimize=flag).run(x)["y"] for flag in (False, True))
    assert nets.snr(plain, optimized) > 60
    if op != "Gemm":
        assert op in _operators(made, tmp_path)


def test_a_softmax_between_integers_stays_real(tmp_path):
    """Its integer kernel is off by a step in one element of twenty."""
    assert "QLinearSoftmax" not in _operators(operator("Softmax", "onnxruntime"), tmp_path)


@pytest.mark.parametrize(("flags", "machine", "reach"), [
    pytest.param({"avx2"}, "x86_64", "pairs", id="pairs of bytes overflow"),
    pytest.param({"avx2", "avx512f", "avx512bw"}, "x86_64", "pairs", id="wider ones, too"),
    pytest.param({"avx2", "avx512f", "avx512_vnni"}, "x86_64", "full", id="dot products"),
    pytest.param({"avx2", "avx_vnni"}, "AMD64", "full", id="dot products of another kind"),
    pytest.param({"amx_int8"}, "x86_64", "full", id="matrices"),
    pytest.param(set(), "x86_64", "pairs", id="nothing is told"),
    pytest.param({"asimddp"}, "aarch64", "full", id="another family"),
])  # fmt: skip
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_the_range_of_weights_is_right_on_the_processors_that_are_named(monkeypatch, flags, machine, reach, target):
    """The default supports all processors, not only this one."""
    monkeypatch.setattr(processor, "flags", lambda: frozenset(flags))
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    assert Choices.of(Settings(target=target)).reach == "pairs"
    assert Choices.of(Settings(target=target, processor="dot-products")).reach == "full"
    assert Choices.of(Settings(target=target, processor="this")).reach == reach
    assert Choices.of(Settings(target=target, weight_range="reduced")).reach == "reduced"


def test_targets_that_do_not_add_in_pairs_have_the_full_range():
    assert {Choices.of(Settings(target=name)).reach for name in ("ncnn", "tensorrt", "nnef")} == {"full"}


def test_the_report_reports_the_processor():
    found = nets.depthwise()
    document = gp.quantize(found, nets.samples(found), preset="fast").report.as_json()
    assert document["processor"] == processor.description()


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 7, 16, 33])
def test_the_largest_weights_and_inputs_do_not_overflow(channels):
    """Every weight and input is at its limit and of one sign: only a reduced range avoids overflow."""
    w = np.ones((4, channels, 3, 3), np.float32)
    w[1] *= -1
    w[2] *= np.linspace(0.1, 1, w[2].size).reshape(w[2].shape)
    found = gp.from_onnx(
        model([node("Conv", ["x", "w"], ["y"])], [("x", ["N", channels, 6, 6])], [("y", None)], {"w": w})
    )
    x = np.abs(nets.samples(found, 24)["x"])
    made = gp.quantize(found, {"x": x}, preset="fast", weight_range="pairs")
    for piece in pieces(made):
        (largest,) = piece.inputs().values()
        inputs = {piece.graph.inputs[0].name: np.full_like(largest, largest.max())}
        (expected,) = session(piece.graph, optimize=False).run(inputs).values()
        (given,) = _run(gp.Model(piece.graph), inputs).values()
        assert np.abs(expected - given).max() <= (piece.step or np.abs(expected).max() / 255) * 1.01


@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
def test_whole_models_compute_the_specified_result(name):
    found = getattr(nets, name)()
    made = gp.quantize(found, nets.samples(found, 48), preset="fast")
    x = nets.samples(found, 32, seed=5)
    expected = gp.run(found, x)["y"]
    said, computed = session(made.graph, optimize=False).run(x)["y"], _run(made, x)["y"]
    assert nets.snr(said, computed) > nets.snr(expected, said) + 10


POOLS = {
    "dilations": {"kernel_shape": [2, 2], "dilations": [2, 2]},
    "windows that hang over what is padded": {
        "kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1,
    },
    "windows that hang over": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "padding that counts": {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", list(POOLS))
def test_averages_that_the_integer_kernel_does_not_know_stay_real(name, tmp_path):
    """With dilations it does not load, and it divides by the window size including the part beyond the padding."""
    found = between(node("AveragePool", ["h"], ["m"], **POOLS[name]), opset=19)
    made = quantized(found, "onnxruntime")
    check(made, _run)
    x = nets.samples(found, 2, seed=4)
    said, computed = session(made.graph, optimize=False).run(x)["y"], _run(made, x)["y"]
    assert nets.snr(said, computed) > 60
    is_known = name in ("windows that hang over", "padding that counts")
    assert ("QLinearAveragePool" in _operators(made, tmp_path)) == is_known


@pytest.mark.parametrize("moved", [
    node("Transpose", ["h2"], ["k"], perm=[0, 1, 3, 2]),
    node("Reshape", ["h2", "shape"], ["k"]),
    node("MaxPool", ["h2"], ["k"], kernel_shape=[1, 1]),
], ids=lambda item: item.op_type)  # fmt: skip
def test_signed_bytes_that_are_moved_for_a_real_reader_load(moved):
    """The runtime moves int8 values without a dequantization, and reads them as uint8."""
    found = between(moved, node("MatMul", ["h", "k"], ["m"]), shape=np.asarray([0, 8, 10, 10]), w9=weight(6, 8, 1, 1))
    made = quantized(found, "onnxruntime", symmetric=True, activation_type="int8")
    x = nets.samples(found, 2, seed=4)
    said, computed = session(made.graph, optimize=False).run(x)["y"], _run(made, x)["y"]
    assert nets.snr(said, computed) > 60


def test_pixels_that_are_repeated_stay_integers(tmp_path):
    made = operator("Resize", "onnxruntime")
    assert _operators(made, tmp_path).count("QuantizeLinear") == 1
    scales = [item.operands[1].storage.numpy() for item in made.graph if item.op == "QuantizeLinear"]
    assert scales[1] == scales[2]


@pytest.mark.parametrize("target", ["onnxruntime", "nnef"])
def test_linear_resize_gets_separate_qparams(target):
    made = operator("Resize, linear", target)
    scales = [item.operands[1].storage.numpy() for item in made.graph if item.op == "QuantizeLinear"]
    assert scales[1] != scales[2]

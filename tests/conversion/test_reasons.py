"""Why a node has no canonical form is said again by whoever refuses it."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.models import model as onnx_model
from tests.models import node

TEXT = """7767517
4 3
pnnx.Input              in    0 1 0 #0=(1,2,4000,3)f32
nn.AdaptiveAvgPool2d    pool  1 1 0 1 output_size=(3000,1)
F.relu                  relu  1 1 1 2
pnnx.Output             out   1 0 2
"""
REASON = "adaptive pooling to 3000, 1 windows"


def model(folder, text: str = TEXT) -> gp.Model:
    (folder / "m.pnnx.param").write_text(text)
    return gp.load(folder / "m.pnnx.param")


@pytest.mark.parametrize("format", ["onnx", "openvino", "nnef", "ncnn", "tflite"])
def test_writers_report_the_reason(tmp_path, format):
    for loaded in (model(tmp_path), gp.simplify(model(tmp_path), verify=False)[0]):
        with pytest.raises(DiagnosticError, match=REASON):
            gp.save(loaded, tmp_path / "out", format=format)


@pytest.mark.parametrize("backend", ["reference", "onnxruntime", "openvino"])
def test_backends_report_the_reason(tmp_path, backend):
    with pytest.raises(DiagnosticError, match=REASON):
        gp.run(model(tmp_path), {}, backend=backend)


def test_each_reason_is_reported_once(tmp_path):
    text = TEXT.replace("4 3", "5 4").replace(
        "F.relu                  relu  1 1 1 2",
        "nn.AdaptiveAvgPool2d    pool2 1 1 0 3 output_size=(3000,1)\nF.relu relu 1 1 1 2",
    )
    with pytest.raises(DiagnosticError) as caught:
        gp.save(model(tmp_path, text), tmp_path / "out.onnx")
    (finding,) = caught.value.diagnostics
    assert finding.message.startswith("2 nodes pnnx.nn.AdaptiveAvgPool2d")
    assert finding.message.count(REASON) == 1


def test_remedy_names_the_cut_before_the_unsupported_node(tmp_path):
    nodes = [node("Relu", ["x"], ["h"]), node("NonZero", ["h"], ["y"])]
    loaded = gp.from_onnx(onnx_model(nodes, [("x", [1, 3])], [("y", None, TensorProto.INT64)], opset=17))
    with pytest.raises(DiagnosticError) as caught:
        gp.save(loaded, tmp_path / "net.ncnn.param")
    (finding,) = caught.value.diagnostics
    assert (finding.help or "").endswith("graphport cut MODEL PART --to h")


def quantized():
    """A quantized product, for which PNNX has no operators, of an input with an open dim."""
    constants = {"scale": np.array(0.05, np.float32), "zero": np.array(0, np.int8), "wq": np.ones((6, 4), np.int8)}
    nodes = [
        node("DequantizeLinear", ["wq", "scale", "zero"], ["w"]),
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["h"]),
        node("MatMul", ["h", "w"], ["y"]),
    ]
    return onnx_model(nodes, [("x", ["N", 6])], [("y", ["N", 4])], constants, opset=17)


def chosen_by_data():
    nodes = [node("Relu", ["x"], ["h"]), node("NonZero", ["h"], ["y"])]
    return onnx_model(nodes, [("x", ["N", 3])], [("y", None, TensorProto.INT64)], opset=17)


def strided():
    weight = {"w": np.ones((2, 3, 3, 3), np.float32)}
    nodes = [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])]
    return onnx_model(nodes, [("x", ["N", 3, "H", "W"])], [("y", ["N", 2, "K", "L"])], weight, opset=17)


def unsupported(loaded, folder, format):
    """The remedy of each refusal, by its operator and reason without shapes."""
    try:
        gp.save(loaded, folder / "out", format=format)
    except DiagnosticError as error:
        return {re.sub(r"\[[^\]]*\]", "[]", finding.message): finding.help or "" for finding in error.diagnostics}
    return {}


def replay(proto, folder, help, format):
    """Follow a remedy; return the refusals that remain or are new."""
    if cut := re.search(r"graphport cut MODEL PART --to (\S+)", help):
        return unsupported(gp.cut(gp.from_onnx(proto), outputs=cut[1].split(",")), folder, format)
    bound = {name: list(map(int, dims.split("x"))) for name, dims in re.findall(r"--input (\S+)=([0-9x]+)", help)}
    onnx.save(proto, folder / "m.onnx")
    return unsupported(gp.load(folder / "m.onnx", shapes=bound), folder, format)


def test_a_remedy_removes_the_refusal(tmp_path):
    for proto in (quantized(), chosen_by_data(), strided()):
        for format in ("pnnx", "ncnn", "nnef", "tflite", "caffe", "pt2"):
            for refusal, help in unsupported(gp.from_onnx(proto), tmp_path, format).items():
                if "graphport cut" in help or help.startswith("bind"):
                    assert refusal not in replay(proto, tmp_path, help, format), (format, refusal, help)


def test_a_remedy_names_no_constant_and_no_binding_without_effect(tmp_path):
    assert set(unsupported(gp.from_onnx(quantized()), tmp_path, "pnnx").values()) == {
        "graphport dequantize converts the model back to float; or choose another format"
    }

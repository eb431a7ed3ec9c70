"""Models that other tools quantized: read, converted, and refused where they would be quantized again."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.targets.pieces import weight

NETS = ["residual", "depthwise", "products"]
DATA = Path(__file__).parent / "data"
NNCF = {"nncf": (3, 8, 8), "nncf_weights": (6, 16)}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Makes models with ONNX Runtime's own tool, each once."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    made = {}
    # The tool advises on the root logger.
    logging.disable(logging.WARNING)

    class Reader(CalibrationDataReader):
        def __init__(self, x):
            self._items = iter([{"x": x[i : i + 4]} for i in range(0, len(x), 4)])

        def get_next(self):
            return next(self._items, None)

    def make(name, form, types="u8s8", *, per_channel=True):
        key = name, form, types, per_channel
        if key not in made:
            place = tmp_path_factory.mktemp("theirs")
            found = getattr(nets, name)()
            gp.save(found, place / "real.onnx")
            kinds = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
            quantize_static(
                str(place / "real.onnx"),
                str(place / "theirs.onnx"),
                Reader(nets.samples(found, 16)["x"]),
                quant_format=getattr(QuantFormat, form),
                activation_type=kinds[types[:2]],
                weight_type=kinds[types[2:]],
                per_channel=per_channel,
                # Else pairs of products overflow on processors without dot products, and they differ from what is said.
                reduce_range=types == "u8s8",
            )
            made[key] = place / "theirs.onnx"
        return made[key]

    yield make
    logging.disable(logging.NOTSET)


def _theirs(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("types", ["u8s8", "s8s8", "u8u8"])
@pytest.mark.parametrize("name", NETS)
def test_models_quantized_by_onnxruntime_keep_their_results(theirs, name, form, types, tmp_path):
    path = theirs(name, form, types, per_channel=types != "u8u8")
    found = gp.load(path)
    x = nets.samples(getattr(nets, name)(), 3, seed=7)["x"]
    expected = _theirs(path, x)
    (given,) = gp.run(found, {"x": x}, backend="reference").values()
    assert nets.snr(expected, given) > 60
    gp.save(found, tmp_path / "again.onnx")
    assert nets.snr(expected, _theirs(tmp_path / "again.onnx", x)) > 60


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", NETS)
def test_models_quantized_by_onnxruntime_convert_to_openvino(theirs, name, form, tmp_path):
    path = theirs(name, form)
    gp.save(gp.load(path), tmp_path / "model.xml")
    x = nets.samples(getattr(nets, name)(), 3, seed=7)["x"]
    (given,) = gp.run(gp.load(tmp_path / "model.xml"), {"x": x}, backend="openvino").values()
    assert nets.snr(_theirs(path, x), given) > 35


@pytest.mark.parametrize("name", NETS)
def test_models_quantized_by_onnxruntime_convert_to_nnef(theirs, name, tmp_path):
    """With every scale in the file of quantizations."""
    path = theirs(name, "QDQ")
    x = nets.samples(getattr(nets, name)(), 1, seed=7)["x"]
    gp.save(gp.load(path, shapes={"x": x.shape}), tmp_path / "model", format="nnef", flavour="khronos")
    assert "zero_point_linear_quantize" in (tmp_path / "model" / "graph.quant").read_text()
    (given,) = gp.run(gp.load(tmp_path / "model"), {"x": x}, backend="reference").values()
    assert nets.snr(_theirs(path, x), given) > 60


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_operators_without_ncnn_layer_are_reported(theirs, form, tmp_path):
    with pytest.raises(gp.DiagnosticError, match="LEG0002"):
        gp.save(gp.load(theirs("residual", form)), tmp_path / "model.param")
    assert not (tmp_path / "model.param").exists()


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "ncnn"])
def test_onnxruntime_s_models_are_not_quantized_again(theirs, name, form, target):
    found = gp.load(theirs(name, form))
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0006.*quantize the float model"):
        gp.quantize(found, nets.samples(getattr(nets, name)(), 8), target, preset="fast")


def test_layers_of_ncnn_are_not_quantized_again(tmp_path):
    found = nets.residual()
    gp.save(gp.quantize(found, nets.samples(found), "ncnn", preset="fast"), tmp_path / "net.param")
    again = gp.load(tmp_path / "net.param")
    with pytest.raises(gp.DiagnosticError, match="QUANT0006"):
        gp.quantize(again, {name: nets.samples(found, 4)["x"] for name in again.inputs}, "ncnn", preset="fast")


def test_openvino_s_fake_quantization_is_not_quantized_again(tmp_path):
    found = nets.residual()
    gp.save(gp.quantize(found, nets.samples(found), "openvino", preset="fast"), tmp_path / "net.xml")
    with pytest.raises(gp.DiagnosticError, match="QUANT0006"):
        gp.quantize(gp.load(tmp_path / "net.xml"), nets.samples(found, 4), "openvino", preset="fast")


def test_nnef_s_file_of_quantizations_is_not_quantized_again(tmp_path):
    found = nets.residual(batch=1)
    data = {"x": nets.samples(nets.residual(), 8)["x"]}
    gp.save(gp.quantize(found, data, "nnef", preset="fast"), tmp_path / "net", format="nnef")
    with pytest.raises(gp.DiagnosticError, match="QUANT0006"):
        gp.quantize(gp.load(tmp_path / "net"), data, preset="fast")


def test_activations_in_the_style_of_tflite_are_read(tmp_path):
    """Zero points off the middle, biases of int32, an activation said by limits: per tensor, and per channel for weights."""
    r = np.random.default_rng(0)
    w = np.clip(np.rint(weight(4, 3, 3, 3) * 100), -127, 127).astype(np.int8)
    scales = (np.full(4, 0.01) * [1, 2, 3, 4]).astype(np.float32)
    constants = {
        "s": np.float32(0.05), "z": np.int8(-3), "w": w, "ws": scales, "wz": np.zeros(4, np.int8),
        "b": r.integers(-900, 900, 4).astype(np.int32), "bs": (scales * 0.05).astype(np.float32),
        "o": np.float32(0.02), "oz": np.int8(-128),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        node("DequantizeLinear", ["b", "bs"], ["bd"], axis=0),
        node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1] * 4),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "o", "oz"], ["q"]),
        node("DequantizeLinear", ["q", "o", "oz"], ["y"]),
    ]
    found = gp.from_onnx(model(nodes, [("x", [1, 3, 6, 6])], [("y", None)], constants))
    gp.save(found, tmp_path / "in.onnx")
    x = r.normal(size=(1, 3, 6, 6)).astype(np.float32)
    expected = _theirs(tmp_path / "in.onnx", x)
    for place, format in (("net.xml", "openvino"), ("net", "nnef"), ("net.graphport", "archive")):
        gp.save(found, tmp_path / place, format=format)
        (given,) = gp.run(gp.load(tmp_path / place), {"x": x}, backend="reference").values()
        assert np.abs(given - expected).max() <= 0.0201
        assert np.mean(np.abs(given - expected) > 0.01) < 0.01
    with pytest.raises(gp.DiagnosticError, match="QUANT0006"):
        gp.quantize(found, {"x": x}, preset="fast")


def _as_written(path, x):
    """What OpenVINO computes without its kernels for integers, which overflow in pairs on some processors."""
    import openvino

    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "LP_TRANSFORMS_MODE": "NO",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        "INFERENCE_NUM_THREADS": 1,
    }
    return openvino.Core().compile_model(str(path), "CPU", options)([x])[0]


@pytest.mark.parametrize("name", list(NNCF))
def test_models_quantized_by_nncf_keep_their_results(name, tmp_path):
    path = DATA / f"{name}.xml"
    found = gp.load(path)
    x = np.random.default_rng(3).normal(size=(4, *NNCF[name])).astype(np.float32)
    expected = _as_written(path, x)
    (given,) = gp.run(found, dict.fromkeys(found.inputs, x), backend="reference").values()
    assert nets.snr(expected, given) > 100
    gp.save(found, tmp_path / "again.xml")
    assert nets.snr(expected, _as_written(tmp_path / "again.xml", x)) > 100


@pytest.mark.parametrize("name", list(NNCF))
def test_models_quantized_by_nncf_convert_to_nnef(name, tmp_path):
    """Compressed weights stay as small as they are."""
    shape = (1, *NNCF[name])
    found = gp.load(DATA / f"{name}.xml", shapes={"x": shape})
    gp.save(found, tmp_path / "model", format="nnef", flavour="khronos")
    said = (tmp_path / "model" / "graph.quant").read_text()
    assert said.count("zero_point_linear_quantize") == {"nncf": 8, "nncf_weights": 2}[name]
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    (given,) = gp.run(gp.load(tmp_path / "model"), {"x": x}, backend="reference").values()
    assert nets.snr(_as_written(DATA / f"{name}.xml", x).reshape(given.shape), given) > 60


@pytest.mark.parametrize("name", list(NNCF))
def test_nncf_s_models_are_not_quantized_again(name):
    found = gp.load(DATA / f"{name}.xml")
    x = np.zeros((8, *NNCF[name]), np.float32)
    with pytest.raises(gp.DiagnosticError, match="QUANT0006"):
        gp.quantize(found, dict.fromkeys(found.inputs, x), "openvino", preset="fast")

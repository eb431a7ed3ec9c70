"""Activations of 16 bits: of single layers where a target mixes widths, of all where it has one width at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from tests.models import model, node
from tests.quantization import nets


def _spiked(seed=0):
    """A product that reads many small numbers beside a large one, and one that does not."""
    r = np.random.default_rng(seed)
    constants = {"gain": np.r_[np.full(1, 300.0), np.ones(31)].astype(np.float32)}
    constants |= {
        "w": (r.normal(size=(32, 64)) / 6).astype(np.float32),
        "v": r.normal(size=(64, 48)).astype(np.float32),
    }
    constants["w"][0] /= 300
    nodes = [
        node("Tanh", ["x"], ["t"], name="bend"),
        node("Mul", ["t", "gain"], ["s"], name="spike"),
        node("MatMul", ["s", "w"], ["h"], name="first"),
        node("Relu", ["h"], ["a"], name="act"),
        node("MatMul", ["a", "v"], ["y"], name="second"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 32])], [("y", ["N", 48])], constants))


def _widths(made):
    """The element type that the activation of each layer is rounded to."""
    found = {}
    for each in made.graph:
        source = each.operands[0].producer if each.op in ("MatMul", "Conv", "Gemm") else None
        if source is not None and source.op == "DequantizeLinear":
            found[each.name] = source.operands[0].fact.dtype
    return found


@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_a_layer_with_16_bits_is_nearer_and_its_runtime_computes_it(target, tmp_path):
    found = _spiked()
    data, settings = nets.samples(found, 48), {"preset": "fast", "cheap_layers": False, "equalize": False}
    narrow = gp.quantize(found, data, target, **settings)
    wide = gp.quantize(found, data, target, wide_nodes=("first",), **settings)
    assert {name: dtype.bits for name, dtype in _widths(wide).items()} == {"first": 16, "second": 8}
    codes = [
        e.operands[0].storage.dtype for e in wide.graph if e.op == "DequantizeLinear" and e.operands[0].is_constant
    ]
    assert set(codes) <= {DType.INT8, DType.INT32}
    x = nets.samples(found, 16, seed=9)
    real, said, told = (gp.run(each, x, backend="reference")["y"] for each in (found, narrow, wide))
    assert nets.snr(real, told) > nets.snr(real, said) + 6
    path = tmp_path / ("m.xml" if target == "openvino" else "m.onnx")
    gp.save(wide, path)
    theirs = gp.run(gp.load(path), x, backend=target)["y"]
    assert nets.snr(told, theirs) > nets.snr(real, told) + 10


def test_front_contains_16_bit_activations_if_useful():
    found = _spiked()
    made = gp.quantize(found, nets.samples(found, 48), preset="fast", front=True)
    tried = [point for point in made.report.front if any("activations uint16" in key for key in point.layers)]
    assert tried
    whole = max(made.report.front, key=lambda point: point.snr_db)
    assert min(point.bytes for point in tried) < whole.bytes


def test_integer_only_target_has_no_float_points():
    front = gp.quantize(
        nets.residual(), nets.samples(nets.residual(), 48), "qnn", preset="fast", front=True
    ).report.front
    assert not any("float32" in point.layers for point in front)
    assert any("activations" in name for point in front for name in point.layers)


def test_integer_only_goal_is_met_by_16_bit_activations():
    found = _spiked()
    settings = {"preset": "fast", "full_integer": True, "equalize": False}
    narrow = gp.quantize(found, nets.samples(found, 48), "tflite", **settings)
    wide = gp.quantize(found, nets.samples(found, 48), "tflite", min_snr=narrow.report.snr_db + 5, **settings)
    assert set(_widths(narrow).values()) == {DType.INT8}
    assert set(_widths(wide).values()) == {DType.INT16}
    assert wide.report.goal_met
    assert wide.report.snr_db > narrow.report.snr_db + 5


def test_qnn_encodings_contain_16_bit_layers_for_a_goal(tmp_path):
    found = _spiked()
    data = nets.samples(found, 48)
    narrow = gp.quantize(found, data, "qnn", preset="fast", equalize=False)
    wide = gp.quantize(found, data, "qnn", preset="fast", equalize=False, min_snr=narrow.report.snr_db + 5)
    assert wide.report.snr_db > narrow.report.snr_db + 4
    gp.save(wide, tmp_path / "m.onnx")
    told = json.loads((tmp_path / "m.encodings").read_text())["activation_encodings"]
    assert told["s"][0]["bitwidth"] == 16
    assert {each[0]["bitwidth"] for each in told.values()} == {8, 16}
    assert {layer.name for layer in wide.report.layers if layer.is_quantized} == {"first", "second"}


@pytest.mark.parametrize(
    ("target", "changes", "said"),
    [
        ("tflite", {}, "QUANT0004.*tflite does not support 16-bit activations of single layers.*--bits 16"),
        ("ncnn", {}, "QUANT0004.*ncnn does not support 16-bit activations of single layers"),
        ("onnxruntime", {"weights_only": True}, "QUANT0004"),
        ("onnxruntime", {"wide_nodes": ("frist",)}, "QUANT0010.*'frist'"),
    ],
)
def test_targets_without_mixed_precision_reject_wide_nodes(target, changes, said):
    found = _spiked()
    with pytest.raises(gp.DiagnosticError, match=f"(?s){said}"):
        gp.quantize(found, nets.samples(found), target, **{"preset": "fast", "wide_nodes": ("first",), **changes})

"""Texts of grids beside a real model: they say what the rounded graph does, of tensors that the model has."""

from __future__ import annotations

import json
import re
import struct

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.quantization.encodings import encodings_of
from tests.quantization import nets

FORMS = {"tensorrt-cache": ".cache", "qnn": ".encodings", "rknn": ".quantization.cfg", "mnn": ".mnn.json"}


@pytest.fixture(scope="module", params=FORMS)
def written(request, tmp_path_factory):
    """A net quantized for one of the tools: its target, the result, the real model, the text."""
    place = tmp_path_factory.mktemp(request.param) / "net.onnx"
    made = gp.quantize(nets.residual(), nets.samples(nets.residual(), 48), request.param, preset="fast")
    gp.save(made, place)
    return request.param, made, onnx.load(place), place.with_suffix(FORMS[request.param]).read_text()


def _tensors(proto):
    results = {name for node in proto.graph.node for name in node.output}
    return results | {value.name for value in proto.graph.input} | {t.name for t in proto.graph.initializer}


def test_the_model_next_to_is_real_and_near(written):
    _, made, proto, _ = written
    assert not {node.op_type for node in proto.graph.node} & {"QuantizeLinear", "DequantizeLinear", "Cast"}
    x = nets.samples(nets.residual(), 32, seed=5)
    y = np.asarray(onnxruntime.InferenceSession(proto.SerializeToString()).run(None, x)[0])
    # Only weights are rounded in it.
    assert nets.snr(gp.run(nets.residual(), x)["y"], y) > made.report.snr_db - 1


def test_encodings_name_tensors_of_the_model(written):
    target, made, proto, text = written
    told = encodings_of(made.graph)
    assert told.activations
    assert set(told.activations) <= _tensors(proto)
    assert set(told.weights) <= {t.name for t in proto.graph.initializer}
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    for name, steps in told.weights.items():
        scale = steps.scale if steps.scale.ndim == 0 else steps.scale.reshape(-1, *[1] * (stored[name].ndim - 1))
        codes = stored[name] / (scale if stored[name].shape[0] == np.size(scale) else np.moveaxis(scale, 0, -1))
        np.testing.assert_allclose(codes, np.rint(codes), atol=1e-3)
        assert np.abs(codes).max() <= 128
    if target == "mnn":
        keys = [key.rsplit(" ", 1) for key in json.loads(text)]
        assert {name for name, _ in keys} <= _tensors(proto)
        assert {end for _, end in keys} == {"input_tensor_0", "output_tensor_0"}
    else:
        assert all(name in text for name in told.activations)


def test_tensorrt_cache_stores_scales_as_float_bits():
    made = gp.quantize(nets.residual(), nets.samples(nets.residual(), 48), "tensorrt-cache", preset="fast")
    from graphport.quantization.encodings import text_of

    first, *lines = text_of("tensorrt", made.graph).splitlines()
    assert re.fullmatch(r"TRT-\d+-EntropyCalibration2", first)
    told = encodings_of(made.graph).activations
    found = dict(line.rsplit(": ", 1) for line in lines)
    assert set(found) == set(told)
    for name, digits in found.items():
        (scale,) = struct.unpack(">f", bytes.fromhex(digits))
        assert scale == np.float32(told[name].scale)
        assert not told[name].zero.any()


def test_the_example_of_tensorrts_documentation_is_stated_in_the_same_digits():
    assert struct.pack(">f", np.float32(0.007813)).hex().startswith("3c00")
    assert struct.unpack(">f", bytes.fromhex("3c92aa10"))[0] == pytest.approx(0.0179033577, rel=1e-6)


def test_limits_of_qnn_are_those_of_the_codes():
    made = gp.quantize(nets.residual(), nets.samples(nets.residual(), 48), "qnn", preset="fast")
    from graphport.quantization.encodings import text_of

    stated = json.loads(text_of("qnn", made.graph))
    told = encodings_of(made.graph)
    assert set(stated["activation_encodings"]) == set(told.activations)
    assert set(stated["param_encodings"]) == set(told.weights)
    for entries in [*stated["activation_encodings"].values(), *stated["param_encodings"].values()]:
        for entry in entries:
            # The tool reads: a real number is scale * (code + offset), codes from 0.
            most = 2 ** entry["bitwidth"] - 1
            assert entry["min"] == pytest.approx(entry["scale"] * entry["offset"])
            assert entry["max"] == pytest.approx(entry["scale"] * (most + entry["offset"]))
    assert len(stated["param_encodings"]["w1"]) == 8
    assert all(entry["offset"] == -128 for entry in stated["param_encodings"]["w1"])


def test_layers_that_stay_real_are_reported_to_rknn():
    x = nets.samples(nets.residual(), 48)
    made = gp.quantize(nets.residual(), x, "rknn", preset="fast", float_nodes=("second",))
    from graphport.quantization.encodings import text_of

    text = text_of("rknn", made.graph)
    assert text.startswith('custom_quantize_layers:\n    "c": float16\nquantize_parameters:\n')
    assert "        zero_point: [-128]\n" in text
    assert "custom_quantize_layers: {}" in text_of("rknn", gp.quantize(nets.residual(), x, "rknn").graph)


def test_the_command_writes_both_files(tmp_path):
    source, samples = tmp_path / "net.onnx", tmp_path / "x.npz"
    gp.save(nets.residual(), source)
    np.savez(samples, **nets.samples(nets.residual(), 32))
    target = tmp_path / "out.onnx"
    line = ["quantize", str(source), str(target), "--calibration", str(samples), "--target", "qnn", "--no-latency"]
    ended = CliRunner().invoke(cli, line)
    assert ended.exit_code == 0, ended.output
    assert target.exists()
    assert json.loads(target.with_suffix(".encodings").read_text())["version"] == "0.6.1"

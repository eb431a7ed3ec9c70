"""Models of float16 and bfloat16 are quantized as float32 models with the same interface."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import graphport as gp
from tests.models import model, node, typed
from tests.quantization import nets

KINDS = {
    "float16": (np.float16, TensorProto.FLOAT16),
    "bfloat16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
}


def _constants(**constants):
    r = np.random.default_rng(0)
    return {name: r.normal(size=shape) / np.sqrt(shape[0]) for name, shape in constants.items()}


def _model(nodes, inputs, outputs, constants, kind):
    """A model of opset 22 with constants of a narrow type; NumPy arrays of bfloat16 need raw bytes."""
    proto = model(nodes, inputs, outputs, {}, opset=22)
    dtype, number = KINDS[kind]
    for name, x in constants.items():
        proto.graph.initializer.append(helper.make_tensor(name, number, x.shape, x.astype(dtype).tobytes(), raw=True))
    return gp.from_onnx(proto)


def _classifier(kind):
    nodes = [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "v"], ["y"])]
    number = KINDS[kind][1]
    inputs, outputs = [typed("x", ["N", 32], number)], [typed("y", ["N", 8], number)]
    return _model(nodes, inputs, outputs, _constants(w=(32, 64), v=(64, 8)), kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "least"),
    [({}, 30), ({"weights_only": True}, 35), ({"weights_only": True, "weight_bits": 4}, 15)],
    ids=["samples", "8 bits of weights", "4 bits of weights"],
)
def test_narrow_models_are_quantized_with_their_interface(kind, settings, least, tmp_path):
    found = _classifier(kind)
    x = np.random.default_rng(1).normal(size=(32, 32)).astype(np.float32)
    made = gp.quantize(found, {"x": x}, preset="fast", **settings)
    assert [str(value.dtype) for value in (*made.graph.inputs, *made.graph.outputs)] == [kind, kind]
    assert "QUANT0035" in {finding.code for finding in made.report.findings}
    gp.save(made, tmp_path / "q.onnx")
    narrow = x.astype(KINDS[kind][0])
    expected = gp.run(gp.cast(found, "float32"), {"x": narrow.astype(np.float32)})["y"]
    result = gp.run(gp.load(tmp_path / "q.onnx"), {"x": narrow})["y"]
    assert result.dtype == KINDS[kind][0]
    measured = nets.snr(expected, result.astype(np.float32))
    assert measured > least
    # The report has the SNR of the worst channel.
    assert measured - 6 < made.report.snr_db < measured + 3


def test_weights_that_stay_float_keep_their_narrow_type(tmp_path):
    nodes = [node("Gather", ["e", "x"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    inputs, outputs = [typed("x", [1, "N"], TensorProto.INT64)], [typed("y", [1, "N", 64], TensorProto.FLOAT16)]
    found = _model(nodes, inputs, outputs, _constants(e=(500, 64), w=(64, 64)), "float16")
    gp.save(found, tmp_path / "half.onnx")
    gp.save(gp.quantize(found, weights_only=True, preset="fast"), tmp_path / "q.onnx")
    sizes = [(tmp_path / f"{name}.onnx").stat().st_size for name in ("half", "q")]
    assert sizes[1] < sizes[0]

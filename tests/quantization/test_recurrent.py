"""Weights of recurrent layers are stored as int8; ONNX Runtime computes LSTM on integers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import graphport as gp
from tests.models import model, node
from tests.quantization import nets

TIME, SIZE, HIDDEN = 7, 16, 32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _net(op, ways, **attributes):
    r = np.random.default_rng(3)
    rows = GATES[op] * HIDDEN
    direction = ("forward", "bidirectional")[ways - 1]
    constants = {
        "w": r.normal(size=(ways, rows, SIZE)).astype(np.float32) / 4,
        "r": r.normal(size=(ways, rows, HIDDEN)).astype(np.float32) / 6,
        "b": r.normal(size=(ways, 2 * rows)).astype(np.float32) / 4,
    }
    layer = node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=HIDDEN, direction=direction, **attributes)
    outputs = [("y", (TIME, ways, 1, HIDDEN)), ("h", (ways, 1, HIDDEN))]
    return gp.from_onnx(model([layer], [("x", (TIME, 1, SIZE))], outputs, constants))


def _compare(found, path):
    """The SNR of a file in ONNX Runtime, and of the file as it is read, in dB."""
    x = {"x": np.random.default_rng(5).normal(size=(TIME, 1, SIZE)).astype(np.float32)}
    expected = gp.run(found, x)["y"]
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return nets.snr(expected, runtime.run(["y"], x)[0]), nets.snr(
        expected, gp.run(gp.load(path), x, backend="reference")["y"]
    )


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("way", ["weights_only", "dynamic"])
def test_recurrent_weights_are_stored_as_int8(op, ways, way, tmp_path):
    found, path = _net(op, ways), str(tmp_path / "q.onnx")
    gp.save(found, tmp_path / "net.onnx")
    made = gp.quantize(found, preset="fast", **{way: True})
    gp.save(made, path)
    assert (tmp_path / "q.onnx").stat().st_size < 0.45 * (tmp_path / "net.onnx").stat().st_size
    assert [layer.operator for layer in made.report.layers if layer.is_quantized] == [op]
    in_runtime, as_read = _compare(found, path)
    assert min(in_runtime, as_read) > 25
    assert made.report.snr_db < in_runtime + 6
    op_types = {each.op_type for each in onnx.load(path).graph.node}
    assert ("DynamicQuantizeLSTM" in op_types) is (way == "dynamic" and op == "LSTM")


def test_lstm_named_float_keeps_its_weights(tmp_path):
    found = _net("LSTM", 1)
    with pytest.raises(gp.DiagnosticError, match=r"QUANT0007.*LSTM: the settings keep it"):
        gp.quantize(found, weights_only=True, preset="fast", float_nodes=["y"])

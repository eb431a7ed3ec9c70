"""Recurrent layers that ncnn and PyTorch have no layer for: their steps, computed by ncnn itself and read again."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.ncnn.rules.written import check
from tests.models import model, node

pytest.importorskip("ncnn")
pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(7)
WIDTH, HIDDEN = 6, 5
KINDS = {
    "RNN": [{"activations": ["Relu"]}, {"activations": ["Tanh"], "clip": 0.4}, {"activations": ["Softsign"]}],
    "GRU": [{"linear_before_reset": 0}, {"linear_before_reset": 1, "activations": ["HardSigmoid", "Tanh"]}],
    "LSTM": [{"input_forget": 1}, {"clip": 0.4}, {"p": True}],
}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def numbers(*shape):
    return (RANDOM.normal(size=shape) / 2).astype(np.float32)


def layer(kind, told, direction, has_state):
    """A node, its operands that are given, and its constants."""
    ways, gates = 1 + (direction == "bidirectional"), GATES[kind]
    told = {key: [*value] * ways if key == "activations" else value for key, value in told.items()}
    constants = {"w": numbers(ways, gates * HIDDEN, WIDTH), "r": numbers(ways, gates * HIDDEN, HIDDEN)}
    constants["b"] = numbers(ways, 2 * gates * HIDDEN)
    operands = ["x", "w", "r", "b", "", "h" if has_state else "", "", ""]
    if told.pop("p", False):
        constants["p"], operands[-1] = numbers(ways, 3 * HIDDEN), "p"
    operands = operands[: 8 if kind == "LSTM" else 6]
    results = ["y", "last"] if kind != "LSTM" or has_state else ["y", "last", "cell"]
    return helper.make_node(kind, operands, results, hidden_size=HIDDEN, direction=direction, **told), constants


def drawn(seed, count):
    draw = random.Random(seed)
    every = [(kind, told) for kind, choices in KINDS.items() for told in choices]
    for kind, told in [*every, *draw.choices(every, k=count - len(every))]:
        direction, has_state = draw.choice(["forward", "reverse", "bidirectional"]), draw.random() < 0.3
        made, constants = layer(kind, told, direction, has_state)
        steps = draw.randint(1, 5)
        given = {"x": numbers(steps, 1, WIDTH)}
        if has_state:
            given["h"] = numbers(2 if direction == "bidirectional" else 1, 1, HIDDEN)
        yield made, constants, given


def test_ncnn_computes_the_steps(tmp_path):
    for made, constants, given in drawn(1, 12):
        check(tmp_path, [made], given, constants)


@pytest.mark.parametrize("given", ["h", "c"])
def test_missing_initial_lstm_state_is_zero(tmp_path, given):
    constants = {"w": numbers(1, 4 * HIDDEN, WIDTH), "r": numbers(1, 4 * HIDDEN, HIDDEN)}
    operands = ["x", "w", "r", "", "", "h" if given == "h" else "", "c" if given == "c" else ""]
    made = helper.make_node("LSTM", operands, ["y", "last", "cell"], hidden_size=HIDDEN)
    check(tmp_path, [made], {"x": numbers(3, 1, WIDTH), given: numbers(1, 1, HIDDEN)}, constants)
    assert "\nLSTM " in (tmp_path / "net.param").read_text()


def test_op_types_of_pytorch_compute_the_steps(tmp_path):
    for made, constants, given in drawn(2, 12):
        shapes = [(name, list(array.shape)) for name, array in given.items()]
        loaded = gp.from_onnx(model([made], shapes, [(name, None) for name in made.output], constants))
        gp.save(loaded, tmp_path / "net.pnnx.param")
        expected = gp.run(loaded, given, backend="onnxruntime")
        found = gp.run(gp.load(tmp_path / "net.pnnx.param"), given, backend="reference")
        for name, array in zip(expected, found.values(), strict=True):
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6, err_msg=str(made))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", KINDS)
def test_modules_of_pytorch_take_sequences_of_any_length(tmp_path, kind, direction):
    told = {"RNN": {"activations": ["Relu"]}, "GRU": {"linear_before_reset": 1}, "LSTM": {}}[kind]
    made, constants = layer(kind, told, direction, has_state=False)
    outputs = [(name, None) for name in made.output]
    loaded = gp.from_onnx(model([made], [("x", ["s", "n", WIDTH])], outputs, constants))
    gp.save(loaded, tmp_path / "net.pnnx.param")
    assert f"nn.{kind} " in (tmp_path / "net.pnnx.param").read_text()
    again = gp.load(tmp_path / "net.pnnx.param")
    for x in (numbers(3, 2, WIDTH), numbers(4, 1, WIDTH)):
        expected = gp.run(loaded, {"x": x}, backend="onnxruntime")
        found = gp.run(again, dict(zip(again.inputs, [x], strict=True)), backend="reference")
        for name, array in zip(expected, found.values(), strict=True):
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", ["pnnx.param", "ncnn.param"])
def test_recurrent_layer_with_dynamic_length_is_rejected(tmp_path, suffix):
    made, constants = layer("GRU", {"linear_before_reset": 0}, "forward", has_state=False)
    made.input[0] = "t"
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), made]
    loaded = gp.from_onnx(model(nodes, [("x", [1, "s", WIDTH])], [("y", None)], constants))
    with pytest.raises(DiagnosticError) as caught:
        gp.save(loaded, tmp_path / f"net.{suffix}")
    (finding,) = caught.value.diagnostics
    assert "the layer resets the product, and this operator the state" in finding.message
    assert "must be known" in finding.message
    assert "--input x=1x" in (finding.help or "")


@pytest.mark.parametrize("format", ["ncnn", "tflite", "nnef", "pnnx"])
def test_constant_sequence_lengths_end_sequences_early(tmp_path, format):
    for kind, direction in [("LSTM", "bidirectional"), ("GRU", "reverse"), ("RNN", "forward")]:
        made, constants = layer(kind, {}, direction, False)
        made.input[4] = "lengths"
        given, lengths = numbers(4, 3, WIDTH), np.array([4, 1, 3], np.int32)
        results = [(name, None) for name in made.output]
        loaded = gp.from_onnx(model([made], [("x", [4, 3, WIDTH])], results, {**constants, "lengths": lengths}))
        name = {"ncnn": "net.ncnn.param", "tflite": "net.tflite", "nnef": "net.nnef.tgz", "pnnx": "net.pnnx.param"}[
            format
        ]
        gp.save(loaded, tmp_path / name)
        expected = gp.run(loaded, {"x": given}, backend="onnxruntime")
        found = gp.run(gp.load(tmp_path / name), {"x": given}, backend="reference")
        for one, other in zip(expected.ordered, found.ordered, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-5)


def test_lengths_that_are_inputs_are_refused(tmp_path):
    made, constants = layer("GRU", {}, "forward", False)
    made.input[4] = "lengths"
    lengths = helper.make_tensor_value_info("lengths", 6, [3])
    loaded = gp.from_onnx(
        model([made], [("x", [4, 3, WIDTH]), lengths], [(name, None) for name in made.output], constants)
    )
    with pytest.raises(DiagnosticError, match="sequence_lens is not constant"):
        gp.save(loaded, tmp_path / "net.tflite")

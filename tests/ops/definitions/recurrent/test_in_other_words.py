"""Recurrent layers said in PNNX and in ncnn compute what they compute in ONNX."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.formats.ncnn.test_layers import run_ncnn
from tests.models import model, node

RANDOM = np.random.default_rng(3)
TIME, SIZE, HIDDEN = 5, 4, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def numbers(*shape):
    return (RANDOM.normal(size=shape) * 0.4).astype(np.float32)


def net(op, direction, *, has_states, has_ends):
    """A layer on one sequence with its batch in front, as exporters write it."""
    gates, ways = GATES[op], DIRECTIONS[direction]
    constants = {"w": numbers(ways, gates * HIDDEN, SIZE), "r": numbers(ways, gates * HIDDEN, HIDDEN)}
    constants |= {"b": numbers(ways, 2 * gates * HIDDEN), "shape": np.array([1, TIME, ways * HIDDEN])}
    operands = ["t", "w", "r", "b"]
    if has_states:
        names = ["h", "c"] if op == "LSTM" else ["h"]
        constants |= {name: numbers(ways, 1, HIDDEN) for name in names}
        operands += ["", *names]
    options = {"linear_before_reset": 1} if op == "GRU" else {"activations": ["Tanh"] * ways} if op == "RNN" else {}
    results = ["a", "last"] if has_ends else ["a"]
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node(op, operands, results, hidden_size=HIDDEN, direction=direction, **options),
        node("Transpose", ["a"], ["q"], perm=[2, 0, 1, 3]),
        node("Reshape", ["q", "shape"], ["y"]),
    ]
    outputs = [("y", [1, TIME, ways * HIDDEN])]
    if has_ends:
        nodes.append(node("Transpose", ["last"], ["z"], perm=[1, 0, 2]))
        outputs.append(("z", [1, ways, HIDDEN]))
    return gp.from_onnx(model(nodes, [("x", [1, TIME, SIZE])], outputs, constants))


@pytest.mark.parametrize("has_ends", [False, True], ids=["", "with ends"])
@pytest.mark.parametrize("has_states", [False, True], ids=["", "with states"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_ncnn_computes_equal_results(tmp_path, op, direction, has_states, has_ends):
    ours = net(op, direction, has_states=has_states, has_ends=has_ends)
    x = numbers(1, TIME, SIZE)
    expected = gp.run(ours, {"x": x}, backend="onnxruntime")
    gp.save(ours, tmp_path / "net.ncnn.param")
    found = run_ncnn(tmp_path / "net.ncnn.param", {"x": x[0]}, list(expected))
    for name, array in expected.items():
        np.testing.assert_allclose(found[name].reshape(array.shape), array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("has_ends", [False, True], ids=["", "with ends"])
@pytest.mark.parametrize("has_states", [False, True], ids=["", "with states"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_recurrent_layers_round_trip_through_pnnx(tmp_path, op, direction, has_states, has_ends):
    ours = net(op, direction, has_states=has_states, has_ends=has_ends)
    gp.save(ours, tmp_path / "net.pnnx.param")
    assert f"nn.{op} " in (tmp_path / "net.pnnx.param").read_text()
    again, x = gp.load(tmp_path / "net.pnnx.param"), numbers(1, TIME, SIZE)
    expected, found = (gp.run(each, {"x": x}, backend="reference") for each in (ours, again))
    for one, other in zip(expected.values(), found.values(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", GATES)
def test_reverse_layer_is_written_to_pnnx_with_two_flips(tmp_path, op):
    ours = net(op, "reverse", has_states=False, has_ends=False)
    gp.save(ours, tmp_path / "net.pnnx.param")
    assert (tmp_path / "net.pnnx.param").read_text().count("torch.flip ") == 2
    again, x = gp.load(tmp_path / "net.pnnx.param"), numbers(1, TIME, SIZE)
    expected, found = (gp.run(each, {"x": x}, backend="reference") for each in (ours, again))
    for one, other in zip(expected.values(), found.values(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)

"""Recurrent layers against their definition, a step at a time."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.ir.verify import verify
from tests.formats.caffe.networks import Network

T, N, D, H, S = 5, 2, 3, 4, 6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, cont, h, c, w, bias, r, added=0.0):
    out = []
    for t in range(len(x)):
        gates = x[t] @ w.T + bias + (cont[t, :, None] * h) @ r.T + added
        i, f, o, g = np.split(gates, 4, 1)
        c = cont[t, :, None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out), h[None], c[None]


def rnn(x, cont, h, w, bias, r, u, v):
    out = []
    for t in range(len(x)):
        h = np.tanh(x[t] @ w.T + bias + (cont[t, :, None] * h) @ r.T)
        out.append(np.tanh(h @ u.T + v))
    return np.stack(out), h[None]


def ran(net: Network, folder, inputs):
    model = gp.load(net.save(folder))
    verify(model.graph)
    first, second = (gp.run(model, inputs, backend=backend) for backend in ("onnxruntime", "reference"))
    for name, array in first.items():
        np.testing.assert_allclose(array, second[name], rtol=1e-4, atol=1e-5)
    return first


@pytest.mark.parametrize(
    "cont", [np.ones((T, N)), np.array([[0, 0], [1, 1], [1, 0], [0, 1], [1, 1]])], ids=["on and on", "begins anew"]
)
def test_lstm(tmp_path, cont):
    net = Network("net")
    names = [net.input("x", T, N, D), net.input("cont", T, N)]
    blobs = [net.normal(4 * H, D), net.normal(4 * H), net.normal(4 * H, H)]
    net.layer("LSTM", "y", *names, blobs=blobs, recurrent_param=f'num_output: {H} weight_filler {{ type: "uniform" }}')
    x, cont = net.normal(T, N, D), cont.astype(np.float32)
    expected, *_ = lstm(x, cont, np.zeros((N, H)), np.zeros((N, H)), *blobs)
    np.testing.assert_allclose(ran(net, tmp_path, {"x": x, "cont": cont})["y"], expected, rtol=1e-4, atol=1e-5)


def test_lstm_with_states_and_an_input_that_stays(tmp_path):
    net = Network("net")
    shapes = {"x": (T, N, D, 1, 2), "cont": (T, N), "same": (N, S), "h": (1, N, H), "c": (1, N, H)}
    names = [net.input(name, *shape) for name, shape in shapes.items()]
    blobs = [net.normal(4 * H, 2 * D), net.normal(4 * H), net.normal(4 * H, S), net.normal(4 * H, H)]
    net.layer(
        "LSTM",
        "y",
        *names,
        top=["y", "last_h", "last_c"],
        blobs=blobs,
        recurrent_param=f"num_output: {H} expose_hidden: true",
    )
    given = {name: net.normal(*shape) for name, shape in shapes.items()} | {"cont": np.ones((T, N), np.float32)}
    w, bias, static, r = blobs
    flat = given["x"].reshape(T, N, -1)
    expected = lstm(flat, given["cont"], given["h"][0], given["c"][0], w, bias, r, given["same"] @ static.T)
    found = ran(net, tmp_path, given)
    for name, array in zip(["y", "last_h", "last_c"], expected, strict=True):
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def test_rnn(tmp_path):
    net = Network("net")
    names = [net.input("x", T, N, D), net.input("cont", T, N)]
    blobs = [net.normal(H, D), net.normal(H), net.normal(H, H), net.normal(H, H), net.normal(H)]
    net.layer("RNN", "y", *names, blobs=blobs, recurrent_param=f"num_output: {H}")
    x, cont = net.normal(T, N, D), np.array([[0, 0], [1, 1], [1, 0], [1, 1], [1, 1]], np.float32)
    expected, _ = rnn(x, cont, np.zeros((N, H)), *blobs)
    np.testing.assert_allclose(ran(net, tmp_path, {"x": x, "cont": cont})["y"], expected, rtol=1e-4, atol=1e-5)


def test_two_recurrent_layers_in_a_row(tmp_path):
    net = Network("net")
    names = [net.input("x", T, N, D), net.input("cont", T, N)]
    first = [net.normal(4 * H, D), net.normal(4 * H), net.normal(4 * H, H)]
    second = [net.normal(4 * H, H), net.normal(4 * H), net.normal(4 * H, H)]
    net.layer("LSTM", "a", *names, blobs=first, recurrent_param=f"num_output: {H}")
    net.layer("LSTM", "b", "a", "cont", blobs=second, recurrent_param=f"num_output: {H}")
    x, cont = net.normal(T, N, D), np.ones((T, N), np.float32)
    zeros = np.zeros((N, H))
    hidden, *_ = lstm(x, cont, zeros, zeros, *first)
    expected, *_ = lstm(hidden, cont, zeros, zeros, *second)
    np.testing.assert_allclose(ran(net, tmp_path, {"x": x, "cont": cont})["b"], expected, rtol=1e-4, atol=1e-5)


def test_a_recurrent_layer_without_marks_is_an_error(tmp_path):
    net = Network("net")
    net.input("x", T, N, D)
    net.layer("LSTM", "y", "x", recurrent_param=f"num_output: {H}")
    assert [finding.code for finding in gp.check(net.save(tmp_path))] == ["SHAPE0001"]

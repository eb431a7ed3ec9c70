"""Layers of training that a network still has: losses, and how many labels are right."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.formats.caffe.networks import Network


def x_of(shape) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", lambda p: -np.log(p).mean()),
        ("loss_param { normalize: false }", lambda p: -np.log(p).sum() / 2),
        ("loss_param { normalization: NONE }", lambda p: -np.log(p).sum()),
        ("loss_param { ignore_label: 1 }", lambda p: -np.log(p[[0, 2, 3, 4, 5]]).mean()),
    ],
)
def test_the_loss_of_labels(tmp_path, text, expected):
    net = Network("net")
    names = [net.input("x", 2, 4, 3), net.input("label", 2, 3)]
    net.layer("SoftmaxWithLoss", "loss", *names)
    net.lines[-1] = net.lines[-1][:-1] + text + "}"
    x, label = x_of((2, 4, 3)), np.array([[0, 1, 2], [3, 0, 2]], np.float32)
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x, "label": label})["loss"]
    e = np.exp(x)
    p = np.take_along_axis(e / e.sum(1, keepdims=True), label.astype(int)[:, None], 1).reshape(-1)
    np.testing.assert_allclose(found, expected(p), rtol=1e-5)


def test_how_many_labels_are_right(tmp_path):
    net = Network("net")
    names = [net.input("x", 4, 3), net.input("label", 4)]
    net.layer("Accuracy", "y", *names)
    net.layer("EuclideanLoss", "z", "x", "x")
    x = np.eye(4, 3, dtype=np.float32)
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x, "label": np.array([0, 2, 2, 1], np.float32)})
    assert float(found["y"]) == 0.5
    assert float(found["z"]) == 0

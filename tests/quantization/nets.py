"""Small networks with random weights that are quantized in tests."""

from __future__ import annotations

import itertools

import numpy as np

import graphport as gp
from tests.models import model, node


def _weight(random, *shape):
    fan = int(np.prod(shape[1:])) or 1
    return (random.normal(size=shape) * np.sqrt(2 / fan)).astype(np.float32)


def residual(seed=0, batch: str | int = "N"):
    """Convolutions with a shortcut around one, pooling, and a product at the end."""
    r = np.random.default_rng(seed)
    constants = {
        "w1": _weight(r, 8, 3, 3, 3), "b1": r.normal(size=8).astype(np.float32),
        "w2": _weight(r, 8, 8, 3, 3), "b2": r.normal(size=8).astype(np.float32),
        "w3": _weight(r, 5, 8), "b3": r.normal(size=5).astype(np.float32),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1], name="first"),
        node("Relu", ["a"], ["ar"], name="first_relu"),
        node("Conv", ["ar", "w2", "b2"], ["c"], pads=[1, 1, 1, 1], name="second"),
        node("Add", ["c", "ar"], ["s"], name="sum"),
        node("Relu", ["s"], ["sr"], name="sum_relu"),
        node("MaxPool", ["sr"], ["m"], kernel_shape=[2, 2], strides=[2, 2], name="pool"),
        node("GlobalAveragePool", ["m"], ["g"], name="mean"),
        node("Flatten", ["g"], ["f"], name="flat"),
        node("Gemm", ["f", "w3", "b3"], ["y"], transB=1, name="head"),
    ]
    return gp.from_onnx(model(nodes, [("x", [batch, 3, 8, 8])], [("y", [batch, 5])], constants))


def depthwise(seed=0, *, imbalance=0.0, activation="Clip"):
    """Pointwise, depthwise, pointwise; channels of the hidden values scaled by up to 2 ** imbalance."""
    r = np.random.default_rng(seed)
    s = 2 ** r.uniform(-imbalance, imbalance, size=16).astype(np.float32)
    t = 2 ** r.uniform(-imbalance, imbalance, size=16).astype(np.float32)
    w1, w2, w3 = _weight(r, 16, 4, 1, 1), _weight(r, 16, 1, 3, 3), _weight(r, 4, 16, 1, 1)
    constants = {
        "w1": w1 * s[:, None, None, None], "b1": r.normal(size=16).astype(np.float32) * s * 0.1,
        "w2": w2 / s[:, None, None, None] * t[:, None, None, None], "b2": r.normal(size=16).astype(np.float32) * t * 0.1,
        "w3": w3 / t[:, None, None], "low": np.float32(0), "high": np.float32(6),
    }  # fmt: skip
    constants["w3"] = w3 / t[None, :, None, None]
    more = ["low", "high"] if activation == "Clip" else []
    if not more:
        del constants["low"], constants["high"]
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], name="expand"),
        node(activation, ["a", *more], ["ar"], name="first"),
        node("Conv", ["ar", "w2", "b2"], ["d"], group=16, pads=[1, 1, 1, 1], name="depth"),
        node(activation, ["d", *more], ["dr"], name="second"),
        node("Conv", ["dr", "w3"], ["y"], name="project"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 4, 8, 8])], [("y", ["N", 4, 8, 8])], constants))


def products(seed=0):
    """A normalization, two products and a bias, as in a transformer."""
    r = np.random.default_rng(seed)
    constants = {
        "g": (1 + r.uniform(0, 8, size=16)).astype(np.float32), "b": r.normal(size=16).astype(np.float32),
        "w1": _weight(r, 32, 16).T.copy(), "c1": r.normal(size=32).astype(np.float32),
        "w2": _weight(r, 16, 32).T.copy(),
    }  # fmt: skip
    nodes = [
        node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1, name="norm"),
        node("MatMul", ["n", "w1"], ["h"], name="up"),
        node("Add", ["h", "c1"], ["hb"], name="bias"),
        node("Relu", ["hb"], ["hr"], name="act"),
        node("MatMul", ["hr", "w2"], ["p"], name="down"),
        node("Add", ["p", "x"], ["y"], name="shortcut"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 6, 16])], [("y", ["N", 6, 16])], constants))


def samples(found, count=24, seed=1):
    """Normal samples for the inputs of a model whose axis 0 is free."""
    r = np.random.default_rng(seed)
    return {
        name: r.normal(size=(count, *value.fact.shape[1:])).astype(np.float32) for name, value in found.inputs.items()
    }


def snr(expected, found):
    """Signal to noise in dB."""
    x, y = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    return 10 * np.log10(np.sum(x**2) / max(np.sum((x - y) ** 2), 1e-30))


def snr_of_variance(expected, found):
    """Signal to noise in dB; the signal is the variance of each channel."""
    x, y = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    others = tuple(i for i in range(x.ndim) if i != (1 if x.ndim == 4 else x.ndim - 1))
    count = x.size // x.shape[1 if x.ndim == 4 else -1]
    signal = np.sum((x - x.mean(others, keepdims=True)) ** 2) * count / (count - 1)
    return 10 * np.log10(signal / max(np.sum((x - y) ** 2), 1e-30))


def denoiser(seed=0, width=16, depth=4):
    """Convolutions from one channel to one, whose first is quicker real, and the sums of whose last stay real."""
    r = np.random.default_rng(seed)
    widths = [1, *[width] * depth, 1]
    constants, nodes, last = {}, [], "x"
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        constants[f"w{number}"] = _weight(r, after, before, 3, 3)
        nodes.append(node("Conv", [last, f"w{number}"], [f"a{number}"], pads=[1] * 4, name=f"conv{number}"))
        nodes.append(node("Relu" if after > 1 else "Sigmoid", [f"a{number}"], [last := f"r{number}"]))
    nodes[-1] = node("Sigmoid", [f"a{depth}"], ["y"])
    return gp.from_onnx(model(nodes, [("x", ["N", 1, 24, 24])], [("y", ["N", 1, 24, 24])], constants))

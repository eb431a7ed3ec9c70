"""Ranges searched by the noise that reaches readers, and scales of narrow weights, against trying everything."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.quantization.insert_qdq import Quantization
from graphport.quantization.layer import layer_of
from graphport.quantization.parameters import activation_qparams, asymmetric, symmetric
from graphport.quantization.placement import decide_placement
from graphport.quantization.search import channel_gains, range_search
from graphport.quantization.targets import target
from graphport.quantization.weights import weight_qparams
from tests.models import model, node

PARTS = (0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 1.0, 1.07)


def _read_by(*shapes, rank=4, kind="Conv", **attributes):
    """`h = Relu(x)`, read by layers with weights of those shapes."""
    r = np.random.default_rng(sum(map(sum, shapes)))
    weights = {f"w{i}": r.normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)}
    nodes = [node("Relu", ["x"], ["h"])]
    nodes += [node(kind, ["h", name], [f"y{i}"], **attributes) for i, name in enumerate(weights)]
    free = ["N", 6, 5, 5] if rank == 4 else ["N", 7, 6]
    outputs = [(f"y{i}", [None] * rank) for i in range(len(shapes))]
    return gp.from_onnx(model(nodes, [("x", free)], outputs, weights)), weights


READERS = {
    "convolution": lambda: _read_by((4, 6, 3, 3)),
    "each channel": lambda: _read_by((6, 1, 3, 3), group=6),
    "groups": lambda: _read_by((4, 3, 3, 3), group=2),
    "two convolutions": lambda: _read_by((4, 6, 3, 3), (2, 6, 1, 1)),
    "transposed": lambda: _read_by((6, 4, 2, 2), kind="ConvTranspose"),
    "product": lambda: _read_by((6, 5), rank=3, kind="MatMul"),
}


@pytest.mark.parametrize("name", list(READERS))
def test_channel_gain_is_the_noise_amplification_of_consumers(name):
    """An impulse in one channel, all others zero: the sum of squares of what comes out, far from all borders."""
    found, _ = READERS[name]()
    value = next(item.output for item in found.graph if item.op == "Relu")
    axis, gains = channel_gains(value)
    shape = (1, 6, 5, 5) if name != "product" else (1, 7, 6)
    for channel in range(6):
        x = np.zeros(shape, np.float32)
        x[(0, channel, 2, 2) if name != "product" else (0, 3, channel)] = 1
        assert axis in (1, -1)
        power = sum(float(np.sum(y.astype(np.float64) ** 2)) for y in gp.run(found, {"x": x}).values())
        assert gains[channel] == pytest.approx(power, rel=1e-4)


def _searched(found, x, present):
    graph = found.graph
    value = next(item.output for item in graph if item.op == "Relu")
    quantization = Quantization(decide_placement(graph, target("onnxruntime"), set(graph)))
    quantization.all_qparams[value] = present
    return value, range_search(quantization, is_symmetric=False)(value, [x], [x])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["convolution", "each channel", "product"])
def test_searched_range_minimizes_noise_at_the_consumers(name, seed):
    """Each part tried by running the readers on the numbers of its grid, to within one per cent of the least noise.

    Errors of places that readers add up are taken for independent, so the noise is that of numbers drawn at random.
    """
    found, _ = READERS[name]()
    r = np.random.default_rng(seed)
    shape = (16, 6, 5, 5) if name != "product" else (16, 7, 6)
    spread = r.uniform(0.1, 3, 6).reshape((1, 6, 1, 1) if name != "product" else (1, 1, 6))
    x = (np.maximum(r.standard_t(4, size=shape), 0) * spread).astype(np.float32)
    present = activation_qparams(0.0, float(x.max()), DType.UINT8, is_symmetric=False)
    _, chosen = _searched(found, x, present)
    axis, gains = channel_gains(next(item.output for item in found.graph if item.op == "Relu"))
    weights = gains.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])

    def noise(qparams):
        return float(np.sum(weights * (qparams.nearest(x) - x).astype(np.float64) ** 2))

    tried = [activation_qparams(0.0, present.max_value * part, DType.UINT8, is_symmetric=False) for part in PARTS]
    assert noise(chosen) == pytest.approx(min(map(noise, tried)), rel=1e-5)

    def true(qparams):
        expected, given = gp.run(found, {"x": x}), gp.run(found, {"x": qparams.nearest(x)})
        return sum(float(np.sum((expected[name] - given[name]).astype(np.float64) ** 2)) for name in expected)

    # Numbers that are cut off lie together, so that their errors add up: the noise that counts is not far off.
    assert true(chosen) <= 1.6 * min(map(true, tried))


def test_channel_weights_follow_consumer_gains():
    """One channel has an outlier, and next to no weight: its numbers are cut off for the sake of the other's steps."""
    ranges = {}
    for weight in (0.01, 100.0):
        w = np.ones((1, 6, 1, 1), np.float32)
        w[0, 0] = weight
        found = gp.from_onnx(
            model(
                [node("Relu", ["x"], ["h"]), node("Conv", ["h", "w"], ["y"])],
                [("x", ["N", 6, 5, 5])], [("y", [None] * 4)], {"w": w},
            )
        )  # fmt: skip
        x = np.random.default_rng(0).uniform(0, 1, (4, 6, 5, 5)).astype(np.float32)
        x[0, 0, 0, 0] = 1.6
        ranges[weight] = _searched(found, x, activation_qparams(0.0, 1.6, DType.UINT8, is_symmetric=False))[1].max_value
    assert ranges[0.01] < 1.2
    assert ranges[100.0] > 1.59


def test_earlier_errors_count():
    """Numbers that came out too large by an eighth are cut off where that brings them nearer to the real ones."""
    found, _ = READERS["convolution"]()
    value = next(item.output for item in found.graph if item.op == "Relu")
    real = np.full((4, 6, 5, 5), 0.87, np.float32)
    quantization = Quantization(decide_placement(found.graph, target("onnxruntime"), set(found.graph)))
    quantization.all_qparams[value] = activation_qparams(0.0, 1.0, DType.UINT8, is_symmetric=False)
    chosen = range_search(quantization, is_symmetric=False)(value, [real], [real + 0.125])
    assert chosen.max_value == pytest.approx(0.87, abs=1e-3)


def test_other_ranges_are_tried_too():
    found, _ = READERS["convolution"]()
    x = np.random.default_rng(0).uniform(0, 1, (4, 6, 5, 5)).astype(np.float32)
    value = next(item.output for item in found.graph if item.op == "Relu")
    quantization = Quantization(decide_placement(found.graph, target("onnxruntime"), set(found.graph)))
    quantization.all_qparams[value] = asymmetric(0.0, 50.0, DType.UINT8)
    exact = asymmetric(0.0, 1.0, DType.UINT8)
    chosen = range_search(quantization, is_symmetric=False, others=lambda _: [exact])(value, [x], [x])
    assert chosen is exact


@pytest.mark.parametrize("seed", range(5))
def test_int4_scale_is_near_the_least_squares_optimum(seed):
    """Against 400 scales of each channel: one that shrinks by parts of 3 to 5 per cent comes close to all of them."""
    found, weights = _read_by((4, 6, 3, 3))
    layer = next(made for made in map(layer_of, found.graph) if made is not None)
    w = (np.random.default_rng(seed).standard_t(4, size=(4, 6, 3, 3))).astype(np.float32)
    qparams = weight_qparams(layer, w, DType.INT4, per_channel=True)
    for channel in range(4):
        bound = float(np.abs(w[channel]).max())
        tried = (
            float(np.sum((symmetric(bound * part, DType.INT4).nearest(w[channel]) - w[channel]) ** 2))
            for part in np.linspace(0.3, 1, 400)
        )
        mine = symmetric(float(qparams.scale[channel]) * 7, DType.INT4)
        plain = float(np.sum((symmetric(bound, DType.INT4).nearest(w[channel]) - w[channel]) ** 2))
        error = float(np.sum((mine.nearest(w[channel]) - w[channel]) ** 2))
        assert error <= plain
        assert error <= 1.25 * min(tried)
    assert weights

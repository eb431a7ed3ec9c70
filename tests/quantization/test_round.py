"""Rounding by second moments, against brute force on tiny layers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.quantization import round as rounding
from graphport.quantization.layer import layer_of
from graphport.quantization.round import Codes, Rows
from graphport.quantization.weights import PAIR, has_pairs, nearest, pair_sums, weight_qparams
from tests.models import model, node
from tests.quantization import nets


def _problem(seed, depth=5, rows=2, correlation=0.9):
    """Rows that are alike, so that errors can make each other good; a weight with coarse scales."""
    r = np.random.default_rng(seed)
    common = r.normal(size=(200, 1))
    x = (correlation * common + (1 - correlation) * r.normal(size=(200, depth))).astype(np.float32)
    weight = r.normal(size=(1, rows, depth)).astype(np.float32)
    scale = np.full((1, rows, depth), 0.5, np.float32)
    codes = Codes(np.clip(np.rint(weight / scale), -7, 7), scale, -7, 7, has_pairs=False)
    return codes, weight, rounding.moments(x[None])


def _noise(codes, weight, second):
    e = (codes.dequantized - weight)[0]
    return np.einsum("od,de,oe->o", e, second[0], e)


def _best(codes, weight, second):
    """The least noise of each row over all codes near the real ones."""
    found = []
    for row, scale in zip(weight[0], codes.scale[0], strict=True):
        base = np.floor(row / scale)
        every = [base + np.asarray(up) for up in product((-1, 0, 1, 2), repeat=len(row))]
        e = np.clip(np.asarray(every), codes.least, codes.most) * scale - row
        found.append(np.einsum("nd,de,ne->n", e, second[0], e).min())
    return np.asarray(found)


@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_nearly_exhaustive(seed):
    codes, weight, second = _problem(seed)
    made = rounding.descend(rounding.second_order(codes, weight, second), weight, second, 50)
    least = _best(codes, weight, second)
    assert np.all(_noise(made, weight, second) >= least * (1 - 1e-4))
    assert np.sum(_noise(made, weight, second)) <= 2.0 * np.sum(least) + 1e-6
    assert np.sum(_noise(made, weight, second)) <= np.sum(_noise(codes, weight, second))


def test_second_order_rounding_reduces_noise():
    before = after = 0.0
    for seed in range(12):
        codes, weight, second = _problem(seed, depth=12)
        before += np.sum(_noise(codes, weight, second))
        after += np.sum(_noise(rounding.second_order(codes, weight, second), weight, second))
    assert after < 0.3 * before


@pytest.mark.parametrize("seed", range(6))
def test_coordinate_descent_never_increases_noise(seed):
    codes, weight, second = _problem(seed, depth=12)
    before = _noise(codes, weight, second)
    for steps in (1, 3, 30):
        after = _noise(rounding.descend(codes, weight, second, steps), weight, second)
        assert np.all(after <= before * (1 + 1e-5))
        before = after


def test_without_correlation_the_nearest_codes_are_best():
    codes, weight, _ = _problem(0)
    second = np.eye(5, dtype=np.float32)[None]
    assert np.array_equal(rounding.second_order(codes, weight, second).numbers, codes.numbers)


@pytest.mark.parametrize("seed", range(3))
def test_codes_stay_on_the_grid(seed):
    codes, weight, second = _problem(seed, depth=20)
    made = rounding.descend(rounding.second_order(codes, 20 * weight, second), 20 * weight, second, 40)
    assert made.numbers.min() >= -7
    assert made.numbers.max() <= 7
    assert np.array_equal(made.numbers, np.rint(made.numbers))


@pytest.mark.parametrize("depth", [6, 7])
def test_rounded_pairs_never_overflow_16_bits(depth):
    r = np.random.default_rng(0)
    weight = (r.normal(size=(1, 8, depth)) * 100).astype(np.float32)
    codes = Codes(np.zeros_like(weight), np.ones_like(weight), -127, 127, has_pairs=True)
    x = r.normal(size=(1, 100, depth)) + r.normal(size=(1, 100, 1))
    second = rounding.moments(x.astype(np.float32))
    made = rounding.descend(rounding.second_order(codes, weight, second), weight, second, 60)
    assert pair_sums(made.numbers).max() <= PAIR


def test_fitted_weight_compensates_input_error():
    r = np.random.default_rng(0)
    real = r.normal(size=(1, 400, 6)).astype(np.float32)
    rows = Rows(real, (0.8 * real + 0.3).astype(np.float32))
    weight = r.normal(size=(1, 3, 6)).astype(np.float32)
    fitted = rounding.fit_weight(weight, rows, _seen(rows))
    assert np.allclose(fitted, weight / 0.8, rtol=0.03, atol=0.03)


def test_a_weight_is_not_fitted_to_few_rows():
    r = np.random.default_rng(0)
    real = r.normal(size=(1, 10, 6)).astype(np.float32)
    weight = r.normal(size=(1, 3, 6)).astype(np.float32)
    few = Rows(real, 0.5 * real)
    assert rounding.fit_weight(weight, few, _seen(few)) is weight


def _seen(rows):
    return rounding.moments(rows.quantized - rows.quantized.mean(axis=1, keepdims=True))


def _one_by_one(weight, scale, second):
    """GPTQ as it is written: each column is rounded, and its error taken off all that are free by the inverse."""
    order = np.argsort(-np.diag(second), kind="stable")
    inverse = np.linalg.inv(second)
    left, free, numbers = weight.astype(np.float64), list(order), np.zeros_like(weight)
    for column in order:
        numbers[:, column] = np.rint(left[:, column] / scale)
        error = left[:, column] - numbers[:, column] * scale
        left[:, free] -= np.outer(error / inverse[column, column], inverse[column, free])
        inverse = inverse - np.outer(inverse[:, column], inverse[column]) / inverse[column, column]
        free.remove(column)
    return numbers


@pytest.mark.parametrize("seed", range(4))
def test_column_updates_match_a_stepwise_inverse(seed):
    r = np.random.default_rng(seed)
    rows = (r.normal(size=(1, 300, 60)) @ (np.eye(60) + 0.3 * r.normal(size=(60, 60)))).astype(np.float32)
    weight = r.normal(size=(1, 4, 60)).astype(np.float32)
    second = rounding.moments(rows)
    codes = Codes(np.zeros_like(weight), np.full_like(weight, 0.1), -127, 127, has_pairs=False)
    made = rounding.second_order(codes, weight, second).numbers[0]
    # A sum that lies on a border may be rounded to either side.
    assert np.mean(made == _one_by_one(weight[0], 0.1, second[0].astype(np.float64))) > 0.95


def _layer(name="second"):
    found = nets.residual()
    return next(layer for item in found.graph if (layer := layer_of(item)) is not None and layer.name == name)


def test_bias_correction_removes_a_mean_shift():
    layer = _layer("head")
    r = np.random.default_rng(0)
    real = r.normal(size=(1, 4000, 8)).astype(np.float32)
    matrix = layer.matrix(layer.float_weight())
    found = rounding.offsets(layer, matrix, matrix, Rows(real, real + 0.5))
    assert np.allclose(found, layer.offsets() - 0.5 * matrix[0].sum(axis=1), atol=1e-4)


def test_bias_correction_ignores_insignificant_shifts():
    layer = _layer("head")
    r = np.random.default_rng(0)
    real = r.normal(size=(1, 24, 8)).astype(np.float32)
    noisy = real + r.normal(size=real.shape).astype(np.float32)
    matrix = layer.matrix(layer.float_weight())
    naive = (real - noisy).mean(axis=1) @ matrix[0].T
    found = rounding.offsets(layer, matrix, matrix, Rows(real, noisy)) - layer.offsets()
    assert np.sum(found**2) < 0.6 * np.sum(naive**2)


@pytest.mark.parametrize("attributes", [
    {}, {"pads": [1, 0, 2, 1]}, {"strides": [2, 1]}, {"dilations": [1, 2]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER"}, {"group": 2}, {"group": 4, "pads": [1, 1, 1, 1]},
], ids=str)  # fmt: skip
def test_rows_times_the_matrix_are_the_convolution(attributes):
    r = np.random.default_rng(0)
    group = attributes.get("group", 1)
    w = r.normal(size=(8, 4 // group, 3, 2)).astype(np.float32)
    found = gp.from_onnx(
        model([node("Conv", ["x", "w"], ["y"], **attributes)], [("x", ["N", 4, 7, 6])], [("y", None)], {"w": w})
    )
    layer = layer_of(next(iter(found.graph)))
    x = r.normal(size=(2, 4, 7, 6)).astype(np.float32)
    y = gp.run(found, {"x": x})["y"]
    places = np.arange(layer.count(x.shape))
    rows = layer.rows(x, places)
    product_ = rows @ layer.matrix(layer.float_weight()).swapaxes(1, 2)
    expected = y.reshape(2, group, 8 // group, -1).transpose(1, 0, 3, 2).reshape(group, -1, 8 // group)
    assert np.allclose(product_, expected, atol=1e-4)
    assert np.array_equal(layer.unmatrix(layer.matrix(w)), w)


@pytest.mark.parametrize("name", ["first", "second", "head"])
@pytest.mark.parametrize("reach", ["full", "pairs", "reduced"])
def test_weight_codes_respect_the_weight_range(name, reach):
    layer = _layer(name)
    weight = layer.float_weight() * 3
    qparams = weight_qparams(layer, weight, DType.INT8, per_channel=True, reach=reach)
    codes = nearest(qparams, layer, weight, reach=reach).astype(np.int32)
    assert np.abs(codes).max() <= (63 if reach == "reduced" else 127)
    if reach == "pairs":
        assert pair_sums(layer.matrix(codes)).max() <= PAIR
    assert np.abs(qparams.values(codes) - weight).max() <= 1.01 * qparams.scale.max()


def test_depthwise_kernels_have_no_pairs():
    found = nets.depthwise()
    layers = {layer.name: layer for item in found.graph if (layer := layer_of(item)) is not None}
    assert [has_pairs(layers[name]) for name in ("expand", "depth", "project")] == [True, False, True]


def test_block_quantization_has_one_scale_per_block():
    layer = _layer("head")
    weight = layer.float_weight().copy()
    weight[:, 4:] *= 100
    qparams = weight_qparams(layer, weight, DType.INT4, per_channel=True, block=4)
    assert qparams.scale.shape == (5, 2)
    gap = np.abs(qparams.nearest(weight) - weight)
    assert np.all(gap <= 0.5001 * np.repeat(qparams.scale, 4, axis=1))


@pytest.mark.parametrize("op, attributes, is_layer", [
    ("Gemm", {"transB": 0}, True), ("Gemm", {"alpha": 0.5}, False), ("Gemm", {"transA": 1}, False), ("MatMul", {}, True),
], ids=str)  # fmt: skip
def test_layer_of_accepts_supported_operators(op, attributes, is_layer):
    w = np.ones((4, 4), np.float32)
    found = gp.from_onnx(model([node(op, ["x", "w"], ["y"], **attributes)], [("x", [4, 4])], [("y", [4, 4])], {"w": w}))
    assert (layer_of(next(iter(found.graph))) is not None) == is_layer

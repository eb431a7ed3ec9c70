"""Normalizations in NNEF, by their definitions."""

from typing import Any

import numpy as np
import pytest

from graphport.ops.definitions.normalization import (
    LRN,
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    RMSNormalization,
)
from tests.ops.oracle import compare, run_word, there_and_back


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def box_mean(x, size):
    """The mean over a window of odd size, zeros around, the whole window's volume counting."""
    pads = [((k - 1) // 2, k // 2) for k in size]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), size)
    return windows.mean(axis=tuple(range(-len(size), 0)))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_batch_normalization_takes_rows(shape):
    x = random(*shape)
    mean, offset, scale = (random(1, 3, seed=seed) for seed in (1, 2, 3))
    variance = np.abs(random(1, 3, seed=4))
    channel = (1, 3, *[1] * (len(shape) - 2))
    m, v, o, s = (a.reshape(channel) for a in (mean, variance, offset, scale))
    expected = o + s * (x - m) / np.sqrt(v + 0.01)
    inputs = [x, mean, variance, offset, scale]
    for constants in ((), (1, 2, 3, 4)):
        (found,) = run_word("nnef", "batch_normalization", inputs, constants=constants, epsilon=0.01)
        compare(found, expected, tolerance=1e-4)


def test_batch_normalization_takes_numbers_and_statistics_for_each_entry():
    x = random(2, 3, 4)
    mean, variance = random(1, 3, 4, seed=1), np.abs(random(1, 1, seed=2))
    offset, scale = np.array(0.0, np.float32), np.array(2.0, np.float32)
    inputs = [x, mean, variance, offset, scale]
    (found,) = run_word("nnef", "batch_normalization", inputs, literals=(3, 4), epsilon=0.0)
    compare(found, 2 * (x - mean) / np.sqrt(variance.reshape(1, 1, 1)), tolerance=1e-4)


@pytest.mark.parametrize("size", [(1, 3, 1, 1), (1, 4, 1, 1), (1, 1, 3, 3), (1, 3, 3, 1)])
def test_local_response_normalization_divides_by_the_mean_square_around(size):
    x = random(2, 5, 4, 4)
    (found,) = run_word("nnef", "local_response_normalization", [x], size=size, alpha=0.5, beta=0.75, bias=2.0)
    compare(found, x / (2.0 + 0.5 * box_mean(x**2, size)) ** 0.75, tolerance=1e-4)


@pytest.mark.parametrize("least", [0.5, 0.0])
@pytest.mark.parametrize("size", [(1, 1, 3, 3), (1, 3, 1, 1)])
def test_local_normalizations_are_their_definitions(size, least):
    x = random(2, 5, 4, 4)
    (mean,) = run_word("nnef", "local_mean_normalization", [x], size=size)
    compare(mean, x - box_mean(x, size), tolerance=1e-5)
    limits: dict[str, Any] = {"bias": 0.1, "epsilon": least}
    (variance,) = run_word("nnef", "local_variance_normalization", [x], size=size, **limits)
    compare(variance, x / np.maximum(np.sqrt(box_mean(x**2, size)) + 0.1, least), tolerance=1e-4)
    (contrast,) = run_word("nnef", "local_contrast_normalization", [x], size=size, **limits)
    sigma = np.sqrt(box_mean(mean**2, size))
    compare(contrast, mean / np.maximum(sigma + 0.1, least), tolerance=1e-4)


@pytest.mark.parametrize("axes", [(1,), (2, 3), ()])
def test_norms_are_their_definitions(axes):
    x = random(2, 3, 4, 5)
    sums = {"l1_normalization": np.abs(x), "l2_normalization": x**2}
    for op_type, terms in sums.items():
        sigma = terms.sum(axis=axes, keepdims=True) if axes else terms
        sigma = np.sqrt(sigma) if op_type.startswith("l2") else sigma
        for bias, epsilon in ((0.0, 0.0), (0.25, 0.5), (-1.0, 0.0)):
            (found,) = run_word("nnef", op_type, [x], axes=axes, bias=bias, epsilon=epsilon)
            with np.errstate(divide="ignore"):
                compare(
                    found, x / np.maximum(sigma + bias, epsilon if (bias, epsilon) != (0, 0) else -1), tolerance=1e-4
                )


def test_moments_are_mean_and_variance():
    x = random(2, 3, 4, 5)
    mean, variance = run_word("nnef", "moments", [x], outputs=2, axes=(2, 3))
    compare(mean, x.mean(axis=(2, 3), keepdims=True), tolerance=1e-5)
    compare(variance, x.var(axis=(2, 3), keepdims=True), tolerance=1e-5)


@pytest.mark.parametrize("constants", [(), (1, 2, 3, 4)])
def test_exporting_a_batch_normalization_preserves_its_semantics(constants):
    vectors = [random(3, seed=seed) for seed in (1, 2, 3)] + [np.abs(random(3, seed=4))]
    words = there_and_back(BatchNormalization, [random(2, 3, 4), *vectors], constants=constants, tolerance=1e-5)
    assert words == [*["unsqueeze"] * (0 if constants else 4), "batch_normalization"]


def test_training_is_not_written():
    vectors = [random(3, seed=seed) for seed in (1, 2, 3)] + [np.abs(random(3, seed=4))]
    assert there_and_back(BatchNormalization, [random(2, 3, 4), *vectors], training_mode=1) is None


def test_exporting_other_normalizations_keeps_their_meaning():
    x = random(2, 5, 4, 4)
    words = there_and_back(LRN, [x], size=4, alpha=0.5, tolerance=1e-5)
    assert words == ["local_response_normalization"]
    x[0, 0, 0] = 0
    for p in (1, 2):
        assert there_and_back(LpNormalization, [x], p=p, tolerance=1e-5) == [f"l{p}_normalization"]


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("axis", [-1, 1])
def test_exporting_a_layer_normalization_preserves_its_semantics(axis, symbolic):
    x, scale, bias = random(2, 3, 4), random(4), random(3, 1, seed=1)
    attributes: dict[str, Any] = {"axis": axis, "epsilon": 0.01, "symbolic": symbolic, "tolerance": 1e-5}
    assert there_and_back(LayerNormalization, [x, scale], **attributes)
    assert there_and_back(LayerNormalization, [x, scale, bias], constants=(1, 2), **attributes)
    assert there_and_back(LayerNormalization, [x, scale, bias], outputs=3, **attributes)
    assert there_and_back(RMSNormalization, [x, scale], **attributes)
    assert there_and_back(LayerNormalization, [x, scale], stash_type=16) is None


@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 4, 5, 3)])
def test_exporting_normalizations_of_channels_keeps_their_meaning(shape):
    x, scale, bias = random(*shape), random(4), random(4, seed=1)
    assert there_and_back(InstanceNormalization, [x, scale, bias], epsilon=0.01, tolerance=1e-5)
    for groups in (1, 2, 4):
        attributes: dict[str, Any] = {"num_groups": groups, "epsilon": 0.01}
        assert there_and_back(GroupNormalization, [x, scale, bias], constants=(1, 2), tolerance=1e-5, **attributes)
    assert there_and_back(GroupNormalization, [x, scale, bias], symbolic=True, num_groups=2) is None


def test_exporting_a_mean_variance_normalization_preserves_its_semantics():
    assert there_and_back(MeanVarianceNormalization, [random(2, 3, 4, 5)], tolerance=1e-5)
    assert there_and_back(MeanVarianceNormalization, [random(2, 3, 4)], axes=(-1, 1), tolerance=1e-5)

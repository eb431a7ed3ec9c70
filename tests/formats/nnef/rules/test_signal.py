"""Transforms of signals in NNEF: products with a matrix keep their meaning."""

import numpy as np
import pytest

from graphport.ops.definitions.signal import DFT, STFT
from tests.ops.oracle import there_and_back

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [1, 2, -3])
@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("inverse", [0, 1])
def test_exporting_a_transform_preserves_its_semantics(axis, length, inverse):
    x = RANDOM.normal(size=(2, 6, 5, 2)).astype(np.float32)
    operands = [x, None if length is None else np.array(length), np.array(axis)]
    assert there_and_back(DFT, operands, constants=(1, 2), inverse=inverse, tolerance=1e-5)


@pytest.mark.parametrize("length", [7, 8])
def test_half_a_spectrum_and_back(length):
    x = RANDOM.normal(size=(2, length, 1)).astype(np.float32)
    assert there_and_back(DFT, [x, None, np.array(1)], constants=(2,), onesided=1, tolerance=1e-5)
    spectrum = RANDOM.normal(size=(2, 5, 2)).astype(np.float32)
    operands = [spectrum, np.array(length), np.array(1)]
    assert there_and_back(DFT, operands, constants=(1, 2), onesided=1, inverse=1, tolerance=1e-5)


def test_axes_that_are_computed_and_long_signals_cannot_be_expressed():
    x = RANDOM.normal(size=(1, 6, 2)).astype(np.float32)
    assert there_and_back(DFT, [x, None, np.array(1)]) is None
    assert there_and_back(DFT, [np.zeros((1, 4096, 1), np.float32), None, np.array(1)], constants=(2,)) is None


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames_are_convolutions(onesided):
    window = RANDOM.random(5).astype(np.float32)
    for parts, weights in ((1, window), (1, None), (2 - onesided, window)):
        operands = [RANDOM.normal(size=(2, 17, parts)).astype(np.float32), np.array(3), weights, np.array(5)]
        assert there_and_back(STFT, operands, constants=(1, 2, 3), onesided=onesided, tolerance=1e-5)

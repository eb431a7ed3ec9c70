"""What pages say of their operators, held against what the operators compute."""

import numpy as np
import pytest

from graphport.ops import registry

PAGES = registry.pages()
X = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32)
NUMBERS = np.array([0.5, 2.0, 3.0], np.float32)
"""One for each channel of `X`."""
SLOPES = np.array([0.1, -0.2, 0.7], np.float32).reshape(3, 1, 1)
WINDOW = {"kernel_shape": (2, 2), "pads": (0, 1, 1, 0)}
HOMOGENEOUS = {"PRelu": ((SLOPES,), {}), "MaxPool": ((), WINDOW), "AveragePool": ((), WINDOW)}
"""Operands behind the first, and attributes, of those that need some."""
MATRIX = X.reshape(-1, 5)
BIASED = {
    "Conv": (X, np.ones((3, 3, 2, 2), np.float32)),
    "ConvTranspose": (X, np.ones((3, 3, 2, 2), np.float32)),
    "Gemm": (MATRIX, np.ones((5, 3), np.float32)),
    "BatchNormalization": (X, NUMBERS, None, NUMBERS, NUMBERS),
}
"""Operands, the bias left out."""


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def by_channel(numbers, like):
    return numbers.reshape(1, -1, *[1] * (like.ndim - 2))


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.homogeneous])
def test_a_factor_of_a_channel_is_one_of_the_result(name):
    others, attributes = HOMOGENEOUS.get(name, ((), {}))
    plain = first(PAGES[name](X, *others, **attributes))
    scaled = first(PAGES[name](X * by_channel(NUMBERS, X), *others, **attributes))
    np.testing.assert_allclose(scaled, plain * by_channel(NUMBERS, plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Sigmoid", "Elu", "HardSwish"])
def test_what_bends_is_not_homogeneous(name):
    plain, scaled = PAGES[name](X), PAGES[name](X * 2)
    assert not PAGES[name].homogeneous
    assert np.abs(scaled - 2 * plain).max() > 0.1


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.bias])
def test_a_bias_is_added_to_each_channel(name):
    page = PAGES[name]
    place = [operand.name for operand in page.signature.operands].index(page.bias)
    results = []
    for bias in (np.zeros(3, np.float32), NUMBERS):
        operands = [*BIASED[name][:place], bias, *BIASED[name][place + 1 :]]
        results.append(first(page(*operands)))
    np.testing.assert_allclose(
        results[1] - results[0],
        np.broadcast_to(by_channel(NUMBERS, results[0]), results[0].shape),
        rtol=1e-4,
        atol=1e-4,
    )


def test_what_quantizes_are_the_operators_of_integers_that_stand_for_reals():
    assert {name for name, page in PAGES.items() if page.quantizes} == {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    }

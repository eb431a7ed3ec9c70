"""Products of matrices in NNEF."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.ops.declare import ShapeError
from graphport.ops.definitions.matmul import Det, Gemm, MatMul
from tests.ops.oracle import compare, lowered_nodes, run_word, there_and_back


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


@given(st.booleans(), st.booleans(), st.sampled_from([(), (2,), (2, 3)]))
def test_matmul_transposes_before_it_multiplies(left, right, batch):
    a = random(*batch, *((4, 3) if left else (3, 4)))
    b = random(*batch, *((5, 4) if right else (4, 5)), seed=1)
    (found,) = run_word("nnef", "matmul", [a, b], transposeA=left, transposeB=right)
    expected = (np.swapaxes(a, -1, -2) if left else a) @ (np.swapaxes(b, -1, -2) if right else b)
    compare(found, expected, tolerance=1e-4)


@pytest.mark.parametrize("bias", [(1, 5), (1, 1), (3, 1), (3, 5), (3,), ()])
def test_linear_aligns_its_bias_from_the_left(bias):
    x, w, b = random(3, 4), random(5, 4, seed=1), np.asarray(random(*bias, seed=2))
    (found,) = run_word("nnef", "linear", [x, w, b])
    compare(found, x @ w.T + b.reshape(*bias, *[1] * (2 - len(bias))), tolerance=1e-4)


def test_linear_of_higher_rank_is_a_product_and_a_sum():
    x, w, b = random(2, 3, 4), random(2, 5, 4, seed=1), random(1, 3, seed=2)
    (found,) = run_word("nnef", "linear", [x, w, b])
    compare(found, x @ np.swapaxes(w, 1, 2) + b.reshape(1, 3, 1), tolerance=1e-4)


def test_linear_is_one_general_product():
    assert lowered_nodes("nnef", "linear", [(3, 4), (5, 4), (1, 5)]) == [("Gemm", {"transB": 1})]


@pytest.mark.parametrize("shapes", [[(4,), (4,)], [(3, 4), (2, 4, 5)]])
def test_factors_of_matmul_have_one_rank(shapes):
    with pytest.raises(ShapeError, match="factors have ranks"):
        lowered_nodes("nnef", "matmul", shapes, transposeA=False, transposeB=False)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((3, 4), (4, 5), ["matmul"]),
        ((2, 3, 4), (4, 5), ["unsqueeze", "matmul"]),
        ((4,), (4, 5), ["unsqueeze", "matmul", "squeeze"]),
        ((3, 4), (4,), ["unsqueeze", "matmul", "squeeze"]),
        ((4,), (4,), ["unsqueeze", "unsqueeze", "matmul", "squeeze"]),
        ((4,), (2, 4, 5), ["unsqueeze", "unsqueeze", "matmul", "squeeze"]),
    ],
)
def test_exporting_a_product_preserves_its_semantics(a, b, words):
    inputs = [random(*a), random(*b, seed=1)]
    assert there_and_back(MatMul, inputs, tolerance=1e-5) == words
    assert there_and_back(MatMul, inputs, constants=(0, 1), tolerance=1e-5) is not None


@given(
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([None, (3, 5), (1, 5), (5,), (3, 1), ()]),
    st.sampled_from([1.0, 0.5]),
    st.sampled_from([1.0, -2.0]),
)
def test_exporting_a_general_product_preserves_its_semantics(trans_a, trans_b, summand, alpha, beta):
    a = random(*((4, 3) if trans_a else (3, 4)))
    b = random(*((5, 4) if trans_b else (4, 5)), seed=1)
    c = None if summand is None else np.asarray(random(*summand, seed=2))
    attributes: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": beta}
    words = there_and_back(Gemm, [a, b, c], constants=(1, 2), tolerance=1e-4, **attributes)
    assert words is not None
    if trans_b and not trans_a and alpha == beta == 1 and summand not in ((3, 5), (3, 1)):
        assert words == ["linear"]


def test_determinants_of_small_matrices_are_sums_of_products():
    for size in (1, 2, 3):
        x = np.random.default_rng(size).normal(size=(2, size, size)).astype(np.float32)
        assert there_and_back(Det, [x], tolerance=1e-5)

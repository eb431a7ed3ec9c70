"""Diagonals and tables of powers of PyTorch, of matrices whose extents are known and of others, against NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphport.ops.declare import ShapeError
from tests.ops.oracle import run_word

RNG = np.random.default_rng(2)
OFFSETS = (-3, -1, 0, 1, 2)


def embedded(x, offset, dim1, dim2):
    """`x` on a diagonal of zeros, entry by entry."""
    size = x.shape[-1] + abs(offset)
    found = np.zeros((*x.shape[:-1], size, size), x.dtype)
    for place in range(x.shape[-1]):
        found[..., place + max(-offset, 0), place + max(offset, 0)] = x[..., place]
    return np.moveaxis(found, (-2, -1), (dim1, dim2))


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize(("dim1", "dim2"), [(0, 1), (1, 2), (0, 2), (2, 0), (-1, -3)])
def test_diagonals_are_taken(dim1, dim2, is_open):
    for shape, offset in itertools.product([(4, 3, 5), (2, 6, 2), (1, 4, 1)], OFFSETS):
        x = RNG.normal(size=shape).astype(np.float32)
        given = {"offset": offset, "dim1": dim1, "dim2": dim2}
        (found,) = run_word("pnnx", "torch.diagonal", [x], symbolic=is_open, **given)
        assert np.array_equal(found, np.diagonal(x, offset, dim1, dim2)), given


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize(("dim1", "dim2"), [(-2, -1), (0, 1), (0, 2), (2, 0), (-1, -2)])
def test_what_lies_on_a_diagonal_has_zeros_around(dim1, dim2, is_open):
    for shape, offset, dtype in itertools.product([(3, 5), (2, 1), (3, 0)], OFFSETS, (np.float32, np.int64)):
        x = RNG.integers(1, 9, shape).astype(dtype)
        given = {"offset": offset, "dim1": dim1, "dim2": dim2}
        (found,) = run_word("pnnx", "torch.diag_embed", [x], symbolic=is_open, **given)
        assert np.array_equal(found, embedded(x, offset, dim1, dim2)), given


def test_a_diagonal_has_two_axes():
    with pytest.raises(ShapeError, match="are equal: axis 1"):
        run_word("pnnx", "torch.diag_embed", [np.ones((2, 3), np.float32)], dim1=1, dim2=-2)


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
def test_diag_does_either(is_open):
    for offset in OFFSETS:
        for shape in ((4,), (3, 5), (5, 2)):
            x = RNG.normal(size=shape).astype(np.float32)
            (found,) = run_word("pnnx", "torch.diag", [x], symbolic=is_open, diagonal=offset)
            assert np.array_equal(found, np.diag(x, offset)), (shape, offset)


@pytest.mark.parametrize("increasing", [False, True])
def test_tables_of_powers(increasing):
    for count in (None, 1, 3, 7):
        for is_open in (False, True) if count else (False,):
            x = RNG.normal(size=5).astype(np.float32)
            (found,) = run_word("pnnx", "torch.vander", [x], symbolic=is_open, N=count, increasing=increasing)
            np.testing.assert_allclose(found, np.vander(x, count, increasing), rtol=1e-5)

from __future__ import annotations

import pytest

from graphport.core.dims import Symbol, TooLong, bounds, maximum, minimum
from graphport.core.dims import terms as limits
from tests.core.dim_samples import C, H, N, roundtrip


def sum_of(count, prefix="s"):
    total = 0
    for index in range(count):
        total = total + Symbol(f"{prefix}{index}", 1)
    return total


@pytest.mark.parametrize(
    "grow",
    [
        pytest.param(lambda x, i: x * x + 1, id="squares"),
        pytest.param(lambda x, i: x * 10**30, id="coefficients"),
        pytest.param(lambda x, i: x + Symbol(f"s{i}"), id="terms"),
        pytest.param(lambda x, i: x * (H + Symbol(f"s{i}")), id="factors"),
        pytest.param(lambda x, i: (x + 1) // C, id="depth"),
        pytest.param(lambda x, i: (x * x) // (x + i + 2), id="quotients"),
        pytest.param(lambda x, i: x // (2 + i), id="divisors"),
        pytest.param(lambda x, i: maximum(x - i, Symbol(f"s{i}", None)), id="maxima"),
        pytest.param(lambda x, i: maximum(x * H, minimum(x, x * C - 3)), id="both extremes"),
        pytest.param(lambda x, i: x + Symbol(f"{i}" * 3000), id="names"),
    ],
)
def test_growth_ends(grow):
    def grown():
        dim = N
        for index in range(300):
            dim = grow(dim, index)
            assert len(str(dim)) < 80_000
            assert index % 16 or roundtrip(dim) == dim

    with pytest.raises(TooLong):
        grown()


def test_products_of_long_sums_are_too_long():
    with pytest.raises(TooLong):
        sum_of(40, "a") * sum_of(40, "b")
    with pytest.raises(TooLong):
        sum_of(limits.MOST_TERMS + 1)


@pytest.mark.parametrize("make", [lambda: (N + 1) // 10**100, lambda: 10**100 // (N + 1), lambda: maximum(N, 10**5000)])
def test_constants_are_limited_inside_divisions_and_extremes(make):
    with pytest.raises(TooLong):
        make()


def test_bounds_of_powers_stay_small():
    dim = Symbol("big", 10**60)
    for _ in range(3):
        dim = dim * dim
    lower, upper = bounds(dim)
    assert lower == 1 << limits.MOST_BITS
    assert upper is None

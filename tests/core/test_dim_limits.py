from __future__ import annotations

from itertools import combinations_with_replacement
from math import inf

import pytest

from graphport.core.dims import Symbol, TooLong, bounds, maximum, minimum
from graphport.core.dims import terms as limits
from graphport.core.dims.intervals import interval_product
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


def test_interval_product_clamps_ends_above_farthest():
    far = limits.FARTHEST
    places = [-inf, -far - 1, -far, 1 - far, 0, far - 1, far, far + 1, inf]
    for lower, upper in combinations_with_replacement(places, 2):
        if (lower, upper) in ((-inf, -inf), (inf, inf)):
            continue
        low, high = interval_product((1, 1), (lower, upper))
        ends = [end for end in (*places, lower, upper) if abs(end) <= far or abs(end) == inf]
        assert low == max(end for end in ends if end <= lower), (lower, upper)
        assert high == min(end for end in ends if end >= upper), (lower, upper)


@pytest.mark.parametrize(("count", "is_found"), [(limits.MOST_TERMS, True), (limits.MOST_TERMS + 1, False)])
def test_bounds_expand_quotients_up_to_the_term_limit(count, is_found):
    """`N - (N + t1 + ...)//2` has a lower bound, for the quotient is half of what is in it and not any number."""
    added = sum_of(count // 2)
    divided = sum((Symbol(f"t{index}", 0, 5) for index in range(count - 1 - count // 2)), start=N)
    lower, upper = bounds(added + N - divided // 2)
    assert (lower is not None) is is_found
    assert upper is None
    assert lower is None or lower <= count // 2 - 5 * (count - 1 - count // 2) // 2

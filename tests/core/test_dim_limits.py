from __future__ import annotations

import pytest

from graphport.core.dims import (
    Symbol,
    Symbolic,
    bounds,
    maximum,
    minimum,
    parse_dim,
    substitute,
    symbols,
)
from graphport.core.dims import terms as limits
from tests.core.dim_samples import C, H, N, is_within_limits, roundtrip


def opaque(dim):
    return isinstance(dim, Symbolic) and str(dim).startswith("~") and list(symbols(dim)) == [str(dim)]


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
def test_growth_ends_in_opaque_symbols(grow):
    dim = N
    seen_opaque = False
    for index in range(300):
        dim = grow(dim, index)
        seen_opaque = seen_opaque or not is_within_limits(dim)
        assert len(str(dim)) < 80_000
    assert seen_opaque
    assert roundtrip(dim) == dim


def test_equal_large_expressions_are_equal_opaque_symbols():
    a, b = sum_of(40, "a"), sum_of(40, "b")
    assert opaque(a * b)
    assert a * b == b * a
    assert a * b - b * a == 0
    assert a * b != a * (b + 1)


def test_opaque_symbols_keep_bounds_and_text():
    dim = sum_of(limits.MOST_TERMS + 1)
    assert opaque(dim)
    assert bounds(dim) == (limits.MOST_TERMS + 1, None)
    assert parse_dim(str(dim + 1), symbols(dim)) == dim + 1


def test_substitution_renames_opaque_symbols():
    dim = sum_of(40, "a") * sum_of(40, "b")
    first, second = substitute(dim, {"a0": N}), substitute(dim, {"a0": C})
    assert len({dim, first, second}) == 3
    assert bounds(first) == bounds(dim)
    assert substitute(dim, {"a0": N}) == first


def test_opaque_names_come_from_the_content():
    assert str(sum_of(40, "a") * sum_of(40, "b"))[:11] == "~6ca51be5d7"


def test_constants_are_limited_inside_divisions_and_extremes():
    assert opaque((N + 1) // 10**100)
    assert opaque(10**100 // (N + 1))
    assert opaque(maximum(N, 10**5000))
    assert bounds(maximum(N, 10**5000)) == (1 << limits.MOST_BITS, None)


def test_bounds_of_powers_stay_small():
    dim = Symbol("big", 10**60)
    for _ in range(3):
        dim = dim * dim
    lower, upper = bounds(dim)
    assert lower == 1 << limits.MOST_BITS
    assert upper is None

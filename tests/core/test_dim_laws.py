"""Dims of symbols with few values, checked exhaustively: values, bounds and decisions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from math import prod
from typing import Any

import pytest

from graphport.core.dims import (
    Symbol,
    Symbolic,
    TooLong,
    bounds,
    ceil_div,
    decide_equal,
    decide_less,
    evaluate,
    maximum,
    minimum,
)
from graphport.core.dims import symbolic as arithmetic
from graphport.core.dims.decisions import settle_equal
from graphport.core.dims.names import dim_name, expression_of
from graphport.core.dims.symbolic import Dim, terms_of
from graphport.core.dims.terms import FARTHEST, Undecided, extent
from tests.core.dim_samples import C, H, N, W
from tests.every import every

BOUNDS = [(-3, -1), (-1, -1), (-1, 1), (0, 0), (0, 2), (1, 3), (2, 2)]

Form = Callable[[Any, Any, Any, Any], Any]
"""Of two dims or numbers, and the functions that are their maximum and minimum."""

ONCE: dict[str, Form] = {
    "sum": lambda a, b, *_: a + b,
    "difference": lambda a, b, *_: a - b,
    "weighted": lambda a, b, *_: 3 * a - 2 * b + 1,
    "product": lambda a, b, *_: a * b,
    "negative product": lambda a, b, *_: -2 * a * b,
    "maximum": lambda a, b, most, _: most(a, b),
    "minimum": lambda a, b, _, least: least(a, b),
    "quotient": lambda a, b, *_: a // b,
    "half": lambda a, b, *_: a // 2 + b,
    "mirrored": lambda a, b, *_: a // -3 + b,
}
"""Forms in which each symbol occurs once."""

EXACT: dict[str, Form] = {
    **ONCE,
    "ceiling": lambda a, b, *_: -(-a // b) if isinstance(b, int) else ceil_div(a, b),
    "remainder by a number": lambda a, b, *_: (a + b) % 3 - a,
    "by a negative number": lambda a, b, *_: (2 * a + b) // -4,
    "cube": lambda a, b, *_: a * a * a + b,
    "third of a product": lambda a, b, *_: (a * b) // 3,
    "polynomial divisor": lambda a, b, *_: (a * b + a + 1) // (b + 1),
    "two strides": lambda a, b, *_: ((a + b) // 2 + 1) // 2,
    "nested quotients": lambda a, b, *_: (a // 2) // 3 + b // 5,
    "quotient of a remainder": lambda a, b, *_: (a % 4) // 2 + b,
    "two remainders": lambda a, b, *_: 3 * (a % 4) - 2 * (b % 3),
    "two quotients": lambda a, b, *_: a // 2 + a // 3 - b,
    "the other half": lambda a, b, *_: a - a // 2 - b,
    "the other quarter": lambda a, b, *_: a - (3 * a) // 4 - b,
    "a third and some": lambda a, b, *_: b - (b // 3) * 2 + a,
    "half of both": lambda a, b, *_: a - (a + b) // 2,
    "half of a half": lambda a, b, *_: a - (a // 2 + b) // 2,
    "shifted quotients": lambda a, b, *_: (a + 7) // 4 - a // 4 + b,
    "product of a quotient": lambda a, b, *_: b * (a // 2) - 1,
    "product of a maximum": lambda a, b, most, _: b * most(a, 0),
    "to a maximum": lambda a, b, most, _: most(a, b) - a,
    "to a minimum": lambda a, b, _, least: a - least(a, b),
    "twice to a maximum": lambda a, b, most, _: 2 * a - most(a, b),
    "twice to a minimum": lambda a, b, _, least: least(a, b) - 2 * a,
    "to the maximum of a half": lambda a, b, most, _: most(a // 2, b) - a // 2,
    "maximum and minimum": lambda a, b, most, least: most(a, b) + least(a, 0),
    "length of a slice": lambda a, b, most, least: most(a - least(a, b), 0),
    "three of a kind": lambda a, b, most, _: most(most(a, b), a + 1),
}
"""Forms of which the bounds are the least and the largest value."""

OTHERS: dict[str, Form] = {
    "square": lambda a, b, *_: a * a - b,
    "third of a square": lambda a, b, *_: (a * a) // 3 - b,
    "remainder": lambda a, b, *_: a % b,
    "polynomial": lambda a, b, *_: a * b - a - b,
    "rising": lambda a, b, *_: a * a + a * b,
    "nested": lambda a, b, *_: (a // 2) // b,
    "quotient of a sum": lambda a, b, *_: (a + b) // 3 + a % 2,
    "factor left": lambda a, b, *_: (2 * a * b + a) // (2 * b),
    "product of a remainder": lambda a, b, *_: b * (a % 3),
    "half of a remainder": lambda a, b, *_: a - 2 * (a // 4) + b,
    "distance": lambda a, b, most, least: most(a, b) - least(a, b),
}


def values_of(form: Form, firsts: Iterable[int], others: Iterable[int]) -> dict[tuple[int, int], int]:
    """Return the values of a form for all pairs of integers without a division by 0."""
    found: dict[tuple[int, int], int] = {}
    for x, y in itertools.product(firsts, others):
        with suppress(ZeroDivisionError):
            found[x, y] = form(x, y, max, min)
    return found


@cache
def cases() -> list[tuple[str, Dim, dict[tuple[int, int], int]]]:
    """Every form of symbols with every kind of bounds, and its values."""
    made: list[tuple[str, Dim, dict[tuple[int, int], int]]] = []
    for name, form in (EXACT | OTHERS).items():
        for (low, high), (least, most) in itertools.product(BOUNDS, BOUNDS):
            dim = form(Symbol("a", low, high), Symbol("b", least, most), maximum, minimum)
            found = values_of(form, range(low, high + 1), range(least, most + 1))
            if found:
                made.append((name, dim, found))
    return made


def test_dims_evaluate_to_integer_arithmetic():
    for case, dim, found in cases():
        for (x, y), number in found.items():
            assert evaluate(dim, {"a": x, "b": y}) == number, (case, dim)


def test_bounds_hold_every_value_and_are_no_wider_than_they_need_be():
    for case, dim, found in cases():
        lower, upper = bounds(dim)
        assert lower is not None, (case, dim)
        assert upper is not None, (case, dim)
        assert lower <= min(found.values()) <= max(found.values()) <= upper, (case, dim)
        if case in EXACT:
            assert (lower, upper) == (min(found.values()), max(found.values())), (case, dim)


def test_bounds_without_an_end_are_those_of_an_end_that_is_far():
    """Far from 0 the forms are monotonic: the values at the limits and close to 0 include the minimum and maximum."""
    far = 10**6
    ends = [(None, None), (None, -1), (None, 2), (-2, None), (0, None), (1, None), (3, None), (-1, 4)]
    for (name, form), first, other in itertools.product(ONCE.items(), ends, ends):
        corners = [
            {low if low is not None else -far, high if high is not None else far, -1, 1} for low, high in (first, other)
        ]
        within = [
            [x for x in found if (low is None or low <= x) and (high is None or x <= high)]
            for found, (low, high) in zip(corners, (first, other), strict=True)
        ]
        found = values_of(form, *within).values()
        expected = tuple(None if abs(end) >= far // 10 else end for end in (min(found), max(found)))
        assert bounds(form(Symbol("a", *first), Symbol("b", *other), maximum, minimum)) == expected, (
            name,
            first,
            other,
        )


def test_decisions_are_right_for_every_value():
    for case, dim, found in cases():
        for number in (-1, 2):
            equal, less = decide_equal(dim, number), decide_less(dim, number)
            assert equal is None or {value == number for value in found.values()} == {equal}, (case, dim)
            assert less is None or {value < number for value in found.values()} == {less}, (case, dim)


@every(
    ("dim", "number", "expected"),
    [
        pytest.param(6 * N + 4 * C, 3, False, id="a sum of even numbers is not odd"),
        pytest.param(6 * N + 4 * C, 4, None, id="and may be even"),
        pytest.param(6 * N + 9 * C + 1, 5, False, id="by 3"),
        pytest.param(6 * N + 9 * C + 1, 4, None, id="by 3 with the same rest"),
        pytest.param(Symbol("x", 3, 3), 3, True, id="one value"),
        pytest.param(Symbol("x", 3, 3), 4, False, id="another one"),
        pytest.param(N * N, -1, False, id="below"),
        pytest.param(-N, 1, False, id="above"),
    ],
)
def test_sums_are_distinguished_from_numbers_by_their_divisors_and_bounds(dim, number, expected):
    assert decide_equal(dim, number) is expected
    assert decide_equal(number, dim) is expected
    assert decide_equal(dim - number, 0) is expected


def test_settle_equal_returns_a_boolean_or_raises_undecided():
    assert settle_equal(N + 1, 1 + N) is True
    assert settle_equal(N, N + 1) is False
    assert settle_equal(3, 3) is True
    with pytest.raises(Undecided, match="whether N equals C, which is undecided before run time"):
        settle_equal(N, C)


# Limits


def powers(count):
    return prod([N] * count)


def plain(count, prefix="s"):
    return sum((Symbol(f"{prefix}{index}") for index in range(count)), start=0)


@every(
    ("limit", "make", "largest"),
    [
        pytest.param("MOST_TERMS", plain, 128, id="terms"),
        pytest.param("MOST_DEGREE", powers, 32, id="factors"),
        pytest.param(
            "MOST_OPERANDS", lambda n: arithmetic.extreme_of(2, [Symbol(f"s{i}") for i in range(n)]), 16, id="operands"
        ),
        pytest.param("MOST_PRODUCTS", lambda n: plain(2, "a") * plain(n // 2, "b"), 6, id="products"),
        pytest.param("MOST_SIZE", lambda n: plain(n // 2), 20, id="size"),
    ],
)
def test_dims_above_a_size_limit_raise_toolong(limit, make, largest, monkeypatch):
    if limit in ("MOST_PRODUCTS", "MOST_SIZE"):
        monkeypatch.setattr(arithmetic, limit, largest)
    assert isinstance(make(largest), Symbolic)
    with pytest.raises(TooLong):
        make(largest + (2 if limit in ("MOST_PRODUCTS", "MOST_SIZE") else 1))


def nested(depth: int) -> Dim:
    dim: Dim = N
    for level in range(depth):
        dim = (dim + 1) // (C + level + 1)
    return dim


def test_division_nesting_is_limited_to_24():
    assert extent(terms_of(nested(24)))[1] == 24
    with pytest.raises(TooLong):
        nested(25)


def test_coefficients_are_limited_to_farthest():
    largest = FARTHEST - 1
    for dim in (N * largest, N * -largest, (N + 1) // largest, maximum(N, largest), minimum(N, -largest)):
        assert evaluate(dim, {"N": 5}) in (5 * largest, -5 * largest, 0, largest, -largest)
    for make in (
        lambda: N * FARTHEST,
        lambda: N * -FARTHEST,
        lambda: C // (N * FARTHEST),
        lambda: (N * N + C) // FARTHEST,
    ):
        with pytest.raises(TooLong):
            make()
    assert str(Symbol("n" * 100_000)) == "n" * 100_000


@every(
    ("dim", "size", "depth"),
    [
        pytest.param(7, 1, 0, id="number"),
        pytest.param(N, 2, 0, id="symbol"),
        pytest.param(Symbol("n" * 32), 3, 0, id="long name"),
        pytest.param(N * N * C + 1, 5, 0, id="polynomial"),
        pytest.param(N // 2, 5, 1, id="quotient"),
        pytest.param((N + 1) // 2 + N, 8, 1, id="quotient beside a symbol"),
        pytest.param(N + (N // C + 1) // H, 13, 2, id="nested"),
        pytest.param((N // C + 1) // H + N // 3, 16, 2, id="nested and not"),
        pytest.param(maximum(N // 3, C), 9, 2, id="maximum of a quotient"),
    ],
)
def test_sizes_count_symbols_numbers_and_operations(dim, size, depth):
    assert extent(terms_of(dim)) == (size, depth)


# Other spellings


@every(
    ("text", "expected"),
    [
        ("1+N", Symbol("N") + 1),
        ("(N)", Symbol("N")),
        ("((N+1))*2", 2 * Symbol("N") + 2),
        ("N-1-2", Symbol("N") - 3),
        ("-N+C", Symbol("C") - Symbol("N")),
        ("N//2//3", Symbol("N") // 6),
        ("N//2*3", 3 * (Symbol("N") // 2)),
        ("N%3*2", 2 * (Symbol("N") % 3)),
        ("N*2//2", Symbol("N")),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("7//2%2", 1),
        ("max(1,N,C)", maximum(maximum(1, Symbol("N")), Symbol("C"))),
        ("min(N)", Symbol("N")),
        ("min(max(N,2),C)*2", 2 * minimum(maximum(Symbol("N"), 2), Symbol("C"))),
        ("`a``b`+1", Symbol("a`b") + 1),
        ("`max`", Symbol("max")),
        ("max-1", None),
        ("max(N", None),
        ("max()", None),
        ("max(N,)", None),
        ("(N", None),
        ("N)", None),
        ("N+", None),
        ("2*-N", None),
        ("--N", None),
        ("N N", None),
        ("N + 1", None),
        ("", None),
        ("2-3", None),
        ("3-3", 0),
        ("1//0", None),
        ("1//(N-N)", None),
        ("N//0", 0),
        ("-0", 0),
        ("-2", None),
    ],
)
def test_expressions_in_any_spelling(text, expected):
    assert expression_of(text) == expected


def test_symbols_of_expressions_are_looked_up():
    narrow = Symbol("N", 1, 8)
    found = expression_of("1+N*M", {"N": narrow})
    assert found == 1 + narrow * Symbol("M")
    assert bounds(expression_of("N+N", {"N": narrow}) or 0) == (2, 16)


def test_bracket_nesting_is_limited_to_72():
    for opening, closing in (("(", ")"), ("max(", ",1)"), ("min(", ",N)")):
        assert expression_of(opening * 72 + "N" + closing * 72) == Symbol("N")
        assert expression_of(opening * 73 + "N" + closing * 73) is None
        beside = "+".join(f"{opening}N{closing}" for _ in range(90))
        assert expression_of(beside) == 90 * Symbol("N")
    assert expression_of("max(" * 40 + "(" * 32 + "N" + ")" * 72) == Symbol("N")
    assert expression_of("max(" * 40 + "(" * 33 + "N" + ")" * 73) is None
    # Those that are closed again leave as many as there were.
    for closed in ("(N)+", "max(N,1)+"):
        assert expression_of(closed * 3 + "(" * 72 + "N" + ")" * 72) == 4 * Symbol("N")
        assert expression_of(closed * 3 + "(" * 73 + "N" + ")" * 73) is None
        assert expression_of(closed * 3 + "max(" * 73 + "N" + ")" * 73) is None


def test_dim_name_quotes_only_ambiguous_symbols():
    names = ("N", "361.0", "1e5", "batch size", "N+1", "7", "max", "a`b")
    assert [dim_name(Symbol(name)) for name in names] == [
        "N",
        "361.0",
        "1e5",
        "batch size",
        "`N+1`",
        "`7`",
        "max",
        "a`b",
    ]
    for dim, text in ((2 * H + 1, "2*H+1"), (Symbol("361.0") + 1, "`361.0`+1")):
        assert isinstance(dim, Symbolic)
        assert dim_name(dim) == text


def test_texts_and_numbers_are_read_up_to_their_limits():
    assert expression_of("N" * 65_536) == Symbol("N" * 65_536)
    assert expression_of("N" * 65_537) is None
    assert expression_of(f"N+{FARTHEST - 1}") == Symbol("N") + (FARTHEST - 1)
    assert expression_of("N+" + "0" * 77 + "1") == Symbol("N") + 1
    assert expression_of("N+" + "0" * 78 + "1") is None


@every(
    ("dim", "text"),
    [
        (H - (H + 3) // 4, "H-((H+3)//4)"),
        (H - 2 * ((H + 3) // 4), "H-2*((H+3)//4)"),
        (2 * H - (H + 3) // 4, "2*H-((H+3)//4)"),
        ((H + 3) // 4 - H, "(H+3)//4-H"),
        (31 - (H + 31) % 32, "31-((H+31)%32)"),
        (62 - 2 * ((H + 31) % 32), "62-2*((H+31)%32)"),
        (C * (31 - (H + 31) % 32), "31*C-C*((H+31)%32)"),
        (1 - (H + 1) % 2, "1-((H+1)%2)"),
        ((H % 4) * 3 - 1, "3*(H%4)-1"),
        (-(H % 4), "-(H%4)"),
        (-3 * (H // 4), "-3*(H//4)"),
        (-(H // 4), "-(H//4)"),
        (5 - H // 4, "5-(H//4)"),
        (-H - W, "-H-W"),
        (maximum(H // 2, 1) * W, "W*max(H//2,1)"),
        (maximum(Symbol("a b"), H) + 1, "max(H,`a b`)+1"),
        (maximum(Symbol("1.5"), H), "max(`1.5`,H)"),
        (minimum(H, 4 - 3 * W), "min(H,4-3*W)"),
        (H // (W + 1), "H//(W+1)"),
        (H // maximum(W, 2), "H//max(W,2)"),
        ((H // 2) * (W % 3) * 5, "5*(H//2)*(W%3)"),
    ],
)
def test_texts_of_dims(dim, text):
    assert str(dim) == text


def test_bounds_of_quotients_of_long_sums():
    def total(name, count):
        return sum((Symbol(f"{name}{number}") for number in range(1, count)), Symbol(f"{name}0"))

    shared, more = total("c", 60), total("d", 40)
    difference = (shared + more) // 2 - shared // 2
    assert bounds(difference) == (20, None)
    # With that many symbols, common parts of quotients are not searched.
    assert bounds(difference + total("e", 40) // 2)[0] is None

"""Extents in SymPy's spelling, which ONNX Runtime's shape inference writes, evaluated by Python's own arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphport.core.dims import Symbol, evaluate, parse_sympy

SYMBOLS = {name: Symbol(name) for name in ("h", "w", "batch size")}
PYTHON = {"floor": math.floor, "ceiling": math.ceil, "Max": max, "Min": min, "Mod": lambda a, b: a % b}


def expressions(texts):
    pairs = st.tuples(texts, texts)
    return st.one_of(
        texts.map(lambda a: f"floor({a}/2 - 1/2) + 1"),
        st.tuples(texts, st.integers(1, 5)).map(lambda p: f"ceiling({p[0]}/{p[1]})"),
        st.tuples(texts, st.integers(1, 5)).map(lambda p: f"Mod({p[0]}, {p[1]})"),
        texts.map(lambda a: f"({a})**2"),
        pairs.map(lambda p: f"({p[0]})*({p[1]})"),
        pairs.map(lambda p: f"Max({p[0]}, {p[1]})"),
        pairs.map(lambda p: f"Min({p[0]}, {p[1]}) - 3*h/2 + 5*h/2"),
    )


@given(st.recursive(st.sampled_from(["h", "w", "7"]), expressions, max_leaves=4), st.integers(1, 99), st.integers(1, 9))
def test_a_text_has_the_value_that_python_computes(text, h, w):
    found = parse_sympy(text, SYMBOLS)
    assume(found is not None)
    numbers = {"h": Fraction(h), "w": Fraction(w)}
    assert evaluate(found, {"h": h, "w": w}) == eval(text, {**PYTHON, **numbers})  # noqa: S307  texts of this test


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("floor(h/2 - 1/2) + 1", "(h+1)//2"),
        ("floor(floor(floor(h/2 - 1/2)/2)/2) + 1", "(h+7)//8"),
        ("(floor(h/32))**2", "(h//32)*(h//32)"),
        ("Max(1, h) + (w - 1)//2", "h+(w+1)//2-1"),
    ],
)
def test_parse_sympy_merges_nested_floors(text, expected):
    assert str(parse_sympy(text, SYMBOLS)) == expected


@pytest.mark.parametrize(
    "text", ["h/2", "floor(h/0)", "h**w", "floor(q/2)", "floor(h", "h h", "1/h + 1", "Max(h/2, 1)", "h**9"]
)
def test_parse_sympy_returns_none_for_non_integer_expressions(text):
    assert parse_sympy(text, SYMBOLS) is None

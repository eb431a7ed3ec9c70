from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.literals import (
    Unspellable,
    attribute_text,
    constant_texts,
    is_default,
    literal_text,
)
from graphport.formats.nnef.container.types import INTEGER, SCALAR, STRING, array_of, tuple_of


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, None, "true"),
        (3, INTEGER, "3"),
        (3, SCALAR, "3.0"),
        (-2.5, SCALAR, "-2.5"),
        (1e20, SCALAR, "1e20"),
        ("a'b", STRING, '"a\'b"'),
        ("a\\", None, "'a\\\\'"),
        ((), array_of(INTEGER), "[]"),
        ((1, 2), array_of(SCALAR), "[1.0, 2.0]"),
        (((1, 2), (3, 4)), array_of(tuple_of(INTEGER, INTEGER)), "[(1, 2), (3, 4)]"),
        (((1, 2.5),), array_of(tuple_of(INTEGER, SCALAR)), "[(1, 2.5)]"),
        (((1,), ()), None, "[[1], []]"),
    ],
)
def test_a_value_is_spelled_by_its_type(value, kind, text):
    assert attribute_text(value, kind) == text


@pytest.mark.parametrize(
    "value", [math.inf, math.nan, 2**63, -(2**63) - 1, "ü", "a\n", Symbol("N"), None, DType.INT8, (1, Symbol("N"))]
)
def test_a_value_without_literal_is_refused(value):
    with pytest.raises(Unspellable):
        attribute_text(value, None)


def test_the_provisional_edition_has_no_negative_numbers():
    for value in (-1, -0.5, (1, -1)):
        with pytest.raises(Unspellable):
            attribute_text(value, None, allows_minus=False)
    assert literal_text(storage_of(np.float32(-1)), allows_minus=False) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_read_back_exactly(number):
    assert float(attribute_text(number, SCALAR)) == number
    assert "+" not in attribute_text(number, SCALAR)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_single_floats_are_read_back_exactly_and_are_no_integers(number):
    text = literal_text(storage_of(np.float32(number)))
    assert text is not None
    assert np.float32(text) == np.float32(number)
    assert not text.lstrip("-").isdigit()


def test_only_tensors_of_rank_0_are_literals():
    assert literal_text(storage_of(np.ones((1,), np.float32))) is None
    assert literal_text(storage_of(np.uint8(7))) == "7"
    assert literal_text(storage_of(np.bool_(True))) == "true"
    assert literal_text(storage_of(np.complex64(1))) is None


def test_constants_are_spelled_in_row_major_order():
    assert constant_texts(storage_of(np.array([[1, 2], [3, 4]], np.int8))) == ["1", "2", "3", "4"]
    assert constant_texts(storage_of(np.array([True, False]))) == ["true", "false"]


@pytest.mark.parametrize(
    ("value", "default", "expected"),
    [
        (1, 1, True),
        (1.0, 1, True),
        (0.0, 0.0, True),
        (-0.0, 0.0, False),
        (True, 1, False),
        (False, False, True),
        ((), (), True),
        ((1,), (1,), True),
        ((1,), (2,), False),
        ("constant", "constant", True),
    ],
)
def test_a_default_is_known_when_it_is_seen(value, default, expected):
    assert is_default(value, default) is expected

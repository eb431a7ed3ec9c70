"""Values of parameters, shapes and element types as PNNX spells them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.formats.pnnx.container.values import format_float, format_tensor, format_value, parse_tensor, parse_value
from tests.every import every

VALUES = [
    ("None", None),
    ("()", None),
    ("[]", None),
    ("True", True),
    ("False", False),
    ("3", 3),
    ("-7", -7),
    ("3000000000", 3000000000),
    ("0.5", 0.5),
    ("1.000000e-05", 1e-5),
    ("zeros", "zeros"),
    ("torch.float", "torch.float"),
    ("inf", math.inf),
    ("-inf", -math.inf),
    ("(1,2)", (1, 2)),
    ("(1.0,2.5)", (1.0, 2.5)),
    ("(1,None,x)", (1, None, "x")),
    ("(@0,@1)", ("@0", "@1")),
    ("1.000000e+00+2.000000e+00j", 1 + 2j),
    ("1.000000e+00+-3.000000e+00j", 1 - 3j),
    ("%h", "%h"),
]


@every(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_text_has_a_value(text, value):
    assert parse_value("key", text) == value


def test_nan_is_read_with_the_ending_that_pnnx_gives_it():
    assert math.isnan(parse_value("key", "nan.0"))


@pytest.mark.parametrize("text", ["0.3", "[1,2]", "None", "add(@0,@1)"])
def test_an_expression_stays_a_text(text):
    assert parse_value("expr", text) == text


@pytest.mark.parametrize("text", ["1.2.3", "(1,2", "3x", "9" * 50, "1+j"])
def test_what_begins_like_a_number_and_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_value("key", text)


FLOATS = [
    (0.0, "0.0"),
    (1.0, "1.0"),
    (0.1, "0.1"),
    (1e-5, "1.000000e-5"),
    (3.25e9, "3.250000e9"),
    (8**-0.5, "0.353553385"),
    (1 / 6, "0.166666672"),
    (-2.5, "-2.5"),
]


@pytest.mark.parametrize(("number", "text"), FLOATS, ids=[text for _, text in FLOATS])
def test_float_is_spelled_as_pnnx_does(number, text):
    assert format_float(number) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_spelled_float_is_the_same_float32(number):
    assert np.float32(float(format_float(number))) == np.float32(number)


@given(st.one_of(st.none(), st.booleans(), st.integers(-(2**31), 2**31), st.lists(st.integers(-9, 9), min_size=1)))
def test_spelled_value_is_read_again(value):
    value = tuple(value) if isinstance(value, list) else value
    assert parse_value("key", format_value(value)) == value


def test_a_text_with_blanks_has_no_spelling():
    with pytest.raises(ValueError, match="cannot represent"):
        format_value("two words")


def test_open_lengths_are_called_after_the_operand():
    assert parse_tensor("(1,?,%w,-1)f16", "x") == (DType.FLOAT16, (1, Symbol("x.1"), Symbol("w"), Symbol("x.3")))
    assert parse_tensor("()f32", "x") == (DType.FLOAT32, ())
    assert parse_tensor("(2)null", "x") == (None, (2,))


@pytest.mark.parametrize("text", ["", "f32", "(1,2)", "(1,a)f32", "(1,2)f99", "(1,2)f32x", "(99999999999999999999)f32"])
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_tensor(text, "x")


def test_shape_is_spelled_with_what_is_known():
    assert format_tensor(DType.BFLOAT16, (1, Symbol("n"), 3)) == "(1,?,3)bf16"
    with pytest.raises(ValueError, match="no tensors of uint16"):
        format_tensor(DType.UINT16, (1,))

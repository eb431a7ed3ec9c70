from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.formats.nnef.container.evaluate import (
    EvaluationFault,
    OpenExtent,
    binary,
    cast_to,
    contains,
    equal,
    get_item,
    get_slice,
    unary,
)
from tests.every import every

ROOM = 1000
N = Symbol("N", 1)
integers = st.integers(-(2**63), 2**63 - 1)


def fault(compute, *values) -> str:
    with pytest.raises(EvaluationFault) as caught:
        compute(*values)
    return caught.value.code


@every(
    ("operator", "left", "right", "value"),
    [
        pytest.param("+", 2, 3, 5, id="integer plus"),
        pytest.param("/", 7, 2, 3, id="integers divide towards zero"),
        pytest.param("/", -7, 2, -3, id="negative ones too"),
        pytest.param("/", 7, -2, -3, id="by a negative one"),
        pytest.param("/", -7, -2, 3, id="both negative"),
        pytest.param("^", 2, 10, 1024, id="integer power"),
        pytest.param("^", -3, 3, -27, id="an odd power"),
        pytest.param("^", -1, 10**12, 1, id="a large power of minus one"),
        pytest.param("^", 0, 0, 1, id="nothing to the nothing"),
        pytest.param("/", 1.0, 4.0, 0.25, id="scalar division"),
        pytest.param("^", 2.0, -1.0, 0.5, id="scalar power"),
        pytest.param("+", [1], [2, 3], [1, 2, 3], id="arrays join"),
        pytest.param("*", [1, 2], 2, [1, 2, 1, 2], id="arrays repeat"),
        pytest.param("*", [1], 0, [], id="no times is empty"),
        pytest.param("+", "ab", "c", "abc", id="strings join"),
        pytest.param("*", "ab", 2, "abab", id="strings repeat"),
        pytest.param("<=", 2, 2, True, id="at most"),
        pytest.param("!=", "a", "b", True, id="strings differ"),
        pytest.param("==", True, False, False, id="logicals differ"),
        pytest.param("in", (1, 2), [(2, 1), (1, 2)], True, id="a tuple in an array"),
        pytest.param("in", [1], [[1, 1], []], False, id="an array not in an array"),
    ],
)
def test_operators(operator, left, right, value):
    assert binary(operator, left, right, ROOM) == value


@pytest.mark.parametrize(
    ("operator", "left", "right", "code"),
    [
        pytest.param("/", 1, 0, "NNEF0501", id="integer by zero"),
        pytest.param("/", 1.0, 0.0, "NNEF0501", id="scalar by zero"),
        pytest.param("+", 2**63 - 1, 1, "NNEF0502", id="beyond 64 bits"),
        pytest.param("*", -(2**62), 4, "NNEF0502", id="below 64 bits"),
        pytest.param("/", -(2**63), -1, "NNEF0502", id="the quotient that does not fit"),
        pytest.param("^", 2, 63, "NNEF0502", id="a power that does not fit"),
        pytest.param("^", 10, 10**15, "NNEF0502", id="a power that would not fit in memory"),
        pytest.param("*", [1], -1, "NNEF0509", id="a negative number of times"),
        pytest.param("*", [1], 2 * 10**9, "NNEF0510", id="an array too long"),
        pytest.param("+", [0] * 600, [0] * 600, "NNEF0510", id="arrays too long together"),
        pytest.param("*", "ab", 10**18, "NNEF0510", id="a string too long"),
        pytest.param("^", 2, -1, "NNEF0511", id="an integer to a negative power"),
        pytest.param("^", 10.0, 400.0, "NNEF0511", id="a power beyond doubles"),
        pytest.param("^", -8.0, 0.5, "NNEF0511", id="a power that is not real"),
        pytest.param("*", 1e300, 1e300, "NNEF0511", id="a product beyond doubles"),
    ],
)
def test_an_operation_without_a_value_is_a_fault(operator, left, right, code):
    assert fault(binary, operator, left, right, ROOM) == code


@given(integers, integers.filter(bool))
def test_quotient_and_remainder_make_the_dividend(a, b):
    if (a, b) == (-(2**63), -1):
        return
    quotient = binary("/", a, b, ROOM)
    remainder = a - quotient * b
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)


def test_unary_operators():
    assert [unary("-", 2), unary("-", -2.5), unary("+", 3), unary("!", True)] == [-2, 2.5, 3, False]
    assert fault(unary, "-", -(2**63)) == "NNEF0502"


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        *[
            ("integer", True, 1),
            ("integer", "42", 42),
            ("integer", 2.7, 2),
            ("integer", -1.5, -2),
        ],
        *[("scalar", False, 0.0), ("scalar", "1.5e2", 150.0), ("scalar", "3", 3.0), ("scalar", 7, 7.0)],
        *[("logical", 0, False), ("logical", 0.5, True), ("logical", "", False), ("logical", "false", True)],
        *[("string", True, "true"), ("string", 1, "1"), ("string", 0.1, "0.1"), ("string", "abc", "abc")],
    ],
)
def test_casts(name, value, result):
    cast = cast_to(name, value)
    assert cast == result
    assert type(cast) is type(result)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        pytest.param("integer", "1.0", "NNEF0505", id="a scalar literal for an integer"),
        pytest.param("integer", "-3", "NNEF0505", id="a sign: the grammar has no signed literal"),
        pytest.param("integer", "+3", "NNEF0505", id="a positive sign"),
        pytest.param("scalar", "-0.5", "NNEF0505", id="a signed scalar"),
        pytest.param("integer", " 1", "NNEF0505", id="white space before"),
        pytest.param("integer", "1a", "NNEF0505", id="something behind"),
        pytest.param("scalar", "", "NNEF0505", id="nothing"),
        pytest.param("scalar", "inf", "NNEF0505", id="a word"),
        pytest.param("scalar", "１", "NNEF0505", id="a digit outside of ASCII"),
        pytest.param("scalar", "1e999", "NNEF0511", id="beyond doubles"),
        pytest.param("integer", "9" * 30, "NNEF0502", id="beyond 64 bits"),
        pytest.param("integer", "9" * 100_000, "NNEF0505", id="far beyond 64 bits"),
        pytest.param("integer", 1e300, "NNEF0502", id="a scalar beyond 64 bits"),
    ],
)
def test_a_cast_without_a_value_is_a_fault(name, value, code):
    assert fault(cast_to, name, value) == code


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_scalars_survive_their_literal_unless_it_has_a_sign(value):
    literal = cast_to("string", value)
    if literal.startswith("-"):
        assert fault(cast_to, "scalar", literal) == "NNEF0505"
    else:
        assert cast_to("scalar", literal) == value


def test_items_and_parts():
    assert get_item([1, 2], 1) == 2
    assert get_item("abc", 0) == "a"
    assert get_slice([1, 2, 3], None, 2) == [1, 2]
    assert get_slice("abcd", 1, 3) == "bc"
    assert get_slice([1, 2, 3], 2, 2) == get_slice([1, 2, 3], 2, 1) == []


@pytest.mark.parametrize("index", [-1, 3, 10**12])
def test_an_index_outside_is_a_fault(index):
    assert fault(get_item, [1, 2, 3], index) == "NNEF0503"
    assert fault(get_item, "abc", index) == "NNEF0503"


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (0, 4), (4, None), (None, -1)])
def test_a_range_beyond_the_length_is_a_fault(begin, end):
    assert fault(get_slice, [1, 2, 3], begin, end) == "NNEF0504"


def test_dynamic_dims_are_computed_with():
    assert binary("+", N, 1, ROOM) == N + 1
    assert binary("*", binary("/", binary("*", N, 4, ROOM), 2, ROOM), 3, ROOM) == N * 6
    assert binary("^", N, 2, ROOM) == N * N
    assert binary("-", N, N, ROOM) == 0
    assert equal(N, N)
    assert binary(">", N, 0, ROOM) is True
    assert cast_to("logical", N) is True


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda: binary("==", N, 2, ROOM), id="a comparison"),
        pytest.param(lambda: binary("*", [1], N, ROOM), id="a number of times"),
        pytest.param(lambda: binary("^", N, 100, ROOM), id="a high power"),
        pytest.param(lambda: binary("/", binary("-", N, 5, ROOM), 2, ROOM), id="a quotient of unknown sign"),
        pytest.param(lambda: get_item([1, 2], N), id="an index"),
        pytest.param(lambda: cast_to("string", N), id="a literal"),
        pytest.param(lambda: cast_to("scalar", N), id="a scalar"),
        pytest.param(lambda: contains([1, N], 2), id="a membership"),
    ],
)
def test_operators_that_need_a_static_size_state_so(compute):
    with pytest.raises(OpenExtent):
        compute()


def test_a_membership_may_be_certain_all_the_same():
    assert contains([N, 2], 2)

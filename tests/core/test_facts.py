from __future__ import annotations

from math import nan

import numpy as np
import pytest

from graphport.core.dims import Symbol, bounds
from graphport.core.dtypes import DType
from graphport.core.facts import (
    MOST_ELEMENTS,
    MOST_REALS,
    OPEN,
    OPEN_ELEMENT,
    UNKNOWN,
    OptionalFact,
    SequenceFact,
    TensorFact,
    Unknown,
    as_integer,
    closed,
    is_open_dim,
    named,
    open_dim,
)
from graphport.core.storage import Storage, storage_of

N = Symbol("N")
FLOAT = TensorFact(DType.FLOAT32, (N, 3))


def test_facts_are_equal_by_content():
    assert TensorFact(DType.FLOAT32, (Symbol("N"), 3)) == FLOAT
    assert hash(TensorFact(DType.FLOAT32, (Symbol("N"), 3))) == hash(FLOAT)
    assert TensorFact(DType.FLOAT32, (N, 4)) != FLOAT
    assert SequenceFact(FLOAT) == SequenceFact(FLOAT) != OptionalFact(FLOAT)


@pytest.mark.parametrize(
    ("fact", "text"),
    [
        (FLOAT, "float32[N, 3]"),
        (UNKNOWN, "?[...]"),
        (TensorFact(DType.BOOL, ()), "bool[]"),
        (SequenceFact(OptionalFact(FLOAT)), "sequence(optional(float32[N, 3]))"),
    ],
)
def test_facts_look_like_this(fact, text):
    assert str(fact) == text


def test_unknown_properties_raise_unknown():
    assert (FLOAT.dims, FLOAT.rank) == ((N, 3), 2)
    for ask in ("dims", "rank", "known", "numbers"):
        with pytest.raises(Unknown):
            getattr(UNKNOWN, ask)
    fact = TensorFact(DType.INT64, (2,), (N, 1))
    assert fact.known_elements == (N, 1)
    with pytest.raises(Unknown):
        _ = fact.integer_elements
    assert TensorFact(DType.INT64, (2,), (4, 1)).integer_elements == (4, 1)
    assert as_integer(3) == 3
    with pytest.raises(Unknown):
        as_integer(N)


def test_fact_is_static_if_every_dim_is_an_integer():
    assert TensorFact(None, (1, 2)).is_static
    assert TensorFact(None, ()).is_static
    assert not FLOAT.is_static
    assert not UNKNOWN.is_static


def test_changed_facts_drop_invalid_elements():
    fact = TensorFact(DType.INT64, (2,), (N, 1))
    assert fact.with_shape([2, 1]) == TensorFact(DType.INT64, (2, 1))
    assert fact.with_shape(None) == TensorFact(DType.INT64, None)
    assert fact.with_dtype(DType.INT32) == TensorFact(DType.INT32, (2,))
    assert fact.with_elements([3, 4]) == TensorFact(DType.INT64, (2,), (3, 4))
    assert fact.with_elements(None) == TensorFact(DType.INT64, (2,))
    assert fact.with_elements([1] * MOST_ELEMENTS).elements is not None
    assert fact.with_elements([1] * (MOST_ELEMENTS + 1)).elements is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(np.int64(5), TensorFact(DType.INT64, (), (5,)), id="an integer"),
        pytest.param([1, 2], TensorFact(DType.INT64, (2,), (1, 2)), id="integers"),
        pytest.param([True, False], TensorFact(DType.BOOL, (2,), (1, 0)), id="bools"),
        pytest.param([[1, 2], [3, 4]], TensorFact(DType.INT64, (2, 2), (1, 2, 3, 4)), id="a table"),
        pytest.param([[[1]]], TensorFact(DType.INT64, (1, 1, 1)), id="a stack of tables"),
        pytest.param([0.5, -1.0], TensorFact(DType.FLOAT64, (2,), None, (0.5, -1.0)), id="floats"),
        pytest.param([[0.5]], TensorFact(DType.FLOAT64, (1, 1)), id="a table of floats"),
        pytest.param([0.5] * (MOST_REALS + 1), TensorFact(DType.FLOAT64, (MOST_REALS + 1,)), id="many floats"),
        pytest.param([1j], TensorFact(DType.COMPLEX128, (1,)), id="complex numbers"),
        pytest.param(["a"], TensorFact(DType.STRING, (1,)), id="texts"),
        pytest.param([1] * (MOST_ELEMENTS + 1), TensorFact(DType.INT64, (MOST_ELEMENTS + 1,)), id="many integers"),
    ],
)
def test_short_constants_are_looked_into(data, expected):
    fact = TensorFact.of(storage_of(data))
    assert fact == expected
    assert all(type(element) is int for element in fact.elements or ())


def test_elements_of_half_a_byte_are_integers():
    assert TensorFact.of(storage_of([-8, 7], DType.INT4)).elements == (-8, 7)


def test_facts_with_nan_are_equal():
    storage = storage_of([nan, 1.0], DType.FLOAT32)
    assert TensorFact.of(storage) == TensorFact.of(storage) == TensorFact(DType.FLOAT32, (2,), None, (nan, 1.0))
    assert hash(TensorFact.of(storage)) == hash(TensorFact.of(storage))


def test_large_constants_are_not_read():
    class Unread(Storage):
        def numpy(self):
            raise RuntimeError

        def chunks(self, limit=0):
            raise RuntimeError

    for dtype, shape in ((DType.INT64, (MOST_ELEMENTS + 1,)), (DType.INT64, (1, 1, 1)), (DType.FLOAT32, (1 << 30,))):
        assert TensorFact.of(Unread(dtype, shape)) == TensorFact(dtype, shape)


def test_data_dependent_elements_are_unbounded():
    fact = named(TensorFact(DType.INT64, (2,), (4, OPEN_ELEMENT)), "y", 1)
    assert fact == TensorFact(DType.INT64, (2,), (4, Symbol("y.1", None)))
    assert bounds(fact.elements[1]) == (None, None)


def test_data_dependent_dims_are_named_after_the_value():
    fact = TensorFact(DType.INT64, (2, OPEN, OPEN + N))
    assert named(fact, "y") == TensorFact(DType.INT64, (2, Symbol("y.1", 0), Symbol("y.2", 0) + N))
    assert named(OptionalFact(fact), "y") == OptionalFact(named(fact, "y"))
    assert named(SequenceFact(fact), "y") == SequenceFact(fact)
    for same in (FLOAT, UNKNOWN):
        assert named(same, "y") is same


def test_open_dim_has_the_given_upper_bound():
    assert bounds(open_dim(None)) == bounds(OPEN) == (0, None)
    assert bounds(open_dim(5)) == (0, 5)
    assert bounds(open_dim(0)) == (0, 0)
    assert bounds(open_dim(-1)) == bounds(open_dim(N)) == (0, None)
    assert [is_open_dim(dim) for dim in (OPEN, open_dim(3) + N, (N + OPEN) // 2, N, 4)] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_open_dims_are_closed_with_their_bounds():
    asked = []

    def made(low, high):
        asked.append((low, high))
        return Symbol("k", low, high)

    assert closed(open_dim(7) * 2 + N, made) == 2 * Symbol("k", 0, 7) + N
    assert asked == [(0, 7)]
    assert closed(N, made) is N
    assert closed(3, made) == 3
    assert asked == [(0, 7)]


def test_named_dim_has_the_given_lower_bound():
    fact = TensorFact(DType.BOOL, (open_dim(9), N, OPEN), None)
    assert named(fact, "y", 2) == TensorFact(DType.BOOL, (Symbol("y.0", 2, 9), N, Symbol("y.2", 2)))
    assert named(fact, "y") == TensorFact(DType.BOOL, (Symbol("y.0", 0, 9), N, Symbol("y.2", 0)))


def test_elements_keep_the_real_numbers_next_to_them():
    fact = TensorFact(DType.FLOAT32, (1,), None, (0.5,))
    assert fact.with_elements([1]) == TensorFact(DType.FLOAT32, (1,), (1,), (0.5,))
    assert str(TensorFact(DType.INT8, (OPEN, N, OPEN))) == "int8[?, N, ?]"

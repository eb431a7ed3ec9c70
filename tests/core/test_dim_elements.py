from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject

from graphport.core.dims import (
    Element,
    Symbol,
    TooLong,
    Undecided,
    dim_of,
    element,
    maximum,
)
from tests.core.dim_samples import FREE, H, N, W, bindings, composites, evaluated, expressions


def array(*entries):
    return np.array([element(entry) for entry in entries], dtype=object)


def entries(values):
    return [dim_of(value) for value in values.tolist()]


@given(composites, expressions, bindings)
def test_elements_compute_like_dims(a, b, numbers):
    try:
        _compute_alike(a, b, numbers)
    except TooLong:
        reject()  # no network has such dims, and neither elements nor dims can represent them


def _compute_alike(a, b, numbers):
    x, y = Element(a), element(b)
    assert dim_of(x + y) == dim_of(y + x) == a + b
    assert dim_of(x - y) == a - b
    assert dim_of(y - x) == b - a
    assert dim_of(x * y) == dim_of(y * x) == a * b
    assert dim_of(-x) == -a
    assert evaluated(dim_of(abs(x)), numbers) == abs(evaluated(a, numbers))
    if b != 0:
        assert dim_of(x // y) == a // b
        assert dim_of(x % y) == a % b
    assert dim_of(y // x) == b // a
    assert dim_of(y % x) == b % a


def test_known_results_are_python_integers():
    assert type(Element(N) - Element(N)) is int
    assert type(element(3)) is int
    assert type(Element(N) * np.int64(0)) is int


def test_proven_comparisons_return_booleans():
    n = element(N + 1)
    same = element(N + 1)
    assert (n == same, n != same, n == 0, n != 0) == (True, False, False, True)
    assert (n < 1, n <= 0, n > 0, n >= 1) == (False, False, True, True)
    assert (n > np.int64(0), np.int64(0) < n) == (True, True)
    assert bool(n) is True
    assert Element(Symbol("N", 4, 4)) == 4
    assert int(Element(Symbol("N", 4, 4))) == 4
    assert (Element(N) == "N", Element(N) != None) == (False, True)  # noqa: E711


@pytest.mark.parametrize(
    "question",
    [
        *(lambda n: n == 1, lambda n: n != 1, lambda n: n < 1, lambda n: n <= 1, lambda n: n > 1, lambda n: n >= 1),
        *(bool, int, range, float),
    ],
)
def test_open_questions_are_undecided(question):
    with pytest.raises(Undecided, match="N"):
        question(Element(N))


def test_elements_have_no_hash():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Element(N))


def test_other_values_are_no_dims():
    with pytest.raises(TypeError, match="is not a dim"):
        dim_of(1.5)


def test_numpy_moves_elements():
    shape = array(N, 3, H, W)
    assert entries(np.take(shape, [2, 0])) == [H, N]
    assert entries(np.concatenate([shape[:1], array(-1), np.array([5])])) == [N, -1, 5]
    assert entries(np.where(np.array([True, False, True, False]), shape, array(0, 1, 2, 3))) == [N, 1, H, 3]
    assert entries(shape[::-1].reshape(2, 2).T.ravel()) == [W, 3, H, N]


def test_numpy_computes_with_elements():
    shape = array(N, 3, H)
    assert entries(np.add(shape, 1)) == [N + 1, 4, H + 1]
    assert entries(np.array([1, 2, 3]) + shape) == [N + 1, 5, H + 3]
    assert entries(np.array([1, 2]) * Element(N)) == [N, 2 * N]
    assert dim_of(np.int64(7) - Element(N)) == 7 - N
    assert dim_of(np.int64(7) // Element(N)) == 7 // N
    assert entries(-shape // 2) == [-N // 2, -2, -H // 2]
    assert entries(np.cumsum(shape)) == [N, N + 3, N + H + 3]
    assert dim_of(np.prod(shape)) == 3 * H * N
    assert dim_of(np.sum(shape)) == N + H + 3
    assert entries(np.abs(array(N, -N, FREE))) == [N, N, maximum(FREE, -FREE)]
    assert entries(np.mod(shape, 2)) == [N % 2, 1, H % 2]


def test_numpy_compares_elements():
    shape = array(N + 1, 3, H + 5)
    assert np.equal(shape, array(0, 3, H + 5)).tolist() == [False, True, True]
    assert entries(np.minimum(shape, 0)) == [0, 0, 0]
    assert entries(np.maximum(shape, array(N, 4, H))) == [N + 1, 4, H + 5]
    assert entries(np.where(np.equal(shape, 0), 7, shape)) == [N + 1, 3, H + 5]
    assert (shape > 0).tolist() == [True, True, True]


@pytest.mark.parametrize("function", [np.equal, np.minimum, np.maximum, np.less])
def test_numpy_passes_undecided_on(function):
    with pytest.raises(Undecided):
        function(array(N, 3), 1)


def test_numpy_cannot_make_unknown_numbers_integers():
    with pytest.raises(Undecided):
        array(N, 3).astype(np.int64)


def test_element_str_is_its_dim():
    assert (str(Element(N + 1)), repr(Element(N + 1))) == ("N+1", "Element(N+1)")
    assert dim_of(+Element(N)) == N
    assert +N is N


def test_division_by_zero_differs_between_runtimes():
    for divided in (lambda n: n // 0, lambda n: n % 0, lambda n: 3 // (n - n)):
        with pytest.raises((Undecided, ZeroDivisionError)):
            divided(Element(N))
    with pytest.raises(Undecided, match="N divided by 0"):
        Element(N) // 0

"""Shapes that remedies show."""

from __future__ import annotations

import pytest

from graphport.core.dims import Symbol, example
from graphport.core.dims.example import examples


@pytest.mark.parametrize(("shape", "expected"), [
    pytest.param((Symbol("N"), 3, 8, 8), "1x3x8x8", id="a batch"),
    pytest.param((Symbol("N"), 3, Symbol("H"), Symbol("W")), "1x3x224x224", id="a picture"),
    pytest.param((1, Symbol("T", 1, 128)), "1x128", id="within bounds"),
    pytest.param((Symbol("N", 4, None), 2 * Symbol("C")), "4x448", id="at least so many"),
    pytest.param((), "", id="a number"),
])  # fmt: skip
def test_open_axes_get_a_length_and_others_keep_theirs(shape, expected):
    assert example(shape) == expected


def test_an_open_axis_has_the_length_within_its_bounds_that_is_nearest():
    assert (
        example((Symbol("N", 2, 8), Symbol("C", 300), Symbol("H", 1, 100), Symbol("W", None), 3)) == "2x300x100x224x3"
    )
    assert example(()) == ""
    assert example((Symbol("N") - 2, Symbol("N") * 3)) == "0x3"


def test_example_sizes_of_a_symbol_are_equal_in_all_shapes():
    n, seq = Symbol("N"), Symbol("seq")
    assert examples({"ids": (n, seq), "mask": (seq, n)}) == {"ids": "1x224", "mask": "224x1"}
    assert examples({"mask": (seq, n), "ids": (n, seq)}) == {"mask": "1x224", "ids": "224x1"}

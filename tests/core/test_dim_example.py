"""Shapes that remedies show."""

from __future__ import annotations

import pytest

from graphport.core.dims import Symbol, example


@pytest.mark.parametrize(("shape", "expected"), [
    pytest.param((Symbol("N"), 3, 8, 8), "1x3x8x8", id="a batch"),
    pytest.param((Symbol("N"), 3, Symbol("H"), Symbol("W")), "1x3x224x224", id="a picture"),
    pytest.param((1, Symbol("T", 1, 128)), "1x128", id="within bounds"),
    pytest.param((Symbol("N", 4, None), 2 * Symbol("C")), "4x448", id="at least so many"),
    pytest.param((), "", id="a number"),
])  # fmt: skip
def test_open_axes_get_a_length_and_others_keep_theirs(shape, expected):
    assert example(shape) == expected

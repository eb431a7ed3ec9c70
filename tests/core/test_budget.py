"""Elements that rules create are counted, and refused before memory is allocated."""

from __future__ import annotations

import pytest

from graphport.core.budget import (
    LIMITS,
    MOST_AT_ONCE,
    MOST_MADE,
    SETTING,
    OverBudgetError,
    bounded,
    fits_in_memory,
    fresh,
    limit,
    reserve,
    reserve_expanded,
    shown,
)


def test_reserved_elements_reduce_the_budget():
    with fresh() as budget:
        assert budget.entries == MOST_MADE
        assert reserve(3, 4, 5) == 60
        assert budget.entries == MOST_MADE - 60
        assert reserve(7, 0) == 0
        assert reserve(7, -3) == 0
        assert budget.entries == MOST_MADE - 60
        with fresh() as inner:
            assert inner is budget
        assert bounded(iter((2, 5))) == (2, 5)
        assert budget.entries == MOST_MADE - 70


def test_only_single_arrays_are_limited_outside_a_budget():
    for _ in range(2 * MOST_MADE // MOST_AT_ONCE):
        assert reserve(MOST_AT_ONCE) == MOST_AT_ONCE


def test_exhausted_budget_raises_overbudgeterror():
    with fresh() as budget:
        for _ in range(MOST_MADE // MOST_AT_ONCE):
            reserve(MOST_AT_ONCE)
        assert budget.entries == 0
        assert reserve(0) == 0
        with pytest.raises(
            OverBudgetError, match=f"{MOST_MADE} elements of generated constants is reached; set {SETTING}"
        ):
            reserve(1)
    with fresh() as budget:
        assert budget.entries == MOST_MADE


@pytest.mark.parametrize(
    ("extents", "words"),
    [
        ((MOST_AT_ONCE + 1,), f"{MOST_AT_ONCE + 1} masks, the limit is {MOST_AT_ONCE}; set {SETTING} to raise it"),
        ((2, MOST_AT_ONCE), f"{2 * MOST_AT_ONCE} masks"),
        ((1 << 40, 1 << 40), "more than 2\\^63 masks"),
        ((0, 1 << 40, 1 << 40), "masks"),
    ],
)
def test_single_array_size_is_limited(extents, words):
    with pytest.raises(OverBudgetError, match=words):
        reserve(*extents, what="masks")
    with pytest.raises(OverBudgetError, match="the limit is"):
        bounded(extents)


def test_empty_array_with_addressable_dims_is_allowed():
    assert reserve(0, 1 << 59) == 0
    with pytest.raises(OverBudgetError):
        reserve(0, (1 << 59) + 1)


def test_expanded_element_count_is_limited():
    assert reserve_expanded(MOST_MADE, "pairs") == MOST_MADE
    with pytest.raises(OverBudgetError, match=f"{MOST_MADE + 1} pairs, the limit is {MOST_MADE}"):
        reserve_expanded(MOST_MADE + 1, "pairs")


def test_the_setting_allows_more_and_less(monkeypatch):
    monkeypatch.setenv(SETTING, "80")
    with fresh() as budget:
        assert budget.entries == 80
    with pytest.raises(OverBudgetError):
        reserve_expanded(81, "pairs")
    monkeypatch.setenv(SETTING, str(16 * MOST_AT_ONCE))
    assert reserve(2 * MOST_AT_ONCE) == 2 * MOST_AT_ONCE
    with pytest.raises(OverBudgetError):
        reserve(2 * MOST_AT_ONCE + 1)
    for text in ("", "many", "-5", "1" * 19, "٣"):
        monkeypatch.setenv(SETTING, text)
        with fresh() as budget:
            assert budget.entries == MOST_MADE


def test_bounds_of_readers_are_reported_by_name(monkeypatch):
    assert limit("nnef.depth", 7) == 7
    monkeypatch.setenv(LIMITS, "nnef.depth=20, onnx.inlined=3  nnef.depth=9,caffe=x,own=-1,last=" + "9" * 18)
    assert [limit(name, 7) for name in ("nnef.depth", "onnx.inlined", "caffe", "own", "nnef")] == [20, 3, 7, 7, 7]
    assert limit("last", 7) == int("9" * 18)


def test_count_above_2_63_is_abbreviated_in_the_message():
    for count, told in (((1 << 63) - 1, str((1 << 63) - 1)), (1 << 63, "more than 2\\^63")):
        with pytest.raises(OverBudgetError, match=f"^{told} pairs, the limit is"):
            reserve_expanded(count, "pairs")


def test_single_array_limit_is_an_eighth_of_the_budget(monkeypatch):
    monkeypatch.setenv(SETTING, str(8 * MOST_AT_ONCE + 8))
    assert reserve(MOST_AT_ONCE + 1) == MOST_AT_ONCE + 1
    with pytest.raises(OverBudgetError):
        reserve(MOST_AT_ONCE + 2)
    monkeypatch.setenv(SETTING, "1")
    assert reserve(MOST_AT_ONCE) == MOST_AT_ONCE


def test_a_number_of_any_length_has_a_text():
    assert [shown(number) for number in (0, 2**63 - 1, 2**63, 10**5000)] == [
        "0",
        "9223372036854775807",
        "more than 2^63",
        "more than 2^63",
    ]


def test_of_no_numbers_the_other_extents_are_held_too():
    assert all(map(fits_in_memory, [(0, 5), (), (2**29, 2**29)]))
    assert not any(map(fits_in_memory, [(2**30, 2**29), (0, 2**31, 2**31)]))

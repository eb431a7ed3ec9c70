from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.names import did_you_mean, find_similar, identifier, unique


def test_a_free_name_stays():
    assert unique("x", {"y"}) == "x"


def test_unique_appends_the_first_free_number():
    assert unique("x", {"x", "x_1", "x_3"}) == "x_2"


def test_a_reserved_name_gets_a_number_too():
    assert unique("x", set(), reserved={"x", "x_1"}) == "x_2"


def test_unique_counters_continue():
    taken, counters = {"x"}, {}
    for number in range(1, 4):
        assert unique("x", taken, counters) == f"x_{number}"
        taken.add(f"x_{number}")
    taken.discard("x_2")
    assert unique("x", taken, counters) == "x_4"
    assert counters == {"x": 4}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("conv1", "conv1", id="identifier"),
        pytest.param("_x", "_x", id="underscore"),
        pytest.param("layer1/conv.0", "layer1_conv_0", id="other characters"),
        pytest.param("a//b", "a_b", id="several at once"),
        pytest.param("1x", "_1x", id="digit first"),
        pytest.param("größe", "gr_e", id="letters that are not ASCII"),
        pytest.param("٣", "_", id="digits that are not ASCII"),
        pytest.param("", "_", id="nothing"),
        pytest.param("for", "_for", id="reserved"),
        pytest.param("if", "_if_1", id="reserved with an underscore too"),
        pytest.param("x\n", "x_", id="line end"),
        pytest.param("taken", "taken_1", id="taken"),
    ],
)
def test_names_are_bent_into_identifiers(name, expected):
    assert identifier(name, {"taken"}, {"for", "if", "_if"}) == expected


def test_unique_identifiers_for_many_similar_names_are_fast():
    taken: set[str] = set()
    counters: dict[str, int] = {}
    begin = time.process_time()
    for number in range(50_000):
        taken.add(identifier("层" * (number % 7 + 1), taken, (), counters))
    assert len(taken) == 50_000
    # Without counters it takes minutes.
    assert time.process_time() - begin < 10


@given(st.text(), st.sets(st.text("ab_1", max_size=4)), st.sets(st.text("ab_1", max_size=4)))
def test_identifiers_are_valid_unique_and_not_reserved(name, taken, reserved):
    found = identifier(name, taken, reserved)
    assert found.isidentifier()
    assert found.isascii()
    assert found not in taken | reserved
    assert identifier(found, taken, reserved) == found


def test_find_similar_matches_typos_and_abbreviations():
    known = ["LeakyRelu", "Relu", "Softmax", "MatMul", "GlobalAveragePool"]
    assert find_similar("relu", known)[0] == "Relu"
    assert find_similar("sftmx", known) == ["Softmax"]
    assert find_similar("mm", known) == ["MatMul"]
    assert find_similar("gap", known) == ["GlobalAveragePool"]
    assert find_similar("m", known) == []
    assert find_similar("xyzw", known) == []
    assert len(find_similar("rel", ["rela", "relb", "relc", "reld"])) == 3
    assert len(find_similar("rel", ["rela", "relb", "relc", "reld"], most=1)) == 1


def test_did_you_mean_suggests_a_name_or_lists_all():
    assert did_you_mean("relu", ["Relu", "Conv"], "words") == "; did you mean 'Relu'?"
    assert did_you_mean("zzz", ["Relu", "Conv"], "words") == "; words: Relu, Conv"


def test_find_similar_prefers_abbreviations_with_equal_initial():
    assert find_similar("mm", ["Summary", "MatMul"]) == ["MatMul", "Summary"]
    assert find_similar("mm", ["MatMul", "Summary"]) == ["MatMul", "Summary"]

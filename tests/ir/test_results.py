"""Results of a graph by name and by position."""

from __future__ import annotations

import pytest

from graphport.ir.graph import Value
from graphport.ir.results import Outputs, labels


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param("a b", "a b", id="each once"),
        pytest.param("a a b a", "a a:2 b a:3", id="one three times"),
        pytest.param("a a:2 a", "a a:2 a:3", id="a name that is taken before"),
        pytest.param("a a a:2 a:2", "a a:3 a:2 a:2:2", id="a name that is taken later"),
    ],
)
def test_a_result_that_is_listed_again_has_a_number(names, expected):
    values = {name: Value(name) for name in names.split()}
    assert labels([values[name] for name in names.split()]) == expected.split()


def test_results_are_accessible_by_name_and_position():
    a, b = Value("a"), Value("b")
    found = Outputs({"a": 1, "b": 2}, [b, a, b])
    assert list(found.items()) == [("b", 2), ("a", 1), ("b:2", 2)]
    assert found.ordered == (2, 1, 2)


def test_repeated_outputs_follow_inner_values():
    b = Value("b")
    found = Outputs({"b": 2, "inner": 3}, [b, b])
    assert list(found.items()) == [("b", 2), ("inner", 3), ("b:2", 2)]
    assert found.ordered == (2, 2)

"""Extents: what stands for what, what is equal, and what contradicts."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from graphport.core.dims import MOST_TEXT, Constraint, Dim, Extents, Symbol, TooLong, maximum, symbols
from tests.core.dim_samples import bindings, dim_of_tree, number_of_tree, trees


@given(st.lists(trees, min_size=1, max_size=6), bindings)
def test_a_definition_is_what_the_unshortened_expression_would_be(drawn, numbers):
    extents = Extents()
    total, expected = 1, 1
    try:
        for tree in drawn:
            expected = expected * 3 + number_of_tree(tree, numbers)
            total = extents.settled(total * 3 + dim_of_tree(tree))
            assert isinstance(total, int) or len(str(total)) <= MOST_TEXT
            assert extents.evaluate(total, numbers) == expected
    except TooLong:
        assume(False)


def long_sum(count=12):
    return sum((number + 2) * Symbol(f"axis{number}") for number in range(count))


def test_one_expression_has_one_symbol():
    extents = Extents()
    first = extents.settled(long_sum())
    assert str(first) in symbols(first)
    assert extents.settled(long_sum()) == first
    assert extents.definitions == {str(first): long_sum()}
    assert extents.free(first) == set(symbols(long_sum()))


def test_a_factor_can_be_taken_away_again():
    extents = Extents()
    batch = Symbol("batch")
    short = extents.settled(4 * batch * long_sum())
    assert len(symbols(short)) == 2
    assert extents.settled(short // (4 * batch)) == extents.settled(long_sum())


def test_a_name_that_the_file_has_is_not_taken():
    extents = Extents()
    extents.declare("axis_2")
    assert str(extents.settled(long_sum(), "rows")) == "rows"
    assert str(extents.settled(long_sum() + 1)) not in ("rows", "axis_2")


def test_equals_have_one_symbol_and_the_older_one_stays():
    extents = Extents()
    batch, other = extents.declare("batch"), extents.declare("other")
    seq = extents.declare("seq")
    assert extents.equate(other * seq * 32, batch * seq * 32) is None
    assert extents.settled(2 * other + 1) == 2 * batch + 1
    total = extents.declare("total")
    extents.equate(seq, total - 5)
    assert extents.settled(total) == seq + 5


def test_what_broadcasts_to_an_extent_that_is_known_is_that_extent():
    extents = Extents()
    batch, mask, third = (extents.declare(name) for name in ("batch", "mask", "third"))
    extents.require(Constraint(batch, "broadcast", mask))
    extents.equate(maximum(batch, mask), batch)
    assert extents.settled(maximum(maximum(batch, mask), third)) == maximum(batch, third)
    assert mask in symbols(extents.settled(mask)).values()


def test_what_contradicts_comes_with_what_was_known():
    extents = Extents()
    rows = extents.declare("rows")
    assert extents.equate(rows, 3) is None
    found = extents.equate(rows, 4)
    assert found is not None
    assert str(found.other) == "rows = 3"
    assert extents.require(Constraint(extents.declare("S", 1, 8), "<=", 9)) is None
    assert extents.require(Constraint(extents.declare("S"), "<=", 0)) is not None


def test_bound_symbols_leave_what_is_known_of_others():
    extents = Extents()
    batch, mask = extents.declare("batch"), extents.declare("mask")
    extents.equate(mask, batch)
    bound = extents.bound({"batch": 3})
    assert bound.settled(mask) == 3
    assert extents.settled(mask) == batch


def test_sizes_give_the_numbers_of_all_that_stands_for_something():
    extents = Extents()
    height, width = Symbol("H"), Symbol("W")
    half = extents.define("half", height // 2)
    area = extents.define("area", half * 3 + 1)
    extents.define("other", width + 1)
    assert extents.numbers({"H": 9}) == {"H": 9, "half": 4, "area": 13}
    assert extents.evaluate(area, {"H": 9}) == 13


@given(st.lists(st.tuples(trees, trees, st.booleans()), min_size=1, max_size=5))
def test_no_symbol_comes_to_stand_for_itself(drawn):
    """Whatever is equal to whatever, also to something with its own definition in it: definitions end at free symbols."""
    extents = Extents()
    made: list[Dim] = [1]
    for left, right, is_own in drawn:
        try:
            one, two = dim_of_tree(left), dim_of_tree(right)
            made.append(extents.define("d", one * made[-1] + two) if is_own else extents.settled(one * made[-1] + two))
            extents.equate(one, two + made[-1] * (one % 3))
            extents.equate(made[-1], two * one)
        except (TooLong, ZeroDivisionError):
            continue
    extents.conclude()
    reached = {name: set(symbols(dim)) & extents.definitions.keys() for name, dim in extents.definitions.items()}
    while (ends := [name for name, others in reached.items() if not others]) and reached:
        reached = {name: others - set(ends) for name, others in reached.items() if name not in ends}
    assert not reached
    for dim in made:
        extents.settled(dim)
        extents.free(dim)


def test_a_name_costs_the_same_however_many_there_are():
    extents = Extents()
    first = list(range(3000))
    for number in first:
        extents.declare(f"s{number}")

    class Counting(dict):
        looks = 0

        def __contains__(self, name):
            Counting.looks += 1
            return super().__contains__(name)

        def keys(self):
            Counting.looks += len(self)
            return super().keys()

    extents.declared = Counting(extents.declared)
    for number in range(100):
        extents.fresh(f"new{number % 2}")
    assert Counting.looks < 1000

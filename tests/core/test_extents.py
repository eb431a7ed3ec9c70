"""Extents: substitutions, equalities and contradictions."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphport.core.diagnostics import Source, Span
from graphport.core.dims import MOST_TEXT, Constraint, Dim, Extents, Symbol, TooLong, bounds, maximum, symbols
from graphport.core.dims.extents import primitive
from tests.core.dim_samples import bindings, dim_of_tree, number_of_tree, trees, within_limits
from tests.every import every


@given(st.lists(trees, min_size=1, max_size=6), bindings)
def test_definitions_equal_the_unabbreviated_expression(drawn, numbers):
    extents = Extents()
    total, expected = 1, 1
    try:
        for tree in drawn:
            expected = expected * 3 + number_of_tree(tree, numbers)
            total = extents.normalize(total * 3 + dim_of_tree(tree))
            assert isinstance(total, int) or len(str(total)) <= MOST_TEXT
            assert extents.evaluate(total, numbers) == expected
    except TooLong:
        assume(False)


def long_sum(count=12):
    return sum((number + 2) * Symbol(f"axis{number}") for number in range(count))


def test_equal_long_expressions_share_a_symbol():
    extents = Extents()
    first = extents.normalize(long_sum())
    assert str(first) in symbols(first)
    assert extents.normalize(long_sum()) == first
    assert extents.definitions == {str(first): long_sum()}
    assert extents.free(first) == set(symbols(long_sum()))


def test_factors_of_an_abbreviated_dim_can_be_divided_out():
    extents = Extents()
    batch = Symbol("batch")
    short = extents.normalize(4 * batch * long_sum())
    assert len(symbols(short)) == 2
    assert extents.normalize(short // (4 * batch)) == extents.normalize(long_sum())


def test_declared_symbol_names_are_not_reused():
    extents = Extents()
    extents.declare("axis_2")
    assert str(extents.normalize(long_sum(), "rows")) == "rows"
    assert str(extents.normalize(long_sum() + 1)) not in ("rows", "axis_2")


def test_equated_symbols_are_replaced_by_the_older_one():
    extents = Extents()
    batch, other = extents.declare("batch"), extents.declare("other")
    seq = extents.declare("seq")
    assert extents.equate(other * seq * 32, batch * seq * 32) is None
    assert extents.normalize(2 * other + 1) == 2 * batch + 1
    total = extents.declare("total")
    extents.equate(seq, total - 5)
    assert extents.normalize(total) == seq + 5


def test_broadcast_constraint_resolves_the_dim():
    extents = Extents()
    batch, mask, third = (extents.declare(name) for name in ("batch", "mask", "third"))
    extents.require(Constraint(batch, "broadcast", mask))
    extents.equate(maximum(batch, mask), batch)
    assert extents.normalize(maximum(maximum(batch, mask), third)) == maximum(batch, third)
    assert mask in symbols(extents.normalize(mask)).values()


def test_contradiction_reports_the_known_equation():
    extents = Extents()
    rows = extents.declare("rows")
    assert extents.equate(rows, 3) is None
    found = extents.equate(rows, 4)
    assert found is not None
    assert str(found.other) == "rows = 3"
    assert extents.require(Constraint(extents.declare("S", 1, 8), "<=", 9)) is None
    assert extents.require(Constraint(extents.declare("S"), "<=", 0)) is not None


def test_binding_keeps_equations_of_other_symbols():
    extents = Extents()
    batch, mask = extents.declare("batch"), extents.declare("mask")
    extents.equate(mask, batch)
    bound = extents.bound({"batch": 3})
    assert bound.normalize(mask) == 3
    assert extents.normalize(mask) == batch


def test_evaluate_symbols_includes_defined_symbols():
    extents = Extents()
    height, width = Symbol("H"), Symbol("W")
    half = extents.define("half", height // 2)
    area = extents.define("area", half * 3 + 1)
    extents.define("other", width + 1)
    assert extents.evaluate_symbols({"H": 9}) == {"H": 9, "half": 4, "area": 13}
    assert extents.evaluate(area, {"H": 9}) == 13


@given(st.lists(st.tuples(trees, trees, st.booleans()), min_size=1, max_size=5))
def test_definitions_are_acyclic(drawn):
    """Whatever is equal to whatever, also to something with its own definition in it: definitions end at free symbols."""
    extents = Extents()
    made: list[Dim] = [1]
    for left, right, is_own in drawn:
        try:
            one, two = dim_of_tree(left), dim_of_tree(right)
            made.append(
                extents.define("d", one * made[-1] + two) if is_own else extents.normalize(one * made[-1] + two)
            )
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
        extents.normalize(dim)
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


@given(st.lists(st.tuples(trees, trees), min_size=1, max_size=4), st.lists(trees, min_size=1, max_size=3), bindings)
@within_limits
def test_equations_keep_the_values_that_satisfy_them(drawn, asked, numbers):
    """Equate expressions that are equal for these integers: the values for these integers do not change."""
    extents = Extents()
    for one, other in drawn:
        gap = number_of_tree(one, numbers) - number_of_tree(other, numbers)
        assert extents.equate(dim_of_tree(one), dim_of_tree(other) + gap) is None
        for tree in (one, other, *asked):
            assert extents.evaluate(extents.normalize(dim_of_tree(tree)), numbers) == number_of_tree(tree, numbers)
    extents.conclude()
    for tree in asked:
        assert extents.evaluate(extents.normalize(dim_of_tree(tree)), numbers) == number_of_tree(tree, numbers)


FILE = Source("file")


def place(name: str) -> Span:
    return Span(FILE, place=name)


A, B, S = Symbol("A"), Symbol("B"), Symbol("S", 2)


@every(
    ("left", "relation", "right", "expected", "text"),
    [
        pytest.param(A, "=", A, True, "A = A", id="same"),
        pytest.param(A, "=", A + 1, False, "A = A+1", id="shifted"),
        pytest.param(A, "=", B, None, "A = B", id="two symbols"),
        pytest.param(A, "<=", A, True, "A <= A", id="at most itself"),
        pytest.param(A, "<=", A + 1, True, "A <= A+1", id="at most more"),
        pytest.param(A + 1, "<=", A, False, "A+1 <= A", id="not at most less"),
        pytest.param(A, "<=", B, None, "A <= B", id="at most another"),
        pytest.param(S, "broadcast", S, True, "S = S, or one of them is 1", id="equal extents"),
        pytest.param(1, "broadcast", S, True, "1 = S, or one of them is 1", id="1 on the left"),
        pytest.param(S, "broadcast", 1, True, "S = 1, or one of them is 1", id="1 on the right"),
        pytest.param(2, "broadcast", 3, False, "2 = 3, or one of them is 1", id="neither"),
        pytest.param(S, "broadcast", S + 1, False, "S = S+1, or one of them is 1", id="never equal and never 1"),
        pytest.param(A, "broadcast", A + 1, None, "A = A+1, or one of them is 1", id="the left may be 1"),
        pytest.param(A + 1, "broadcast", A, None, "A+1 = A, or one of them is 1", id="the right may be 1"),
        pytest.param(A, "broadcast", S, None, "A = S, or one of them is 1", id="may be equal"),
    ],
)
def test_constraint_truth_and_text(left, relation, right, expected, text):
    constraint = Constraint(left, relation, right)
    assert constraint.is_true is expected
    assert str(constraint) == text


def test_only_undecided_constraints_are_stored_with_their_first_location():
    extents = Extents()
    a, b = extents.declare("A"), extents.declare("B")
    assert extents.require(Constraint(a, "<=", a + 1), place("true")) is None
    assert extents.constraints == {}
    for name in ("first", "second"):
        assert extents.require(Constraint(a, "<=", b), place(name)) is None
    assert extents.constraints == {Constraint(a, "<=", b): place("first")}
    assert extents.version == 0
    assert extents.normalize(b) == b
    found = extents.require(Constraint(a + 1, "<=", a), place("here"))
    assert found == (Constraint(a + 1, "<=", a), Constraint(a + 1, "<=", a), place("here"))
    assert len(extents.constraints) == 1
    extents.equate(b, 3, place("three"))
    extents.require(Constraint(a, "<=", b))
    assert Constraint(a, "<=", 3) in extents.constraints


def test_the_last_reason_that_touches_a_contradiction_is_reported():
    extents = Extents()
    a, b, c = (extents.declare(name) for name in "ABC")
    for symbol, number in ((a, 2), (b, 3), (c, 4)):
        assert extents.equate(symbol, number, place(f"of {number}")) is None
    found = extents.equate(a, b, place("now"))
    assert found == (Constraint(a, "=", b), Constraint(b, "=", 3), place("of 3"))


def test_symbols_keep_the_bounds_that_they_were_declared_with():
    extents = Extents()
    assert bounds(extents.declare("A")) == (1, None)
    assert bounds(extents.declare("B", None, 7)) == (None, 7)
    assert extents.declare("B", 2, 3) is extents.declare("B")
    assert bounds(extents.fresh("F")) == (0, None)
    assert bounds(extents.fresh("G", 2, 5)) == (2, 5)
    height = Symbol("height", 4, 9)
    half = extents.define("half", height // 2)
    assert bounds(half) == (2, 4)
    assert extents.declare("height") == height
    assert extents.definitions == {"half": height // 2}
    assert extents.normalize(height // 2) == half


def test_fresh_symbol_names_skip_reserved_names():
    extents = Extents()
    extents.reserved |= {"batch_3", "n2", "own"}
    assert [str(extents.fresh("batch")) for _ in range(4)] == ["batch", "batch_2", "batch_4", "batch_5"]
    assert [str(extents.fresh("n")) for _ in range(3)] == ["n", "n3", "n4"]
    assert str(extents.define("own", Symbol("x") + 1)) == "own_2"
    assert str(extents.fresh("own")) == "own"
    assert "own" not in extents.reserved
    assert str(extents.fresh("own")) == "own_3"


def test_a_name_is_built_from_the_first_short_symbol():
    def called(*names):
        extents = Extents()
        return str(extents.normalize(sum((number + 2) * Symbol(name) for number, name in enumerate(names))))

    tail = [f"zz{number}" for number in range(8)]
    assert called("batch_1", *tail) == "batch"
    assert called("9", *tail) == "zz"
    assert called("a" * 21, *tail) == "zz"
    assert called("a" * 20, *tail).startswith("a" * 20)
    assert called(*(str(number) for number in range(10, 25))) == "d"


def test_only_long_expressions_are_named_and_call_back():
    extents, told = Extents(), []
    a, b = Symbol("A"), Symbol("B")
    short = a * b + 1
    assert extents.normalize(short, "no", lambda: told.append(1)) == short
    assert extents.normalize(7, "no", lambda: told.append(1)) == 7
    edge = Symbol("e" * (MOST_TEXT - 2)) + 1
    assert len(str(edge)) == MOST_TEXT
    assert extents.normalize(edge, "no", lambda: told.append(1)) == edge
    longer = Symbol("e" * (MOST_TEXT - 1)) + 1
    alone = Symbol("e" * 60)
    assert extents.normalize(alone, "no", lambda: told.append(1)) == alone
    assert told == []
    named = extents.normalize(longer, "long", lambda: told.append(1))
    assert (str(named), told) == ("long", [1])
    assert extents.normalize(longer, "other", lambda: told.append(1)) is named
    assert (told, extents.definitions) == ([1], {"long": longer})
    # Added back to the symbol, it is the original.
    assert extents.normalize(named - longer + a) == a
    assert extents.normalize(2 * named - longer) == named
    assert told == [1]


def test_find_normalized_returns_earlier_results():
    extents = Extents()
    a = Symbol("A")
    assert extents.find_normalized((1, 2)) == (1, 2)
    assert extents.find_normalized((1, a)) is None
    long = extents.normalize(long_sum())
    extents.normalize(a)
    assert extents.find_normalized((3, a, long_sum())) == (3, a, long)
    extents.equate(a, 4)
    assert extents.find_normalized((a,)) is None
    extents.normalize(a)
    assert extents.find_normalized((a,)) == (4,)


def test_expanded_replaces_definitions_by_free_symbols():
    extents = Extents()
    height, width = Symbol("H"), Symbol("W")
    half = extents.define("half", height // 2)
    area = extents.define("area", half * width)
    extents.define("other", width + 1)
    assert extents.expanded(area + 1) == (height // 2) * width + 1
    assert extents.expanded(height) == height
    assert extents.expanded(5) == 5
    assert extents.free(area + half) == {"H", "W"}
    assert extents.free(width) == {"W"}
    assert list(extents.used([area])) == ["half", "area"]
    assert extents.used([area]) == {"half": height // 2, "area": half * width}
    assert extents.used([3, height]) == {}
    assert list(extents.used([half, extents.declare("other")])) == ["half", "other"]
    assert extents.evaluate(area + 1, {"H": 7, "W": 5}) == 16
    assert extents.evaluate(area, {"half": 2, "W": 5}) == 10
    assert extents.evaluate(4, {}) == 4
    with pytest.raises(KeyError):
        extents.evaluate(area, {"H": 7})
    assert extents.evaluate_symbols({"half": 9, "W": 2}) == {"half": 9, "W": 2, "area": 18, "other": 3}


def test_copy_is_independent_of_the_original():
    extents = Extents()
    a, b, c = (extents.declare(name) for name in "ABC")
    extents.reserved.add("taken")
    extents.fresh("n")
    extents.fresh("n")
    extents.require(Constraint(a, "<=", b), place("file"))
    extents.equate(maximum(a, b), a, place("max"))
    long = extents.normalize(long_sum(), "long")
    other = extents.copy()
    assert (other.version, other.reserved, other.constraints) == (
        extents.version,
        extents.reserved,
        extents.constraints,
    )
    assert (other.declared, other.definitions) == (extents.declared, extents.definitions)
    assert other.find_normalized((long_sum(),)) == (long,)
    assert other.normalize(maximum(maximum(a, b), c)) == maximum(a, c)
    assert str(other.fresh("n")) == "n3"
    other.equate(c, 5, place("five"))
    other.define("mine", a + 1)
    other.require(Constraint(b, "<=", 9))
    other.reserved.add("more")
    found = other.equate(c, 6)
    assert found is not None
    assert found.origin == place("five")
    assert (extents.normalize(c), other.normalize(c)) == (c, 5)
    assert extents.version + 1 == other.version
    assert ("mine" in extents.declared, "mine" in extents.definitions, "more" in extents.reserved) == (False,) * 3
    assert len(extents.constraints) + 2 == len(other.constraints)
    assert str(extents.fresh("n")) == "n3"


def test_bound_extents_know_the_other_symbols_with_their_bounds_and_no_definitions():
    extents = Extents()
    a, b = extents.declare("A", 2, 8), extents.declare("B", 3, 9)
    half = extents.define("half", a // 2)
    extents.require(Constraint(b, "<=", a), place("at most"))
    extents.require(Constraint(half, "<=", b), place("half"))
    found = extents.bound({"A": 6})
    assert found.declared == {"B": b}
    assert found.definitions == {}
    assert found.constraints == {Constraint(b, "<=", 6): place("at most")}
    assert found.normalize(b) == b
    assert extents.bound({}).declared == {"A": a, "B": b}
    assert extents.bound({"A": b}).constraints == {}


def test_version_counts_effective_equations():
    extents = Extents()
    a, b, c = (extents.declare(name) for name in "ABC")
    versions = [extents.version]
    for left, right in ((a, a), (b, a), (b, a), (c, a + 1)):
        extents.equate(left, right)
        versions.append(extents.version)
    assert versions == [0, 0, 1, 1, 2]


@every(
    ("one", "other", "stays"),
    [
        pytest.param("old", "young", "old", id="the older symbol"),
        pytest.param("middle", "young", "middle", id="the older of two young ones"),
        pytest.param("half", "middle", "middle", id="a symbol rather than what is computed"),
        pytest.param("more", "half", "old//2", id="the shorter of what is computed"),
        pytest.param("made", "late", "late", id="a symbol that stands for nothing"),
        pytest.param("young", "twice", "2*old", id="an expression rather than a symbol"),
        pytest.param("unknown", "old", "old", id="a symbol that was declared"),
    ],
)
def test_equate_keeps_the_preferred_symbol(one, other, stays):
    for left, right in ((one, other), (other, one)):
        extents = Extents()
        old, middle, young = (extents.declare(name) for name in ("old", "middle", "young"))
        dims = {"old": old, "middle": middle, "young": young, "half": old // 2, "twice": 2 * old}
        dims |= {"made": extents.define("made", old * 2 + 1), "late": extents.declare("late", 3)}
        dims |= {"more": (old // 2 + middle) // 5, "unknown": Symbol("unknown")}
        assert extents.equate(dims[left], dims[right]) is None
        assert str(extents.normalize(dims[left])) == str(extents.normalize(dims[right])) == stays


def test_equate_cancels_nonzero_factors():
    def settled(left, right, asked):
        extents = Extents()
        for name in "ABC":
            extents.declare(name)
        extents.equate(left, right)
        return extents.normalize(asked)

    a, b, c = Symbol("A"), Symbol("B"), Symbol("C")
    empty = Symbol("E", 0)
    assert settled(6 * a * b, 6 * a * c, c) == b
    assert settled(6 * a * b * b, 6 * a * b * c, c) == b
    assert settled(4 * b, 8 * c + 4, b) == 2 * c + 1
    assert settled(empty * b, empty * c, c) == c
    assert settled(2 * b, 3 * c, c) == c
    assert settled(a * b, c, c) == a * b
    assert settled(a * b, a + c, b) == b
    assert primitive(7) == 7
    assert primitive(6 * a * b + 4 * a) == 3 * b + 2
    assert primitive(a * a * b + a * a) == b + 1
    assert primitive(empty * a + empty) == empty * a + empty


def test_symbols_are_replaced_only_within_their_bounds():
    def settled(symbol, other):
        extents = Extents()
        extents.equate(symbol, other)
        return extents.normalize(symbol)

    small, wide, open_ = Symbol("S", 2, 5), Symbol("W", 1, 9), Symbol("O", None)
    assert settled(open_, small) == small
    assert settled(small, open_) == small
    assert settled(wide, small) == small
    assert settled(small, wide) == small
    assert settled(Symbol("T", 2, 5), Symbol("U", 2, 5)) in (Symbol("T", 2, 5), Symbol("U", 2, 5))
    assert settled(small, 2 * wide - 40) == small
    assert settled(open_, wide - open_) == open_


def test_nested_equal_expressions_are_normalized():
    extents = Extents()
    a, b, c = (extents.declare(name) for name in "ABC")
    extents.equate((a + b) // 2, c)
    assert extents.normalize((a + b) // 2 + 1) == c + 1
    d = extents.declare("D")
    extents.equate(b, d)
    assert extents.normalize((a + d) // 2) == c
    assert extents.normalize((a + b) // 2 * d) == c * b
    other = Extents()
    a, b, c, d = (other.declare(name) for name in "ABCD")
    other.equate(maximum(a, b), c)
    other.equate(b, d)
    assert other.normalize(maximum(a, d)) == other.normalize(c)
    assert other.normalize(maximum(a, maximum(d, 7))) == other.normalize(maximum(c, 7))


def test_equations_shorten_existing_definitions():
    extents = Extents()
    rows, columns = extents.declare("rows"), extents.declare("columns")
    long = extents.normalize(long_sum() + rows - columns, "long")
    short = extents.define("short", long_sum() * (rows - columns) + rows)
    same = extents.define("same", long_sum() + 1)
    extents.equate(rows, columns)
    extents.conclude()
    assert extents.definitions == {"long": long_sum(), "short": rows, "same": long_sum() + 1}
    assert extents.normalize(short + 1) == rows + 1
    assert [extents.normalize(dim) for dim in (long, same)] == [long, same]


def sum_of(name, count):
    total = 0
    for number in range(count):
        total = total + Symbol(f"{name}{number}")
    return total


def test_expressions_above_the_limit_are_not_equated():
    extents = Extents()
    # The difference has more terms than an expression may have.
    assert extents.equate(sum_of("a", 100), sum_of("b", 100)) is None
    assert extents.resolved(Symbol("a0")) == Symbol("a0")
    n, k, m = (extents.declare(name) for name in "nkm")
    power = n * n * n * n * n * n * n * n * n * n
    assert extents.equate(maximum(power, m), k) is None
    assert extents.equate(n, sum_of("c", 4)) is None
    assert extents.resolved(n + 1) == sum_of("c", 4) + 1
    assert extents.resolved(power) == power
    assert extents.resolved(maximum(power, m) + 1) in (k + 1, maximum(power, m) + 1)


def test_binding_drops_only_constraints_above_the_limit():
    extents = Extents()
    n, k, m = (extents.declare(name) for name in "nkm")
    extents.require(Constraint(n * k, "<=", 5))
    extents.require(Constraint(m, "<=", 7 * k))
    bound = extents.bound({"n": sum_of("a", 40), "k": sum_of("b", 40)})
    assert [constraint.relation for constraint in bound.constraints] == ["<="]
    assert [constraint.left for constraint in bound.constraints] == [m]


def test_equality_of_dims_is_transitive():
    extents = Extents()
    a, b, c, d = (extents.declare(name) for name in "abcd")
    extents.equate(maximum(a, b), c)
    extents.equate(c, d)
    assert extents.normalize(maximum(a, b)) == extents.normalize(c) == extents.normalize(d)
    extents.equate(d, 7)
    assert [extents.normalize(each) for each in (maximum(a, b), c, d)] == [7, 7, 7]

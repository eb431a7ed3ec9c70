"""Search for the first difference in small graphs: the reported node, and the inputs of the extracted part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphport.comparison import first_difference
from graphport.comparison.first_difference import Search
from graphport.comparison.limits import Limits
from graphport.comparison.pairs import pairs
from graphport.comparison.stream import Pair
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Value, walk
from graphport.ir.text import from_text

X = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], np.float32)


AXIS = "constant %axis = int64[1](1)"


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def net(*lines: str, inputs: str = "%x", **constants: Any) -> Graph:
    """Return a graph of these lines, whose output is the last result; constants are float32."""
    said = [f"constant %{name} = float32[]({float(number)})" for name, number in constants.items()]
    last = lines[-1].partition(" ")[0]
    return from_text("\n".join([f"graph g({inputs}) {{", *said, *lines, f"return {last} }}"]))


def search(
    a: Graph,
    b: Graph,
    x: np.ndarray = X,
    y: np.ndarray | None = None,
    *,
    deadline: float | None = None,
    limits: Limits = Limits(),  # noqa: B008  frozen
) -> Search:
    """A search in two graphs that are both given `x`; what only the second one takes is `y`."""
    given_a = {each.name: x for each in a.inputs}
    given_b = {each.name: given_a.get(each.name, y) for each in b.inputs}
    partners = pairs(a, b, outputs_first=True)
    return Search(a, b, partners, given_a, given_b, limits, "reference", "reference", deadline=deadline)


def found_in(a: Graph, b: Graph, x: np.ndarray = X, y: np.ndarray | None = None) -> first_difference.FirstDifference:
    found = search(a, b, x, y).run()
    assert found is not None
    assert (found.difference.name, found.difference.other) == (found.partner.name, found.value.name)
    assert [[each.name for each in graph.outputs] for graph in (found.a, found.b)] == [[found.partner.name]] * 2
    return found


def named(graph: Graph) -> dict[str, Value]:
    return {value.name: value for value in graph.values()}


def words(found: first_difference.FirstDifference) -> tuple[list[str], list[str]]:
    return [each.op_type for each in found.a], [each.op_type for each in found.b]


def products(*factors: float) -> Graph:
    lines = [f"%h{i + 1} = Mul(%{f'h{i}' if i else 'x'}, %w{i})" for i in range(len(factors))]
    weights: dict[str, Any] = {f"w{i}": factor for i, factor in enumerate(factors)}
    return net(*lines, **weights)


# Which value


def test_the_first_of_several_faults_is_reported_and_not_the_loudest():
    found = found_in(products(2, 2, 2, 2), products(2, 2.1, 2, 200))
    assert (found.value.name, found.partner.name, found.is_beyond) == ("h2", "h2", True)
    assert found.difference.max_abs == pytest.approx(1.2, rel=1e-4)
    assert words(found) == (["Mul"], ["Mul"])
    np.testing.assert_array_equal(found.inputs["h1"], 2 * X)


def test_noisiest_node_is_reported_if_all_are_within_tolerance():
    rounded = [2 * (1 + share * 1e-5) for share in (4, 0, 9, 5, 0)]
    found = found_in(products(2, 2, 2, 2, 2), products(*rounded))
    assert (found.value.name, found.is_beyond, found.difference.passed) == ("h3", False, True)
    assert (words(found), list(found.inputs)) == ((["Mul"], ["Mul"]), ["h2"])
    assert search(products(2, 2), products(2, 2)).run() is None


def test_difference_reports_the_names_of_both_graphs():
    a = net("%h = Neg(%x)", "%y = Abs(%h)")
    for last in ("%z = Exp(%h)", "%z = NoSuchOperator(%h)", "%z = Transpose(%h)"):
        found = found_in(a, net("%h = Neg(%x)", last))
        assert (found.value.name, found.partner.name) == ("z", "y")
    found = found_in(products(2, 2), net("%h1 = Mul(%x, %w)", "%z = Mul(%h1, %v)", w=2.00002, v=2.00006))
    assert (found.value.name, found.partner.name, found.is_beyond) == ("z", "h2", False)


def test_limits_are_those_of_the_value_of_the_first_graph():
    a, b = net("%y = Neg(%x)"), net("%z = Mul(%x, %w)", w=-1.1)
    assert search(a, b, limits=Limits(of={"z": Limits(relative=0.2)})).run() is not None
    found = search(a, b, limits=Limits(of={"y": Limits(relative=0.2)})).run()
    assert found is not None
    assert not found.is_beyond


def test_limits_apply_to_names_of_the_first_graph():
    """The first difference is reported, not the largest one, with any limit for renamed values."""
    a, b = products(2, 2, 2), products(2, 2.1, 200)
    for value in list(b.values()):
        if value.name.startswith("h"):
            value.notes["original_name"] = value.name
            b.rename(value, f"other_{value.name}")
    wide = {value.name: Limits(relative=1e9) for value in b.values() if value.name.startswith("other")}
    for of in ({}, wide):
        found = search(a, b, limits=Limits(of=of)).run()
        assert found is not None
        assert (found.value.name, found.partner.name, found.is_beyond) == ("other_h2", "h2", True)


def test_a_value_of_another_size_is_reported():
    found = found_in(net("%y = Identity(%x)"), net(AXIS, "%y = ReduceSum(%x, %axis)"))
    assert (found.value.name, found.difference.reason) == ("y", "shapes differ: [2, 3] and [2, 1]")


def test_result_may_correspond_to_an_input():
    found = found_in(from_text("graph g(%x) { return %x }"), net("%y = Neg(%x)"), X, X)
    assert (found.value.name, found.partner.name, words(found)) == ("y", "x", ([], ["Neg"]))


def test_only_the_noisiest_nodes_are_measured(monkeypatch):
    monkeypatch.setattr(first_difference, "_MOST_BLAMED", 2)
    measured, plain = [], Search._local
    monkeypatch.setattr(
        Search, "_local", lambda self, pair, cell: (measured.append(pair.b.name), plain(self, pair, cell))[1]
    )
    rounded = [2 * (1 + share * 1e-5) for share in (2, 2, 2, 2)]
    assert found_in(products(2, 2, 2, 2), products(*rounded)).value.name in ("h4", "h3")
    assert measured == ["h4", "h3"]


def test_equal_values_are_not_measured(monkeypatch):
    monkeypatch.setattr(Search, "_local", None)
    assert search(products(2, 2), products(2, 2)).run() is None


def test_random_values_are_not_reported():
    noisy = ("%r = RandomNormalLike(%x)", "%y = Add(%x, %r)")
    looked = search(net(*noisy), net(*noisy))
    assert looked.run() is None
    assert set(looked.random) == {"r"}
    assert found_in(net(*noisy, "%z = Mul(%x, %w)", w=2), net(*noisy, "%z = Mul(%x, %w)", w=3)).value.name == "z"


# Operands of the extracted part


def test_extracted_part_has_the_inputs_of_both_graphs():
    a = net("%h = Neg(%x)", "%k = Abs(%x)", "%z = Mul(%h, %k)", "%y = Relu(%x)")
    b = net("%h = Neg(%x)", "%k = Abs(%x)", "%z = Mul(%h, %k)", "%y = Add(%h, %k)")
    found = found_in(a, b)
    assert words(found) == (["Relu"], ["Add"])
    assert set(found.inputs) == {"x", "h", "k"}
    turned = found_in(b, a)
    assert words(turned) == (["Add"], ["Relu"])
    assert set(turned.inputs) == {"x", "h", "k"}


def test_extracted_part_uses_input_values_of_the_first_graph():
    """The noise of `h` accumulates before `y`: the part after it has the values of the first graph."""
    a = net("%h = Mul(%x, %w)", "%y = Exp(%h)", w=2)
    b = net("%h = Mul(%x, %w)", "%y = Sigmoid(%h)", w=2.00001)
    found = found_in(a, b)
    assert found.value.name == "y"
    np.testing.assert_array_equal(found.inputs["h"], 2 * X)


def test_extracted_inputs_use_the_lower_precision():
    a = from_text("graph g(%x) { constant %w = float32[](0.1) %h: float32[2, 3] = Mul(%x, %w) %y = Exp(%h) return %y }")
    b = from_text(
        """graph g(%x) {
            constant %w = float32[](0.1)
            %g: float32[2, 3] = Mul(%x, %w)
            %h: float16[2, 3] = Cast(%g) {to = float16}
            %i: float32[2, 3] = Cast(%h) {to = float32}
            %y = Sin(%i)
            return %y
        }"""
    )
    found = search(a, b, limits=Limits(relative=1e-2)).run()
    assert found is not None
    assert (found.value.name, list(found.inputs)) == ("y", ["h"])
    expected = (X * np.float32(0.1)).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found.inputs["h"], expected)


def test_inputs_of_the_first_graph_only_are_passed_to_its_part():
    found = found_in(net("%y = Mul(%x, %k)", inputs="%x, %k"), net("%y = Mul(%x, %w)", w=5))
    assert ([each.name for each in found.a.inputs], [each.name for each in found.b.inputs]) == (["x", "k"], ["x"])
    np.testing.assert_array_equal(found.inputs["k"], X)


def test_inputs_of_the_second_graph_only_are_kept():
    a, b = net("%y = Mul(%x, %w)", w=2), net("%y = Mul(%x, %k)", inputs="%x, %k")
    assert search(a, b, X, floats(2)).run() is None
    found = found_in(a, b, X, floats(3))
    assert found.inputs["k"] == [3]
    assert [each.name for each in found.b.inputs] == ["x", "k"]


def test_conflicting_names_of_the_second_graph_are_renamed():
    a = net("%p = Neg(%x)", "%q = Abs(%p)", "%y = Add(%p, %q)")
    b = net("%q = Neg(%x)", "%p = Abs(%q)", "%y = Sub(%q, %p)")
    for value in b.values():
        if value.name in "pq":
            value.notes["original_name"] = {"p": "q", "q": "p"}[value.name]
    found = found_in(a, b)
    assert (found.value.name, set(found.inputs)) == ("y", {"p", "q"})
    assert [[v.name for v in node.operands] for node in found.b] == [["p", "q"]]
    assert [value.name for value in found.b.outputs] == ["y"]


def test_renaming_swaps_conflicting_names():
    graph = net("%p = Neg(%x)", "%q = Abs(%p)")
    p, q = (each.output for each in graph)
    first_difference._call(graph, q, "p")
    assert q.name == "p"
    assert len({each.name for each in graph.values()}) == 3
    told = p.name
    first_difference._call(graph, p, told)
    assert (p.name, q.name) == (told, "p")


def test_inner_values_with_other_names_make_a_part_smaller():
    def chain(prefix, last, count):
        inner = [
            f"%{prefix}{i} = {op_type}(%{f'{prefix}{i - 1}' if i else 'x'})" for i, op_type in enumerate(INNER[:count])
        ]
        return net(*inner, f"%y = {last}(%{prefix}{count - 1})")

    for count in range(1, 6):
        found = found_in(chain("a", "Neg", count), chain("b", "Abs", count))
        is_small = count + 1 <= first_difference.SMALL
        assert len(found.nodes) == len(found.b) == (count + 1 if is_small else 1)
        assert found.nodes[-1].output is found.value
        assert list(found.inputs) == (["x"] if is_small else [f"a{count - 1}"])


INNER = ("Neg", "Sin", "Exp", "Sqrt", "Cos")


def test_equal_inner_values_are_paired_once():
    a = net("%h = Neg(%x)", "%k = Identity(%h)", "%l = Abs(%k)", "%y = Neg(%l)")
    b = net("%p = Neg(%x)", "%q = Identity(%p)", "%r = Exp(%q)", "%y = Identity(%q)")
    looked = search(a, b)
    found = looked._equal_within(first_difference._Cell(a, b, {"x": X}, tuple(b)))
    assert [(mine.name, other.name) for mine, other in found] == [("p", "h"), ("q", "h")]
    assert all(mine.graph is b and other.graph is a for mine, other in found)
    # A value with different names in the part and in the graph corresponds to none.
    assert looked._equal_within(first_difference._Cell(a, b, {"x": X}, tuple(b)[1:])) == found[1:]


def test_failing_part_differs_without_equal_inner_values():
    a, b = net("%h = Neg(%x)", "%y = Abs(%h)"), net("%k = Neg(%x)", "%z = NoSuchOperator(%k)")
    looked = search(a, b)
    cell = first_difference._Cell(a, b, {"x": X}, tuple(b))
    assert looked._equal_within(cell) == []
    found = looked._local(Pair(a.outputs[0], b.outputs[0], None, None), cell)
    assert found is not None
    assert (found.name, found.other, found.passed) == ("y", "z", False)
    assert "NoSuchOperator" in (found.reason or "")


# Models that do not run


def test_failing_node_is_reported_at_its_next_paired_value():
    a = net("%h = Neg(%x)", "%k = Abs(%h)", "%l = Exp(%k)", "%y = Sin(%l)")
    for renamed, told in (("k", ("k", 1)), ("other", ("l", 2))):
        b = net("%h = Neg(%x)", f"%{renamed} = NoSuchOperator(%h)", f"%l = Exp(%{renamed})", "%y = Sin(%l)")
        found = found_in(a, b)
        assert (found.value.name, len(found.nodes)) == told
        assert (found.partner.name, list(found.inputs), found.is_beyond) == (found.value.name, ["h"], True)
        assert (found.difference.passed, "NoSuchOperator" in found.difference.reason) == (False, True)


def test_failing_node_without_later_partner_is_not_reported():
    a, b = net("%y = Neg(%x)"), net("%lost = NoSuchOperator(%x)", "%behind = Abs(%lost)", "%y = Neg(%x)")
    assert search(a, b).run() is None


def test_the_next_value_with_a_partner_is_the_nearest():
    graph = net("%h = Neg(%x)", "%l = Abs(%h)", "%r = Exp(%h)", "%m = Sin(%l)", "%y = Add(%m, %r)")
    node, *_ = graph
    x, h, r, m, y = (named(graph)[name] for name in "xhrmy")
    assert first_difference._next_pair(node, {h: x, r: x}) is h
    assert first_difference._next_pair(node, {m: x, r: x}) is r
    assert first_difference._next_pair(node, {m: x, y: x}) is m
    assert first_difference._next_pair(node, {y: x}) is y
    assert first_difference._next_pair(node, {x: x}) is None
    branches = net("%h = Neg(%x)", "%y = If(%x) {then_branch = graph then() { %inner = Neg(%h) return %inner }}")
    node, branch = branches
    (body,) = branch.bodies()
    assert first_difference._next_pair(node, {body.outputs[0]: x}) is None


# Layouts and codes


def test_layout_difference_is_reported_only_without_other_differences():
    a = net("%h = Neg(%x)", "%k = Identity(%h)", "%y = Exp(%k)")
    turned = "%h = Neg(%x)", "%k = Transpose(%h)", "%t = Transpose(%k)"
    found = found_in(a, net(*turned, "%y = Exp(%t)"))
    assert (found.value.name, words(found)) == ("k", (["Identity"], ["Transpose"]))
    assert "shape" in (found.difference.reason or "")
    found = found_in(a, net(*turned, "%y = Sin(%t)"))
    # The part starts at the last equal value: one in another layout is an input of neither graph.
    assert (found.value.name, list(found.inputs)) == ("y", ["h"])
    assert words(found) == (["Identity", "Exp"], ["Transpose", "Transpose", "Sin"])


def test_inputs_in_another_layout_are_not_a_difference():
    a, b = net("%y = Neg(%x)"), net("%y = Neg(%x)")
    looked = search(a, b)
    looked.given_b = {"x": X.T}
    assert looked.run() is None


def test_missing_axis_is_reported_instead_of_its_consumer():
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    a = net(AXIS, "%s = ReduceSum(%x, %axis) {keepdims = 1}", "%y = Sub(%x, %s)")
    b = net(AXIS, "%s = ReduceSum(%x, %axis) {keepdims = 0}", "%y = Sub(%x, %s)")
    found = found_in(a, b, square)
    assert (found.value.name, list(found.inputs)) == ("s", ["x"])
    found = found_in(net(AXIS, "%s = ReduceSum(%x, %axis) {keepdims = 1}", "%y = MatMul(%x, %s)"), b, square)
    assert found.value.name == "s"


def test_codes_of_real_numbers_are_not_held_against_them():
    a = net("%h = Round(%x)", "%y = Neg(%h)")
    b = net("%h = Cast(%x) {to = int8}", "%k = Cast(%h) {to = float32}", "%y = Neg(%k)")
    looked = search(a, b)
    assert looked.run() is None
    assert {each.name for each in looked.pairs} == {"x", "y"}
    assert found_in(net("%h = Round(%x)", "%y = Abs(%h)"), b).value.name == "y"


def test_values_of_different_precision_are_compared_numerically():
    looked = search(products(2), products(2))
    a, b = looked.a.outputs[0], looked.b.outputs[0]

    def difference(x, y):
        return looked.difference(a, b, x, y)

    assert difference(X, X.astype(np.float64)).passed
    assert difference(X, (X * 1.00001).astype(np.float16)).max_abs < 1e-2
    assert not difference(X, X.astype(np.float64) + 1).passed
    assert difference(X.astype(np.int8), X.astype(np.int64)).passed
    assert difference(np.array([1 << 60]), np.array([0], np.int32)).reason == "integers differ"
    assert "against" in difference(X, X.astype(np.int8)).reason
    assert "against" in difference(X, X[0].astype(np.float64)).reason
    assert (difference(X, X).name, difference(X, X).other) == ("h1", "h1")


@pytest.mark.parametrize(
    ("x", "y", "moved"),
    [
        ([0.0, 1.0], [1.0, 9e-6], True),
        ([0.0, 1.0], [1.0, 2e-5], False),
        ([1000.0, 1.0], [1.0, 1000.9], True),
        ([1000.0, 1.0], [1.0, 1001.1], False),
    ],
)
def test_moved_numbers_are_equal_within_rounding(x, y, moved):
    assert first_difference._is_moved(floats(*x), floats(*y)) is moved


def test_inputs_are_given_in_the_precision_that_is_declared():
    def declared(x, fact):
        return first_difference._as_declared(x, Value("v", fact))

    half, ints = TensorFact(DType.FLOAT16, None), TensorFact(DType.INT8, None)
    assert declared(X, half).dtype == np.float16
    for x, fact in ((X, ints), (X, TensorFact(None, None)), (X, None), (X > 0, half), ([X], half), (None, half)):
        assert declared(x, fact) is x
    third = floats(1 / 3)
    assert first_difference._rounded(third, Value("v", half)) == np.float32(np.float16(1 / 3))
    assert first_difference._rounded(third, Value("v", half)).dtype == np.float32
    assert first_difference._rounded(third, Value("v", ints)) == third
    assert first_difference._rounded(None, Value("v", half)) is None


def test_a_graph_that_hands_its_input_on_gives_it_as_declared():
    graph = Graph("g")
    graph.add_output(graph.add_input("x", TensorFact(DType.FLOAT16, None)))
    found = first_difference._run(graph, {"x": X}, "reference")
    assert found.dtype == np.float16


# Bounds of the search


def test_it_gives_up_once_its_time_is_over(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(first_difference.time, "monotonic", lambda: now[0])
    rounded = [2 * (1 + 9e-5)] * 4
    graphs = products(2, 2, 2, 2), products(*rounded)
    assert search(*graphs, deadline=0.0).run() is not None
    with pytest.raises(TimeoutError):
        search(graphs[0], graphs[0], deadline=-1.0).run()
    with pytest.raises(TimeoutError):
        search(*graphs, deadline=-1.0).run()
    plain = first_difference._run

    def slow(*arguments):
        now[0] += 1
        return plain(*arguments)

    monkeypatch.setattr(first_difference, "_run", slow)
    with pytest.raises(TimeoutError):
        search(*graphs, deadline=2.0).run()
    assert now[0] == 3.0


def test_no_more_values_are_looked_at_one_by_one_than_it_may(monkeypatch):
    monkeypatch.setattr(first_difference, "_MOST_CHECKED", 2)
    looked = search(products(2, 2, 2, 2, 2), products(*[2 * (1 + 9e-5)] * 5))
    looked.run()
    assert looked._checked == 2


# Bodies


def looped(op_type: str, last: str = "Sub", taken: str = "") -> Graph:
    """Return s, starting from x, after three rounds of two nested loops: s = op(s) - outer."""
    return from_text(
        f"""graph g(%x: float32[1]) {{
            constant %one = float32[1](1.0)
            constant %twice = int64[](2)
            constant %once = int64[](1)
            %outer = Identity(%one)
            %whole = Loop(%once, _, %x) {{body = graph outside(%i: int64[], %go: bool[], %s: float32[1]) {{
                %inner = Loop(%twice, _, %s) {{body = graph inside(%j: int64[], %on: bool[], %t: float32[1]{taken}) {{
                    %still = Identity(%on)
                    %changed = {op_type}(%t)
                    %next = {last}(%changed, %outer)
                    return %still, %next
                }}}}
                %goes = Identity(%go)
                return %goes, %inner
            }}}}
            %y = Neg(%whole)
            return %y
        }}"""
    )


HALF = floats(0.5)


def test_a_fault_in_a_body_is_reported_in_the_first_run_that_shows_it(monkeypatch):
    """For 0.5, Abs is the identity; for -0.5, in the second iteration, it is not."""
    found = found_in(looped("Abs"), looped("Identity"), HALF)
    assert (found.value.name, words(found)) == ("changed", (["Abs"], ["Identity"]))
    np.testing.assert_array_equal(found.inputs["t"], -HALF)
    for most, told in ((2, "changed"), (1, "inner"), (0, "whole")):
        monkeypatch.setattr(first_difference, "_MOST_RUNS", most)
        assert found_in(looped("Abs"), looped("Identity"), HALF).value.name == told


def test_bodies_are_looked_into_as_deep_as_it_may(monkeypatch):
    for deepest, told in ((3, "changed"), (2, "changed"), (1, "inner"), (0, "whole")):
        monkeypatch.setattr(first_difference, "_DEEPEST", deepest)
        assert found_in(looped("Abs"), looped("Sin"), HALF).value.name == told


def test_what_a_body_reads_from_around_it_is_given_to_it():
    found = found_in(looped("Abs"), looped("Abs", "Add"), HALF)
    assert (found.value.name, words(found)) == ("next", (["Sub"], ["Add"]))
    assert found.inputs["outer"] == 1


def test_bodies_that_take_something_else_are_not_looked_into():
    found = found_in(looped("Abs"), looped("Sin", taken=", %more: float32[1]"), HALF)
    assert (found.value.name, found.is_beyond) == ("inner", True)


def test_a_body_of_other_names_is_given_what_the_first_one_is():
    """Its result is called like a value within the body of the first: the place of a result counts more."""
    a, b = looped("Abs"), looped("Abs", "Add")
    for body in walk(b):
        if body.name == "inside":
            names = {"t": "u", "j": "k", "on": "off", "changed": "between", "next": "changed"}
            for value in list(body.values()):
                body.rename(value, names.get(value.name, value.name))
    found = found_in(a, b, HALF)
    assert (found.value.name, found.partner.name) == ("changed", "next")
    assert words(found) == (["Abs", "Sub"], ["Abs", "Add"])
    np.testing.assert_array_equal(found.inputs["t"], HALF)


def test_only_nodes_with_bodies_are_computed_again(monkeypatch):
    def refused(_):
        raise DiagnosticError(Diagnostic("RUN0003", "not here", None))

    monkeypatch.setattr(first_difference, "reference", SimpleNamespace(prepare=refused))
    assert found_in(looped("Abs"), looped("Sin"), HALF).value.name == "whole"
    monkeypatch.setattr(first_difference, "reference", None)
    assert found_in(net("%y = Abs(%x)"), net("%y = Sin(%x)")).value.name == "y"

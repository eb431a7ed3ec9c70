"""Values and nodes by the names that people give."""

from __future__ import annotations

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.ir.lookup import Names
from graphport.ir.text import from_text

GRAPH = from_text(
    """graph g(%x, %"a, b") {
        %h = Relu(%x) name "outer"
        %y = If(%h) {then_branch = graph then() {
            %t = Neg(%h) name "outer"
            %u = Abs(%t) name "twice"
            %v = Abs(%u) name "twice"
            return %v
        }} name "branch"
        return %y
    }"""
)


def test_lookup_prefers_outer_graphs():
    names = Names(GRAPH)
    outer, branch = GRAPH
    assert (names.node("outer"), names.node("branch"), names.node("nothing")) == (outer, branch, None)
    assert (names.value("h"), names.value("nothing")) == (outer.output, None)
    inner = names.value("u")
    assert inner is not None
    assert inner.graph is not GRAPH


def test_a_name_of_several_is_refused():
    with pytest.raises(DiagnosticError, match=r"EDIT0002.*ambiguous name: 2 nodes are called 'twice'"):
        Names(GRAPH).node("twice")
    double = from_text("graph g(%x) { %h = Relu(%x) %k = Abs(%h) return %k }")
    double.rename(double.outputs[0], "h")
    with pytest.raises(DiagnosticError, match="ambiguous name: 2 values are called 'h'"):
        Names(double).value("h")


def test_split_keeps_names_with_commas():
    assert Names(GRAPH).split(["x, h", "a, b", "outer,,twice ", "q,"]) == ["x", "h", "a, b", "outer", "twice", "q"]


def test_missing_name_lists_the_existing_names():
    names = Names(GRAPH)
    found = names.missing("zzz", "node", [f"n{number}" for number in range(5)])
    assert (found.code, found.message) == ("EDIT0001", "the model has no node called 'zzz'")
    assert found.help == "choose one of n0, n1, n2, n3, n4"
    more = names.missing("zzz", "node", (f"n{number}" for number in range(7)))
    assert more.help == "choose one of n0, n1, n2, n3, n4 and 2 more"
    assert names.missing("twce", "node", ["twice", "outer"]).help == "did you mean twice?"

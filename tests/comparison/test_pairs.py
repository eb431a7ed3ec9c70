"""Which values should be equal: by name, by the name that one had, by the place of a result."""

from __future__ import annotations

from graphport.comparison.pairs import originals, pairs
from graphport.ir.text import from_text


def names(found):
    return {value.name: partner.name for value, partner in found.items()}


def renamed(text, **were):
    """A graph in which values remember other names."""
    graph = from_text(text)
    for value in graph.values():
        if value.name in were:
            value.notes["original_name"] = were[value.name]
    return graph


A = from_text("graph a(%x) { constant %w = float32[](1.0) %h = Mul(%x, %w) %y = Neg(%h) return %y }")


def test_names_that_values_had_are_those_that_they_remember():
    graph = renamed("graph b(%x) { %g = Neg(%x) return %g }", g="h")
    assert originals(graph) == {"g": "h"}
    graph.inputs[0].notes["other"] = "note"
    assert originals(graph) == {"g": "h"}


def test_values_are_paired_by_original_or_current_name():
    b = renamed("graph b(%x) { constant %w = float32[](1.0) %g = Mul(%x, %w) %y = Neg(%g) return %y }", g="h")
    assert names(pairs(A, b)) == {"x": "x", "g": "h", "y": "y"}
    lost = renamed("graph b(%x) { %h = Abs(%x) %y = Neg(%h) return %y }", h="nowhere")
    assert names(pairs(A, lost)) == {"x": "x", "h": "h", "y": "y"}
    assert names(pairs(A, from_text("graph b(%w) { %x = Neg(%w) return %x }"))) == {"x": "x"}


def test_outputs_without_common_name_are_paired_by_index():
    b = from_text("graph b(%x) { %g = Abs(%x) %z = Neg(%g) return %z }")
    assert names(pairs(A, b)) == {"x": "x", "z": "y"}


def test_each_value_has_one_partner():
    twice = renamed("graph b(%x) { %g = Abs(%x) %h = Neg(%g) return %h }", g="h")
    assert names(pairs(A, twice)) == {"x": "x", "g": "h", "h": "y"}
    inner = from_text("graph b(%x) { %y = Abs(%x) %z = Neg(%y) return %z }")
    assert names(pairs(A, inner)) == {"x": "x", "y": "y"}


def test_outputs_first_pairs_outputs_by_index():
    """What is a result here is called like a value within the other graph."""
    b = from_text("graph b(%x) { %y = Abs(%x) %h = Neg(%y) return %h }")
    assert names(pairs(A, b)) == {"x": "x", "y": "y", "h": "h"}
    assert names(pairs(A, b, outputs_first=True)) == {"x": "x", "h": "y"}

"""Nodes of a body, put into the graph around it."""

from __future__ import annotations

import pytest

from graphport.ir.graph import Node
from graphport.ir.text import from_text, to_text
from graphport.ir.transplant import transplant
from graphport.ir.verify import verify


def whole():
    return from_text(
        """graph g(%x: float32[2], %h: float32[2]) {
            %y = If(%x) {then_branch = graph then(%z: float32[2]) {
                constant %w = float32[2](1.0, 2.0)
                %a = Add(%z, %w) name "sum"
                %b, _, %c = Split(%a, %x)
                %d = If(%b) {then_branch = graph inner() { %e = Mul(%a, %z) return %e }}
                return %c, %d
            }} name "branch"
            return %y
        }"""
    )


def test_transplant_copies_a_body_before_a_node():
    graph = whole()
    (branch,) = graph
    (body,) = branch.bodies()
    before = to_text(body)
    x, h = graph.inputs
    moved = transplant(body, branch, {body.inputs[0]: h})
    verify(graph)
    assert to_text(body) == before
    assert [node.op_type for node in graph] == ["Add", "Split", "If", "If"]
    total, split, inner, _ = graph
    (weight,), (original,) = graph.constants, body.constants
    assert weight.storage is original.storage
    assert (weight.fact, str(weight.fact)) == (original.fact, "float32[2]")
    assert total.inputs == (h, weight)
    assert split.inputs == (total.output, x)
    assert [value is None for value in split.outputs] == [False, True, False]
    (innermost,) = inner.bodies()
    assert innermost.last_node is not None
    assert innermost.last_node.inputs == (total.output, h)
    assert [moved[value] for value in body.outputs] == [split.results[1], inner.output]
    assert moved[body.inputs[0]] is h
    called = [value.name for value in (*graph.values(), *body.values())]
    assert len(called) == len(set(called)) == 14


def test_transplant_appends_a_suffix_to_node_names():
    graph = whole()
    (branch,) = graph
    (body,) = branch.bodies()
    transplant(body, branch, {body.inputs[0]: graph.inputs[0]}, behind="/1")
    transplant(body, branch, {body.inputs[0]: graph.inputs[1]}, behind="/2")
    verify(graph)
    assert [node.name for node in graph] == ["sum/1", "", "", "sum/2", "", "", "branch"]


def test_transplant_before_a_node_without_graph_raises():
    (body,) = next(iter(whole())).bodies()
    with pytest.raises(ValueError, match="the node is in no graph"):
        transplant(body, Node("If"), {})

"""Rules run on the nodes of the graph, and journals record the changes of each node."""

from __future__ import annotations

import numpy as np
from onnx import helper

import graphport as gp
from graphport.ir import rewrite
from graphport.passes.journal import Journal, NotApplicable, apply
from tests.passes.cases import B, F, info, model, node


def branching():
    """y = If(c, Neg(If(c, Abs, Exp)), Relu)."""
    inner = [helper.make_graph([node(op, "x", f"{op}.r")], op, [], [info(f"{op}.r", [2])]) for op in ("Abs", "Exp")]
    deep = helper.make_node("If", ["c"], ["deep"], then_branch=inner[0], else_branch=inner[1])
    then = helper.make_graph([deep, node("Neg", "deep", "then")], "then", [], [info("then", [2])])
    other = helper.make_graph([node("Relu", "x", "other")], "other", [], [info("other", [2])])
    outer = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    last = node("Sigmoid", "y", "z")
    return gp.from_onnx(model([outer, last], [info("x", [2], F), info("c", [], B)], [info("z", [2])])).graph


def test_apply_visits_nested_bodies():
    graph, journal = branching(), Journal()
    apply(graph, journal, lambda each: f"seen {each.op_type}")
    assert sorted(note.text for note in journal.done) == sorted(
        f"seen {op_type}" for op_type in ("If", "If", "Abs", "Exp", "Neg", "Relu", "Sigmoid")
    )
    only = Journal()
    apply(graph, only, lambda each: "seen" if each.op_type != "Neg" else None, {"Neg", "Exp"})
    assert [note.node.split()[0] for note in only.done] == ["Exp"]


def test_bodies_of_nodes_that_are_gone_are_not_looked_at():
    graph, journal = branching(), Journal()

    def rule(each):
        if each.op_type == "If" and each.graph is graph:
            rewrite.replace(each.output, graph.inputs[0])
            rewrite.erase(each)
            return "gone"
        return "seen"

    apply(graph, journal, rule)
    assert [(note.node.split()[0], note.text) for note in journal.done] == [("If", "gone"), ("Sigmoid", "seen")]


def test_not_applicable_reason_is_recorded_for_the_node():
    graph, journal = branching(), Journal()

    def rule(each):
        if each.op_type == "Relu":
            raise NotApplicable("it is fine")

    apply(graph, journal, rule)
    assert journal.done == []
    assert [str(note) for note in journal.left] == ["Relu other: it is fine"]


def test_a_rule_sees_the_numbers_of_the_graph():
    graph = gp.from_onnx(
        model([node("Add", "x k", "y")], [info("x", [2])], [info("y", [2])], {"k": np.ones(2, np.float32)})
    ).graph
    journal = Journal()
    apply(graph, journal, lambda each: str(each.operand(1).storage.numpy().tolist()))
    assert [note.text for note in journal.done] == ["[1.0, 1.0]"]

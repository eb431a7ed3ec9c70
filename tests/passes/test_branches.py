"""Branches that are always taken and loops of known length stand where they stood; others stay."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx import helper

import graphport as gp
from graphport.ir.verify import verify
from graphport.passes.inline_branches import inline_branches
from graphport.passes.journal import Journal
from graphport.passes.resolve_branches import resolve_branches
from graphport.passes.unroll_loops import MAX_NODES, MOST_TURNS, unroll_loops
from tests.passes.alone import X, done, read, reasons
from tests.passes.cases import I64, B, info, model, node, some


def branches(name="c", condition=None):
    then = helper.make_graph([node("Neg", "x", "a")], "then", [], [info("a", None)])
    other = helper.make_graph([node("Abs", "x", "b")], "else", [], [info("b", None)])
    return [helper.make_node("If", [name], ["y"], then_branch=then, else_branch=other)]


@pytest.mark.parametrize(("condition", "op"), [(True, "Neg"), (False, "Abs")])
def test_if_with_constant_condition_is_inlined(condition, op):
    for shape in ((), (1,)):
        ops, journal = done(inline_branches, branches("k"), k=np.full(shape, condition))
        assert ops == [op]
        assert [note.text for note in journal.done] == [
            f"its condition is constant: {'then' if condition else 'else'}_branch"
        ]
    graph = read(branches("k"), k=np.array(condition))
    inline_branches(graph, Journal())
    assert (graph.outputs[0].name, graph.outputs[0].fact.shape) == ("y", X)


def test_a_condition_that_is_computed_stays():
    ops, journal = done(inline_branches, branches(), (("x", X), ("c", ())))
    assert (ops, journal.done) == (["If"], [])


def choice(then_axes, reader, *more):
    """An If that gives `x` or `x` with one more axis, before what needs a rank."""
    then = helper.make_graph([node("Unsqueeze", "x k", "a")], "then", [], [info("a", None)])
    other = helper.make_graph([node("Identity", "x", "b")], "else", [], [info("b", None)])
    bodies = (then, other) if then_axes else (other, then)
    made = helper.make_node("If", ["c"], ["h"], then_branch=bodies[0], else_branch=bodies[1])
    return [made, reader, *more]


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("reader", "is_larger"),
    [
        (node("Transpose", "h", "y", perm=[1, 0]), False),
        (node("Transpose", "h", "y", perm=[1, 0, 2]), True),
        (node("Relu", "h", "y"), None),
    ],
    ids=["rank 2", "rank 3", "any rank"],
)
def test_condition_is_constant_if_consumers_reject_one_branch_shape(is_first, reader, is_larger):
    for shape in ((), (1,)):
        inputs = [info("x", (3, 4)), info("c", shape, B)]
        nodes = choice(is_first, reader, node("Not", "c", "d"))
        proto = model(nodes, inputs, [info("y", None), info("d", None, B)], {"k": np.array([0])}, opset=18)
        graph, journal = gp.from_onnx(proto).graph, Journal()
        resolve_branches(graph, journal)
        verify(graph)
        condition = graph.first_node.operands[0]
        assert condition.is_constant is (is_larger is not None)
        if is_larger is None:
            continue
        answer = is_larger is is_first
        assert condition.storage.numpy().tolist() == ([answer] if shape else answer)
        assert graph.last_node.operands[0] is condition  # everybody in the graph reads it
        assert [note.text for note in journal.done] == [
            f"its condition is {str(answer).lower()} for all inputs that its consumers accept"
        ]
        again = Journal()
        resolve_branches(graph, again)
        assert not again.done


def test_indirect_consumers_count_too():
    nodes = choice(True, node("Relu", "h", "r"), node("Transpose", "r", "y", perm=[1, 0]))
    graph = gp.from_onnx(
        model(nodes, [info("x", (3, 4)), info("c", [], B)], [info("y", None)], {"k": np.array([0])}, opset=18)
    ).graph
    resolve_branches(graph, Journal())
    assert graph.first_node.operands[0].storage.numpy().tolist() is False


def loop(count=2, body=None, more=(), condition="", outputs=("y",)):
    nodes = body or [node("Mul", "s w", "t"), node("Identity", "g", "go")]
    results = [info("go", [], B), info("t", [3]), *[info(name, None) for name in more]]
    inner = helper.make_graph(nodes, "b", [info("i", [], I64), info("g", [], B), info("s", [3])], results)
    return [helper.make_node("Loop", ["n", condition, "x"], list(outputs), body=inner)]


@pytest.mark.parametrize("count", [1, 2, MOST_TURNS])
def test_short_loop_is_unrolled(count):
    for condition in ("", "k"):
        nodes = loop(condition=condition)
        ops, journal = done(unroll_loops, nodes, (("x", (3,)),), n=np.array(count), w=some(3), k=np.array(True))
        assert [op for op in ops if op != "Identity"] == ["Mul"] * count
        assert [note.text for note in journal.done] == [f"unrolled to {count} iterations"]


def test_unrolled_loop_concatenates_scan_outputs():
    body = [
        node("Cast", "i", "f", to=1),
        node("Add", "s f", "t"),
        node("Mul", "t w", "o"),
        node("Identity", "g", "go"),
    ]
    nodes = loop(body=body, more=["o"], outputs=("y", "z"))
    ops, _ = done(unroll_loops, nodes, (("x", (3,)),), outputs=("y", "z"), n=np.array(3), w=some(3))
    assert (ops.count("Add"), ops.count("Concat"), ops.count("Unsqueeze"), ops.count("Loop")) == (3, 1, 3, 0)


@pytest.mark.parametrize(
    ("count", "options", "reason"),
    [
        pytest.param(0, {}, "0 iterations of 2 nodes: 0 or above the limit", id="no turn"),
        pytest.param(MOST_TURNS + 1, {}, "iterations of 2 nodes: 0 or above the limit", id="many turns"),
        pytest.param(
            2,
            {"body": [node("Mul", "s w", "t"), node("ReduceSum", "t", "u", keepdims=0), node("Cast", "u", "go", to=9)]},
            "the loop condition is computed",
            id="a condition that is computed",
        ),
    ],
)
def test_loops_that_stay(count, options, reason):
    ops, journal = done(unroll_loops, loop(**options), (("x", (3,)),), n=np.array(count), w=some(3))
    assert "Loop" in ops
    assert len(reasons(journal)) == 1
    assert reason in reasons(journal)[0]


def test_large_bodies_and_unknown_beginnings_stay():
    for size, is_unrolled in ((MAX_NODES // 2, True), (MAX_NODES // 2 + 1, False)):
        names = ["s", *[f"m{n}" for n in range(size - 2)], "t"]
        body = [node("Neg", a, b) for a, b in pairwise(names)]
        nodes = loop(body=[*body, node("Identity", "g", "go")])
        ops, _ = done(unroll_loops, nodes, (("x", (3,)),), n=np.array(2))
        assert ("Loop" not in ops) is is_unrolled
    ops, journal = done(unroll_loops, loop(condition="c"), (("x", (3,)), ("c", ())), n=np.array(2), w=some(3))
    assert (ops, reasons(journal)) == (["Loop"], ["the initial condition is computed"])
    ops, journal = done(unroll_loops, loop(condition="k"), (("x", (3,)),), n=np.array(2), w=some(3), k=np.array(False))
    assert (ops, reasons(journal)) == (["Loop"], ["the initial condition is computed"])
    ops, journal = done(unroll_loops, loop(), (("x", (3,)), ("n", ())), dtypes={"n": I64}, w=some(3))
    assert (ops, journal.left) == (["Loop"], [])


def test_operators_of_others_and_bodies_of_branches_are_not_used():
    def made(*more):
        nodes = choice(True, node("Relu", "h", "r"), *more)
        proto = model(
            nodes,
            [info("x", (3, 4)), info("c", [], B)],
            [info("y", None)],
            {"k": np.array([0])},
            opset=18,
            domains={"custom": 1},
        )
        return gp.from_onnx(proto).graph

    inner = helper.make_graph([node("Neg", "r", "a")], "then", [], [info("a", None)])
    other = helper.make_graph([node("Abs", "r", "b")], "else", [], [info("b", None)])
    bodies = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)
    for more in ([bodies], [helper.make_node("Foreign", ["r"], ["y"], domain="custom")]):
        graph, journal = made(*more), Journal()
        resolve_branches(graph, journal)
        assert not journal.done
        assert graph.first_node.operands[0].is_input


def test_resolve_branches_follows_at_most_max_followed_nodes(monkeypatch):
    for most, is_settled in ((2, True), (1, False)):
        monkeypatch.setattr("graphport.passes.resolve_branches.MAX_FOLLOWED_NODES", most)
        nodes = choice(True, node("Relu", "h", "r"), node("Transpose", "r", "y", perm=[1, 0]))
        graph = gp.from_onnx(
            model(nodes, [info("x", (3, 4)), info("c", [], B)], [info("y", None)], {"k": np.array([0])}, opset=18)
        ).graph
        resolve_branches(graph, Journal())
        assert graph.first_node.operands[0].is_constant is is_settled

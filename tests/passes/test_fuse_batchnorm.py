"""BatchNormalization with constant statistics is fused into adjacent weights, or the reason is reported."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import graphport as gp
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.passes.fuse_batchnorm import fuse_batchnorm
from graphport.passes.journal import Journal
from tests.passes.alone import applied, reasons
from tests.passes.cases import bn, info, model, node, norm, some

X = {"image": (2, 3, 5, 5), "line": (2, 3, 6), "rows": (4, 3)}
W = {
    "w": some(6, 3, 2, 2),
    "u": some(6, 3, 2),
    "v": some(3, 6),
    "t": some(3, 6, 2),
    "g": some(6, 5),
    "k": some(5, 6, 1, 1),
}
N6 = norm(6)


def fused(nodes, shape, *, outputs=("y",), exact=False, room=None, **constants):
    used = {name for each in nodes for name in each.input}
    given = {name: array for name, array in {**W, **N6, **constants}.items() if name in used}
    proto = model(nodes, [info("x", shape)], [info(name, None) for name in outputs], given)

    def work(graph, journal):
        journal.room = journal.room if room is None else room
        fuse_batchnorm(graph, journal)

    return applied(proto, work, {"x": some(*shape)}, exact=exact)


BEFORE = {
    "conv": ([node("Conv", "x w", "h"), bn("h", "y")], X["image"], ["Conv"]),
    "transposed": ([node("ConvTranspose", "x t", "h"), bn("h", "y")], X["line"], ["ConvTranspose"]),
    "gemm": ([node("Gemm", "x v", "h"), bn("h", "y")], X["rows"], ["Gemm"]),
    "product": ([node("MatMul", "x v", "h"), bn("h", "y")], X["rows"], ["MatMul", "Add"]),
    "sum of a row": ([node("MatMul", "x v", "h"), node("Add", "h c", "s"), bn("s", "y")], X["rows"], ["MatMul", "Add"]),
    "sum on the left": (
        [node("MatMul", "x v", "h"), node("Add", "c h", "s"), bn("s", "y")],
        X["rows"],
        ["MatMul", "Add"],
    ),
    "another one": ([bn("x", "h", "o"), bn("h", "y", "p")], (2, 4, 3), ["BatchNormalization"]),
}


@pytest.mark.parametrize("name", BEFORE)
def test_batchnorm_is_folded_into_the_preceding_operator(name):
    nodes, shape, expected = BEFORE[name]
    ops, journal = fused(nodes, shape, c=some(6), **norm(4, "o"), **norm(4, "p"))
    assert ops == expected
    assert [note.text.partition(" of ")[0] for note in journal.done] == ["folded into the weights"]


def test_journal_names_the_operator_that_absorbed_the_batchnorm():
    def told(case, name=""):
        nodes, shape, _ = BEFORE[case]
        nodes = [type(each).FromString(each.SerializeToString()) for each in nodes]
        nodes[0].name = name
        return [str(note) for note in fused(nodes, shape, c=some(6))[1].done]

    assert told("conv") == ["BatchNormalization y: folded into the weights of Conv"]
    assert told("conv", name="first") == ["BatchNormalization y: folded into the weights of Conv first"]
    assert told("product", name="dense") == ["BatchNormalization y: folded into the weights of MatMul dense and an Add"]
    assert told("product") == ["BatchNormalization y: folded into the weights of MatMul and an Add"]
    assert told("sum of a row") == ["BatchNormalization y: folded into the weights of MatMul and its summand"]


@pytest.mark.parametrize("summand", [(), (1,), (1, 6), (4, 6), (4, 1), (6,)])
def test_a_summand_that_broadcasts_to_the_product_is_normalized_too(summand):
    nodes, shape, expected = BEFORE["sum of a row"]
    assert fused(nodes, shape, c=some(*summand))[0] == expected


def test_batched_matmul_absorbs_batchnorm_along_axis_1():
    nodes = [node("MatMul", "a x", "h"), bn("h", "y")]
    assert fused(nodes, X["line"], a=some(6, 3))[0] == ["MatMul", "Add"]
    nodes = [node("MatMul", "a x", "h"), node("Add", "h c", "s"), bn("s", "y")]
    for c in ((6, 1), (6, 6), (2, 6, 6)):
        assert fused(nodes, X["line"], a=some(6, 3), c=some(*c))[0] == ["MatMul", "Add"]


@pytest.mark.parametrize(
    ("nodes", "shape", "reason"),
    [
        pytest.param(
            [node("Relu", "x", "h"), bn("h", "y")], (2, 6), "the operator before it has no weights to scale", id="relu"
        ),
        pytest.param([bn("x", "y")], (2, 6), "the operator before it has no weights to scale", id="an input"),
        pytest.param(
            [node("Relu", "x", "h"), node("Add", "h c", "s"), bn("s", "y")],
            (2, 6),
            "the operator before it has no weights to scale",
            id="a sum with no product",
        ),
        pytest.param(
            [node("Add", "x c", "s"), bn("s", "y")],
            (2, 6),
            "the operator before it has no weights to scale",
            id="a sum",
        ),
        pytest.param(
            [node("Add", "x x", "s"), bn("s", "y")],
            (2, 6),
            "the operator before it has no weights to scale",
            id="a sum of two",
        ),
        pytest.param(
            [node("MatMul", "x v", "h"), node("Add", "h m", "s"), bn("s", "y")],
            (1, 3),
            "the Add before it enlarges h, or may",
            id="a larger sum",
        ),
        pytest.param(
            [node("MatMul", "x v", "h"), node("Add", "h c", "s"), bn("s", "y"), node("Relu", "h", "z")],
            (2, 3),
            "the operator before it has no weights to scale",
            id="a product that is read elsewhere",
        ),
        pytest.param(
            [node("Conv", "x w", "h"), bn("h", "y"), node("Relu", "h", "z")],
            X["image"],
            "h has another consumer",
            id="read elsewhere",
        ),
    ],
)
def test_batchnorm_is_kept_after_unsupported_operators(nodes, shape, reason):
    outputs = ("y", "z") if nodes[-1].output[0] == "z" else ("y",)
    ops, journal = fused(nodes, shape, outputs=outputs, exact=True, c=some(6), m=some(4, 6))
    assert ops == [each.op_type for each in nodes]
    assert reasons(journal) == [f"{reason}; it is a graph output"]


def test_batchnorm_is_kept_after_graph_outputs_and_across_bodies():
    nodes, shape, _ = BEFORE["conv"]
    _, journal = fused(nodes, shape, outputs=("y", "h"), exact=True)
    assert reasons(journal) == ["h has another consumer; it is a graph output"]
    inner = helper.make_graph([bn("h", "a")], "then", [], [info("a", None)])
    other = helper.make_graph([node("Neg", "x", "b"), node("Conv", "b w", "d")], "else", [], [info("d", None)])
    choice = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)
    proto = model([nodes[0], choice], [info("x", shape), info("c", [], 9)], [info("y", None)], {**N6, "w": W["w"]})
    ops, journal = applied(proto, fuse_batchnorm, {"x": some(*shape), "c": np.array(True)})
    assert ops == ["Conv", "If"]
    assert reasons(journal) == ["h belongs to an outer graph; it is a graph output"]


BEHIND = {
    "conv": ([bn("x", "h"), node("Conv", "h k", "y")], (2, 6, 4, 4), "Conv"),
    "gemm": ([bn("x", "h"), node("Gemm", "h g", "y")], (3, 6), "Gemm"),
    "product": ([bn("x", "h"), node("MatMul", "h g", "y")], (3, 6), "Gemm"),
}


@pytest.mark.parametrize("name", BEHIND)
def test_batchnorm_is_folded_into_the_following_operator(name):
    nodes, shape, expected = BEHIND[name]
    ops, journal = fused(nodes, shape)
    assert ops == [expected]
    assert [str(note) for note in journal.done] == [
        f"BatchNormalization h: folded into the weights of the following {expected}"
    ]


@pytest.mark.parametrize(
    ("more", "outputs", "reason"),
    [
        pytest.param(
            [node("Relu", "h", "z")], ("y", "z"), "Relu after it has no weights to scale", id="another reader"
        ),
        pytest.param([node("Conv", "h k", "z")], ("y", "z"), "it has several consumers", id="another of the kind"),
        pytest.param([], ("y", "h"), "it is a graph output", id="an output"),
        pytest.param(
            [node("MatMul", "g2 h", "z")],
            ("y", "z"),
            "a consumer uses it as another operand, or is in a body",
            id="as another operand",
        ),
    ],
)
def test_batchnorm_is_kept_before_unsupported_operators(more, outputs, reason):
    nodes, shape, _ = BEHIND["conv"]
    ops, journal = fused([*nodes, *more], shape, outputs=outputs, exact=True, g2=some(3, 4))
    assert ops[0] == "BatchNormalization"
    assert reasons(journal) == [f"the operator before it has no weights to scale; {reason}"]


def test_a_reader_in_a_body_keeps_it():
    inner = helper.make_graph([node("Conv", "h k", "a")], "then", [], [info("a", None)])
    other = helper.make_graph([node("Conv", "x k", "b")], "else", [], [info("b", None)])
    nodes = [bn("x", "h"), helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)]
    proto = model(nodes, [info("x", (2, 6, 4, 4)), info("c", [], 9)], [info("y", None)], {**N6, "k": W["k"]})
    feeds = {"x": some(2, 6, 4, 4), "c": np.array(True)}
    ops, journal = applied(proto, fuse_batchnorm, feeds)
    assert ops == ["BatchNormalization", "If"]
    assert "is in a body" in reasons(journal)[0]


def test_weights_that_others_read_need_room():
    nodes = [node("Conv", "x w", "h"), bn("h", "y"), node("Conv", "x w", "z")]
    size = W["w"].nbytes
    ops, journal = fused(nodes, X["image"], outputs=("y", "z"), room=size)
    assert (ops, journal.room) == (["Conv", "Conv"], 0)
    ops, journal = fused(nodes, X["image"], outputs=("y", "z"), exact=True, room=size - 1)
    assert (ops, journal.room, len(journal.left)) == (["Conv", "BatchNormalization", "Conv"], size - 1, 1)


def test_a_summand_that_is_not_finite_keeps_it():
    huge = N6 | {"shift": np.full(6, 3e38, np.float32), "mean": np.full(6, -3e38, np.float32)}
    for name in ("product", "sum of a row"):
        nodes, shape, _ = BEFORE[name]
        proto = model(nodes, [info("x", shape)], [info("y", None)], {**huge, "v": W["v"], "c": some(6)})
        graph, journal = gp.from_onnx(proto).graph, Journal()
        fuse_batchnorm(graph, journal)
        assert [each.op for each in graph] == [each.op_type for each in nodes]
        assert reasons(journal) == ["a summand would not be finite; it is a graph output"]


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        pytest.param(lambda fact: TensorFact(fact.dtype, None), "the rank of its operand is unknown", id="rank"),
        pytest.param(lambda fact: TensorFact(None, fact.shape), "its element type is unknown", id="element type"),
        pytest.param(lambda fact: UNKNOWN, "the rank of its operand is unknown", id="all"),
    ],
)
def test_a_product_of_unknown_rank_or_type_keeps_it(fact, reason):
    nodes, shape, _ = BEFORE["product"]
    proto = model(nodes, [info("x", shape)], [info("y", None)], {**N6, "v": W["v"]})
    graph, journal = gp.from_onnx(proto).graph, Journal()
    graph.outputs[0].fact = fact(graph.outputs[0].fact)
    fuse_batchnorm(graph, journal)
    assert reasons(journal) == [f"{reason}; it is a graph output"]
    assert [each.op for each in graph] == ["MatMul", "BatchNormalization"]

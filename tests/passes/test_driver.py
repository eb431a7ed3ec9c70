"""What runs a list of passes: selection, order, facts, the room that constants have."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import VerificationError
from graphport.passes.driver import Pass, PassList, count_nodes, run, select
from graphport.passes.journal import Journal, Left, apply
from graphport.passes.prepare import PREPARE
from graphport.passes.substitution import add_constant
from tests.passes.cases import bn, info, model, node, norm, some

FACT = TensorFact(DType.FLOAT32, (2, 3))


def chain(*words: str) -> Graph:
    graph = Graph()
    value = graph.add_input("x", FACT)
    for word in words:
        value = graph.append(Node(word, [value], [Value(graph.fresh("h"))])).output
    graph.add_output(value)
    return graph


def renaming(old: str, new: str) -> Pass:
    def work(graph: Graph, journal: Journal) -> None:
        for each in graph:
            if each.word == old:
                each.word = new
                journal.did(each, f"was {old}")

    return Pass(f"{old}-{new}", work, "exact")


def test_passes_are_chosen_in_the_order_of_the_list():
    names = [each.name for each in PREPARE]
    assert [each.name for each in select(PREPARE, only=["name-nodes", "fuse-bias"])] == ["fuse-bias", "name-nodes"]
    assert [each.name for each in select(PREPARE, skip=names[1:])] == names[:1]
    with pytest.raises(ValueError, match="no pass 'fuse'"):
        select(PREPARE, skip=["fuse"])


def test_a_pass_runs_only_when_those_before_it_find_nothing():
    graph = chain("Abs")
    outcomes = run(graph, PassList((renaming("Neg", "Relu"), renaming("Abs", "Neg"), renaming("Relu", "Exp"))))
    assert [each.word for each in graph] == ["Exp"]
    assert [outcome.changes for outcome in outcomes] == [1, 1, 1]


def test_a_pass_that_breaks_the_graph_is_caught():
    def work(graph: Graph, journal: Journal) -> None:
        graph.rename(graph.outputs[0], "x")
        journal.did("x", "broken")

    with pytest.raises(VerificationError, match="two values are called x"):
        run(chain("Relu"), PassList((Pass("bad", work, "exact"),)))


def test_what_was_left_alone_is_told_of_the_last_run_only():
    def work(graph: Graph, journal: Journal) -> None:
        def rule(each: Node) -> None:
            raise Left(f"it is {each.word}")

        apply(graph, journal, rule)

    (_, outcome) = run(chain("Abs"), PassList((renaming("Abs", "Neg"), Pass("shy", work, "exact"))))
    assert [str(note) for note in outcome.left] == ["Neg h: it is Neg"]


def test_facts_that_only_the_file_claims_are_not_relied_on_and_stay_with_outputs():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, None))
    y = graph.append(Node("Relu", [x], [Value("y", TensorFact(DType.FLOAT32, (7,)))])).output
    graph.add_output(y)
    seen = []

    def work(graph: Graph, journal: Journal) -> None:
        seen.extend(value.fact for value in graph.outputs)

    run(graph, PassList((Pass("look", work, "exact"),)))
    assert seen == [TensorFact(DType.FLOAT32, None)]
    assert y.fact == TensorFact(DType.FLOAT32, (7,))


def test_summaries_are_sentences():
    assert all(len(each.summary) > 20 for each in PREPARE)
    assert len({each.name for each in PREPARE}) == len(PREPARE)


def test_nodes_of_bodies_count():
    graph = chain("Relu")
    assert graph.first is not None
    graph.first.set_attribute("body", chain("Neg", "Abs"))
    assert count_nodes(graph) == 3


def test_constants_have_room_for_a_tenth_and_no_more():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (1000, 1000)))
    shape = add_constant(graph, np.array([1000, 100]), "s")
    weight = add_constant(graph, some(1000, 1000), "w")
    product = graph.append(Node("MatMul", [x, weight], [Value("h", TensorFact(DType.FLOAT32, (1000, 1000)))])).output
    for _ in range(3):
        filled = graph.append(Node("ConstantOfShape", [shape], [Value(graph.fresh("f"))])).output
        product = graph.append(Node("MatMul", [product, filled], [Value(graph.fresh("h"))])).output
        shape = add_constant(graph, np.array([100, 100]), "s")
    graph.add_output(product)
    (outcome,) = run(graph, select(PREPARE, only=["fold-constants"]))
    assert (outcome.changes, len(outcome.left)) == (1, 2)


def test_a_model_is_not_changed_and_the_report_says_what_was_done():
    proto = model(
        [node("Conv", "x w", "h", name="c"), bn("h", "y")],
        [info("x", ["N", 4, 7])],
        [info("y", ["N", 6, 5])],
        {"w": some(6, 4, 3), **norm(6)},
    )
    source = gp.from_onnx(proto)
    prepared, report = gp.prepare(source)
    assert [each.op for each in source.graph] == ["Conv", "BatchNormalization"]
    assert [each.op for each in prepared.graph] == ["Conv"]
    assert report.passed
    assert report.verification is not None
    assert (report.nodes_before, report.nodes_after) == (2, 1)
    done = {outcome.name: [str(note) for note in outcome.done] for outcome in report.passes if outcome.done}
    assert done["fuse-batchnorm"] == ["BatchNormalization y: became weights of Conv c"]
    assert prepared.outputs["y"].producer is not None
    assert prepared.outputs["y"].producer.name == "c"


def test_a_weight_that_nobody_else_reads_keeps_its_name():
    proto = model(
        [node("Conv", "x w b", "h"), bn("h", "y")],
        [info("x", [1, 4, 7])],
        [info("y", [1, 6, 5])],
        {"w": some(6, 4, 3), "b": some(6), **norm(6)},
    )
    prepared, _ = gp.prepare(gp.from_onnx(proto))
    assert [value.name for value in prepared.graph.constants] == ["w", "b"]


def test_what_goes_makes_room_so_that_a_second_run_finds_nothing():
    idle = [node("Identity", f"h{n}", f"h{n + 1}") for n in range(60)]
    rows = [node("ConstantOfShape", "s", f"c{n}", value=onnx.numpy_helper.from_array(some(1) + n)) for n in range(10)]
    sums = [node(("Add", "Mul")[n % 2], f"g{n} c{n}", f"g{n + 1}") for n in range(10)]
    nodes = [node("Add", "x w", "h0"), *idle, *rows, node("Relu", "h60", "g0"), *sums]
    constants = {"w": some(23, 64), "s": np.array([64])}
    once, report = gp.simplify(
        gp.from_onnx(model(nodes, [info("x", [23, 64])], [info("g10", None)], constants)),
        skip=["merge-arithmetic", "drop-expands"],
    )
    assert report.changes["fold-constants"] == 10
    _, again = gp.simplify(once)
    assert not again.changes["fold-constants"]


def test_outputs_are_declared_with_what_is_known_at_the_end():
    nodes = [node("Shape", "x", "s"), node("Reshape", "x s", "h"), node("Relu", "h", "y")]
    result, _ = gp.simplify(gp.from_onnx(model(nodes, [info("x", ["N", 4])], [info("y", None)], {})))
    assert str(result.outputs["y"].fact) == "float32[N, 4]"

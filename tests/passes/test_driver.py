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
from graphport.passes.driver import Pass, PassList, count_nodes, run, select, supported_passes
from graphport.passes.journal import Journal, NotApplicable, apply
from graphport.passes.prepare import PREPARE
from graphport.passes.substitution import add_constant
from tests.passes.cases import bn, info, model, node, norm, some

FACT = TensorFact(DType.FLOAT32, (2, 3))


def chain(*words: str) -> Graph:
    graph = Graph()
    value = graph.add_input("x", FACT)
    for op_type in words:
        value = graph.append(Node(op_type, [value], [Value(graph.fresh("h"))])).output
    graph.add_output(value)
    return graph


def renaming(old: str, new: str) -> Pass:
    def work(graph: Graph, journal: Journal) -> None:
        for each in graph:
            if each.op_type == old:
                each.op_type = new
                journal.did(each, f"was {old}")

    return Pass(f"{old}-{new}", work, "exact")


def test_passes_are_chosen_in_the_order_of_the_list():
    names = [each.name for each in PREPARE]
    assert [each.name for each in select(PREPARE, only=["name-nodes", "fuse-bias"])] == ["fuse-bias", "name-nodes"]
    assert [each.name for each in select(PREPARE, skip=names[1:])] == names[:1]
    with pytest.raises(ValueError, match="no pass 'fuse'"):
        select(PREPARE, skip=["fuse"])


def test_pass_runs_after_earlier_passes_reach_a_fixed_point():
    graph = chain("Abs")
    outcomes = run(graph, PassList((renaming("Neg", "Relu"), renaming("Abs", "Neg"), renaming("Relu", "Exp"))))
    assert [each.op_type for each in graph] == ["Exp"]
    assert [outcome.changes for outcome in outcomes] == [1, 1, 1]


def test_a_pass_that_breaks_the_graph_is_caught():
    def work(graph: Graph, journal: Journal) -> None:
        graph.rename(graph.outputs[0], "x")
        journal.did("x", "broken")

    with pytest.raises(VerificationError, match="duplicate value name x"):
        run(chain("Relu"), PassList((Pass("bad", work, "exact"),)))


def test_nodes_left_unchanged_are_reported_for_the_last_run_only():
    def work(graph: Graph, journal: Journal) -> None:
        def rule(each: Node) -> None:
            raise NotApplicable(f"it is {each.op_type}")

        apply(graph, journal, rule)

    (_, outcome) = run(chain("Abs"), PassList((renaming("Abs", "Neg"), Pass("shy", work, "exact"))))
    assert [str(note) for note in outcome.left] == ["Neg h: it is Neg"]


def test_passes_see_inferred_facts_and_outputs_keep_declared_facts():
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
    assert graph.first_node is not None
    graph.first_node.set_attribute("body", chain("Neg", "Abs"))
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


def test_prepare_copies_the_model_and_reports_its_changes():
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
    assert done["fuse-batchnorm"] == ["BatchNormalization y: folded into the weights of Conv c"]
    assert prepared.outputs["y"].producer is not None
    assert prepared.outputs["y"].producer.name == "c"


def test_prepare_keeps_the_name_of_a_weight_with_one_consumer():
    proto = model(
        [node("Conv", "x w b", "h"), bn("h", "y")],
        [info("x", [1, 4, 7])],
        [info("y", [1, 6, 5])],
        {"w": some(6, 4, 3), "b": some(6), **norm(6)},
    )
    prepared, _ = gp.prepare(gp.from_onnx(proto))
    assert [value.name for value in prepared.graph.constants] == ["w", "b"]


def test_size_limit_includes_bytes_freed_by_removed_nodes():
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


def test_simplify_declares_outputs_with_inferred_facts():
    nodes = [node("Shape", "x", "s"), node("Reshape", "x s", "h"), node("Relu", "h", "y")]
    result, _ = gp.simplify(gp.from_onnx(model(nodes, [info("x", ["N", 4])], [info("y", None)], {})))
    assert str(result.outputs["y"].fact) == "float32[N, 4]"


def counting(name: str, *changes: int, seen: list[str] | None = None) -> Pass:
    """A pass that finds as much to do as `changes` says, run by run, and then nothing."""
    left = list(changes)

    def work(graph: Graph, journal: Journal) -> None:
        if seen is not None:
            seen.append(name)
        if left:
            journal.did(graph.first_node or "", "done", left.pop(0))

    return Pass(name, work, "exact")


def test_driver_restarts_with_the_first_pass_after_a_change():
    seen: list[str] = []
    passes = [counting("a", seen=seen), counting("b", 1, seen=seen), counting("c", 1, 1, seen=seen)]
    outcomes = run(chain("Relu"), passes)
    assert "".join(seen) == "ababcabcabc"
    assert [(each.name, each.changes, len(each.done)) for each in outcomes] == [("a", 0, 0), ("b", 1, 1), ("c", 2, 2)]


def test_change_of_the_first_pass_does_not_repeat_it():
    seen: list[str] = []
    run(chain("Relu"), [counting("a", 1, seen=seen), counting("b", seen=seen)])
    assert "".join(seen) == "ab"


def test_driver_stops_after_max_runs(monkeypatch):
    monkeypatch.setattr("graphport.passes.driver.MAX_RUNS", 7)
    seen: list[str] = []
    run(chain("Relu"), [counting("a", seen=seen), counting("b", *[1] * 100, seen=seen)])
    assert len(seen) == 7


def test_outcome_counts_changes():
    (outcome,) = run(chain("Relu"), [counting("a", 3)])
    assert outcome.changes == 3


def wishing(*wants: int, least_room: int = 0, done: int = 0) -> tuple[list[int], PassList]:
    """A pass that tells the room that it is given and takes what fits of `wants`, and its list."""
    rooms: list[int] = []
    open_wants = list(wants)

    def work(graph: Graph, journal: Journal) -> None:
        rooms.append(journal.room)
        for want in list(open_wants):
            if want > journal.room:
                journal.wanted.append(want)
            else:
                open_wants.remove(want)
                journal.room -= want
                journal.did("w", "grown", done)

    return rooms, PassList((Pass("wish", work, "exact"),), least_room=least_room)


def weighty(count: int, nodes: int = 1) -> Graph:
    """A graph of so many bytes of weights and as many nodes."""
    graph = chain(*["Relu"] * nodes)
    add_constant(graph, np.zeros(count, np.int8), "w")
    return graph


def test_room_is_a_tenth_of_weights_and_nodes_or_the_least():
    for least, expected in ((50, 110), (5000, 5000)):
        rooms, passes = wishing(least_room=least)
        run(weighty(900, 2), passes)
        assert rooms == [expected]


def test_driver_grants_default_size_limit_only_on_request():
    rooms, passes = wishing()
    run(weighty(900, 1), passes)
    assert rooms == [0]
    rooms, passes = wishing(60)
    run(weighty(900, 1), passes)
    assert rooms[0] == 0
    assert 100 in rooms
    rooms, passes = wishing(101)
    outcome = run(weighty(900, 1), passes)
    assert outcome[0].changes == 0


def test_bodies_and_their_weights_are_of_the_size():
    graph, body = weighty(900, 1), weighty(800, 1)
    assert graph.first_node is not None
    for value in body.values():
        body.rename(value, f"{value.name}_inner")
    graph.first_node.set_attribute("body", body)
    rooms, passes = wishing(least_room=1)
    run(graph, passes)
    assert rooms == [(900 + 800 + 200) // 10]


def test_driver_reinfers_facts_after_a_change():
    def work(graph: Graph, journal: Journal) -> None:
        first = graph.first_node
        if first is not None and first.op_type == "Abs":
            first.op_type = "Shape"
            journal.did(first, "changed")

    graph = chain("Abs")
    run(graph, [Pass("shape", work, "exact")])
    assert graph.outputs[0].fact == TensorFact(DType.INT64, (2,), (2, 3))


def test_declared_shape_does_not_replace_the_inferred_shape():
    for claim, expected in (((None), (2, 3)), ((7, 7), (2, 3))):
        graph = chain("Abs")
        graph.outputs[0].fact = TensorFact(DType.FLOAT32, claim)
        run(graph, [])
        assert graph.outputs[0].fact.shape == expected


def test_supported_passes_excludes_operators_missing_in_the_dialect():
    passes = PassList((counting("a"), Pass("b", counting("b").work, "exact", makes="Attention")), name="some")
    assert [each.name for each in supported_passes(passes, "openvino")] == ["a", "b"]
    assert [each.name for each in supported_passes(passes, "caffe")] == ["a"]
    assert supported_passes(passes, "caffe").name == "some"
    assert len(passes) == 2

"""The pages, one node after another."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphport.backends import interpreter, reference
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import from_proto
from graphport.ir.graph import Graph, Node, Value
from tests.models import model, node, perceptron, typed

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def ready(*arguments, **options):
    graph, findings = legalize(from_proto(model(*arguments, **options)))
    assert findings == []
    return reference.prepare(graph)


def test_outputs_keep_their_order_with_inputs_and_constants():
    session = ready(
        [node("Relu", ["x"], ["y"])],
        [("x", [2, 3])],
        [("y", [2, 3]), ("x", [2, 3]), ("c", [1])],
        {"c": np.ones(1, np.float32)},
    )
    found = session.run({"x": X})
    assert list(found) == ["y", "x", "c"]
    np.testing.assert_array_equal(found["y"], np.maximum(X, 0))
    np.testing.assert_array_equal(found["x"], X)
    np.testing.assert_array_equal(found["c"], [1])


def test_every_value_returns_computed_values_in_order():
    graph, _ = legalize(from_proto(perceptron()))
    found = reference.prepare(graph).run({"x": np.ones((1, 4), np.float32)}, every_value=True)
    assert list(found) == ["hidden", "active", "scores", "y"]


def test_outputs_that_are_inputs_are_among_every_value():
    session = ready([node("Relu", ["x"], ["y"])], [("x", [2, 3])], [("x", [2, 3]), ("y", [2, 3])])
    assert list(session.run({"x": X}, every_value=True)) == ["y", "x"]


def test_values_are_dropped_once_no_node_reads_them_any_more(monkeypatch):
    alive: list[int] = []
    compute = interpreter._compute

    def watched(node, operands, values, op_defs):
        alive.append(len(values))
        return compute(node, operands, values, op_defs)

    monkeypatch.setattr(interpreter, "_compute", watched)
    nodes = [node("Relu", ["x" if i == 0 else f"v{i}"], [f"v{i + 1}"]) for i in range(20)]
    ready(nodes, [("x", [2, 3])], [("v20", [2, 3])]).run({"x": X})
    assert max(alive) <= 2


def test_session_gives_equal_results_in_repeated_runs():
    session = ready([node("Exp", ["x"], ["y"])], [("x", ["N", 3])], [("y", ["N", 3])])
    first = session.run({"x": X})["y"]
    session.run({"x": X[:1]})
    np.testing.assert_array_equal(session.run({"x": X})["y"], first)


def test_nodes_may_have_several_and_absent_results():
    session = ready(
        [node("TopK", ["x", "k"], ["", "places"])],
        [("x", [2, 3])],
        [typed("places", [2, 1], TensorProto.INT64)],
        {"k": np.array([1])},
    )
    np.testing.assert_array_equal(session.run({"x": X})["places"], [[2], [2]])


def test_scalars_stay_arrays():
    session = ready([node("ReduceSum", ["x"], ["y"], keepdims=0)], [("x", [2, 3])], [("y", [])])
    found = session.run({"x": X})["y"]
    assert isinstance(found, np.ndarray)
    assert found.shape == ()


@pytest.mark.parametrize("condition", [True, False])
def test_branches_read_captured_values(condition):
    bodies = [
        helper.make_graph([node(op, ["h", "c"], [name])], name, [], [typed(name, [2, 3])])
        for op, name in (("Add", "a"), ("Mul", "b"))
    ]
    session = ready(
        [node("Neg", ["x"], ["h"]), node("If", ["which"], ["y"], then_branch=bodies[0], else_branch=bodies[1])],
        [("x", [2, 3]), typed("which", [], TensorProto.BOOL)],
        [("y", [2, 3])],
        {"c": np.array([2], np.float32)},
    )
    found = session.run({"x": X, "which": np.array(condition)})["y"]
    np.testing.assert_array_equal(found, -X + 2 if condition else -X * 2)


def test_division_by_zero_is_no_warning():
    session = ready([node("Div", ["x", "x"], ["y"])], [("x", [2])], [("y", [2])])
    assert np.isnan(session.run({"x": np.zeros(2, np.float32)})["y"]).all()


def test_run_time_error_names_the_node():
    session = ready(
        [node("Reshape", ["x", "s"], ["y"], name="fold")],
        [("x", [2, 3]), typed("s", [2], TensorProto.INT64)],
        [("y", None)],
    )
    with pytest.raises(DiagnosticError) as caught:
        session.run({"x": X, "s": np.array([4, 4])})
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0005"
    assert finding.message.startswith("Reshape fold: ")
    assert 'graph.node[0] "fold"' in str(finding.span)


def test_all_undefined_operators_are_reported_including_bodies():
    body = Graph("then")
    body.add_output(body.append(Node("inner", [], [Value("b")], dialect="madeup")).output)
    graph = Graph()
    condition = graph.add_input("c")
    graph.append(Node("If", [condition], [Value("y")], {"then_branch": body, "else_branch": body}))
    graph.append(Node("outer", [], [Value("z")], dialect="madeup"))
    with pytest.raises(DiagnosticError) as caught:
        reference.prepare(graph)
    assert caught.value.diagnostics[0].code == "RUN0003"
    assert "madeup.outer (1)" in str(caught.value)
    assert "madeup.inner" in str(caught.value)


LISTS = [
    *(("Slice", ["x", *("i" if place == which else "one" for place in range(4))]) for which in range(4)),
    *(
        (op_type, ["x", "i"])
        for op_type in ("Tile", "Expand", "Reshape", "Squeeze", "Unsqueeze", "ReduceSum", "Split", "TopK")
    ),
    ("Pad", ["x", "i"]),
    ("Resize", ["x", "", "", "i"]),
    ("CumSum", ["x", "i"]),
    ("ConstantOfShape", ["i"]),
]


@pytest.mark.parametrize(
    ("op_type", "operands"), LISTS, ids=[f"{op_type} {operands.index('i')}" for op_type, operands in LISTS]
)
def test_index_operand_of_wrong_rank_at_run_time_is_reported(op_type, operands):
    """Its rank is not known before; that is no fault of the rule that takes its numbers."""
    results = ["y", "z"] if op_type in ("Split", "TopK") else ["y"]
    inputs = [("x", [2, 3]), typed("i", None, TensorProto.INT64)]
    session = ready([node(op_type, operands, results)], inputs, [("y", None)], {"one": np.array([1])})
    for table in (np.array([[1, 1]]), np.array([[1], [1]]), np.ones((1, 1, 2), np.int64)):
        try:
            session.run({"x": X, "i": table})
        except DiagnosticError as error:
            assert [finding.code for finding in error.diagnostics] == ["RUN0005"]  # noqa: PT017  some take any shape

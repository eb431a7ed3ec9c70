"""A model for another number of items computes each of them as before, or is refused."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from graphport.passes.rebatch import change_batch
from tests.laws import computed
from tests.passes.cases import I64, F, info, model, node, some

FLAT = [node("Reshape", "x s", "h"), node("MatMul", "h w", "y")]
CONSTANTS = {"s": np.array([2, 12], np.int64), "w": some(12, 6)}


def read(nodes, *inputs, **constants):
    result = info("y", None, I64 if nodes[-1].op_type == "NonZero" else F)
    proto = model(nodes, [info(name, shape) for name, shape in inputs], [result], constants, opset=18)
    return gp.from_onnx(proto).graph


def refusal(graph, batch):
    with pytest.raises(DiagnosticError) as caught:
        change_batch(graph, batch)
    (finding,) = caught.value.diagnostics
    assert finding.code == "SHAPE0005"
    return finding.message.partition("are not independent: ")[2]


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_change_batch_keeps_the_result_of_each_item(batch):
    graph = read(FLAT, ("x", [2, 3, 4]), **CONSTANTS)
    before = str(graph)
    twin = change_batch(graph, batch)
    verify(twin)
    x = some(max(batch, 2), 3, 4)
    (expected,) = computed(graph, {"x": x[:2]})
    (found,) = computed(twin, {"x": x[:batch]})
    assert found.shape == (batch, 6)
    np.testing.assert_allclose(found[:2], expected[:batch], rtol=1e-5)
    assert twin.outputs[0].fact.shape == (batch, 6)
    assert str(graph) == before


def test_an_open_batch_is_bound_at_any_axis():
    graph = read([node("Add", "x z", "y")], ("x", ["N", 3]), ("z", ["N", "L"]))
    twin = change_batch(graph, 4)
    assert [[str(dim) for dim in value.fact.shape] for value in twin.inputs] == [["4", "3"], ["4", "L"]]
    assert twin.outputs[0].fact.shape == (4, 3)


def test_change_batch_keeps_a_derived_symbolic_dim():
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (graph.extents.declare("N") * 2, 3)))
    y = Value("y", x.fact)
    graph.append(Node("Relu", [x], [y]))
    graph.set_outputs([y])
    assert [str(dim) for dim in change_batch(graph, 4).inputs[0].fact.shape] == ["2*N", "3"]


def test_numbers_without_axes_and_inputs_of_that_batch_stay():
    nodes = [node("Mul", "x z", "h"), node("Concat", "h c", "y", axis=1)]
    graph = read(nodes, ("x", [5, 3]), ("z", []), ("c", [5, 2]))
    assert [value.fact.shape for value in change_batch(graph, 5).inputs] == [(5, 3), (), (5, 2)]
    twin = change_batch(read(nodes, ("x", [2, 3]), ("z", []), ("c", [2, 2])), 5)
    assert [value.fact.shape for value in twin.inputs] == [(5, 3), (), (5, 2)]


def test_inputs_of_different_batches_are_refused():
    graph = read([node("Concat", "x z", "y", axis=0)], ("x", [3, 4]), ("z", [2, 4]))
    assert refusal(graph, 5) == "the inputs have batches of 2 and 3"
    assert change_batch(read([node("Add", "x z", "y")], ("x", [2, 4]), ("z", [2, 4])), 5).outputs[0].fact.shape == (
        5,
        4,
    )


def test_change_batch_rejects_constants_with_the_batch_dim():
    graph = read([node("Add", "x c", "y")], ("x", [2, 3]), c=some(2, 3))
    assert refusal(graph, 5).startswith("shapes do not match for a batch of 5: ")


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        pytest.param([node("ReduceSum", "x a", "y", keepdims=1)], "y", id="sum over the items"),
        pytest.param([node("Relu", "x", "h"), node("ReduceSum", "h a", "y")], "y", id="behind another node"),
        pytest.param([node("Gemm", "x x", "y", transB=1)], "y", id="every item with every other one"),
        pytest.param([node("Gemm", "x x", "h", transB=1), node("Relu", "h", "y")], "h", id="the first one is told"),
        pytest.param([node("NonZero", "x", "y", name="found")], "found", id="as many as are found"),
    ],
)
def test_change_batch_rejects_operators_that_mix_items(nodes, name):
    graph = read(nodes, ("x", [2, 3]), a=np.array([0], np.int64))
    op = next(each.op_type for each in nodes if name in (each.name, each.output[0]))
    assert refusal(graph, 5) == f"{op} {name} mixes batch elements"


def test_change_batch_ignores_values_without_batch_axis():
    nodes = [node("Relu", "c", "h"), node("MatMul", "x h", "y")]
    assert change_batch(read(nodes, ("x", [2, 3]), c=some(3, 7)), 5).outputs[0].fact.shape == (5, 7)


def test_shapes_that_are_computed_are_no_items():
    nodes = [
        node("Shape", "x", "n", end=1),
        node("Concat", "n r", "s", axis=0),
        node("Reshape", "x s", "y"),
    ]
    graph = read(nodes, ("x", [2, 3, 4]), r=np.array([12], np.int64))
    assert change_batch(graph, 5).outputs[0].fact.shape == (5, 12)


def test_change_batch_rejects_another_symbolic_dim():
    graph = read([node("Relu", "x", "y")], ("x", [2, "L"]))
    assert refusal(graph, 5) == "Relu y mixes batch elements"

"""Variables that a document updates are inputs and outputs of the graph."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.tensors import tensor_file
from graphport.formats.nnef.graph_passes.hooks import after_export, before, before_export
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, mark, state_of
from graphport.ir.verify import verify

CELL = """version 1.0;

graph cell( x ) -> ( y )
{
    x = external(shape = [1, 3]);
    s = variable(shape = [1, 3], label = 'state');
    t = add(x, s);
    u = update(s, t);
    y = mul(s, 2.0);
}
"""
S = np.array([[1, 2, 3]], np.float32)
X = np.array([[10, 20, 30]], np.float32)


@pytest.fixture
def cell(tmp_path):
    def saved(text=CELL):
        folder = tmp_path / "cell"
        folder.mkdir()
        (folder / "graph.nnef").write_text(text)
        (folder / "state.dat").write_bytes(b"".join(bytes(each) for each in tensor_file(storage_of(S), "s").chunks()))
        return folder

    return saved


def test_a_variable_that_is_updated_is_an_input_and_an_output(cell):
    model = gp.load(cell())
    assert list(model.inputs) == ["x", "s"]
    assert list(model.outputs) == ["y", "u"]
    assert str(model.inputs["s"].fact) == "float32[1, 3]"


@pytest.mark.parametrize("backend", ["reference", "onnxruntime"])
def test_the_first_run_begins_with_the_numbers_of_the_file(cell, backend):
    model = gp.load(cell())
    first = gp.run(model, {"x": X}, backend=backend)
    np.testing.assert_array_equal(first["y"], 2 * S)
    np.testing.assert_array_equal(first["u"], X + S)
    second = gp.run(model, {"x": X, "s": first["u"]}, backend=backend)
    np.testing.assert_array_equal(second["y"], 2 * (X + S))
    np.testing.assert_array_equal(second["u"], X + X + S)


def test_what_the_document_returns_anyway_is_returned_once(cell):
    model = gp.load(cell(CELL.replace("-> ( y )", "-> ( y, u )")))
    assert list(model.outputs) == ["y", "u"]


def test_a_result_of_update_that_is_read_has_the_new_value(cell):
    model = gp.load(cell(CELL.replace("mul(s, 2.0)", "mul(u, 2.0)")))
    np.testing.assert_array_equal(gp.run(model, {"x": X})["y"], 2 * (X + S))


def test_its_shape_is_known_in_the_documents_own_op_types(cell):
    assert str(gp.load(cell(), raw=True).shapes()["u"]) == "float32[1, 3]"


@pytest.mark.parametrize("outputs", ["( y )", "( y, u )"])
def test_states_come_back_as_variables(cell, tmp_path, outputs):
    model = gp.load(cell(CELL.replace("-> ( y )", f"-> {outputs}")))
    gp.save(model, tmp_path / "again")
    text = (tmp_path / "again" / "graph.nnef").read_text()
    assert f"-> {outputs}" in text
    assert "variable(shape = [1, 3], label = 'state')" in text
    again = gp.load(tmp_path / "again")
    assert list(again.inputs) == ["x", "s"]
    first, second = (gp.run(each, {"x": X}) for each in (model, again))
    assert [array.tolist() for array in first.values()] == [array.tolist() for array in second.values()]


def test_a_model_with_a_state_becomes_onnx_and_is_verified(cell, tmp_path):
    report = gp.convert(cell(), tmp_path / "cell.onnx")
    assert report.passed
    assert list(gp.load(tmp_path / "cell.onnx").inputs) == ["x", "s"]


# ── folded constants, and values that stay ────────────────────────────────────────────────────────────────────────────


def computing(kind):
    """Integers that are computed of constants, and read."""
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.INT64, (2,)))

    def stored(array):
        storage = storage_of(np.asarray(array))
        return graph.add_constant("c", TensorFact.of(storage), storage)

    dtype = {"real": np.float32, "truth": np.bool_}.get(kind, np.int64)
    fact = TensorFact(DType.of(np.dtype(dtype).name), (2,))
    op_type = "Equal" if kind == "truth" else "Add"
    operands = [stored(np.array([3, 4], np.int64 if kind == "truth" else dtype)) for _ in range(2)]
    if kind == "given":
        operands[1] = x
    size = (1 << 20) + 1 if kind == "large" else 1 << 20 if kind == "largest" else 0
    if size:
        operands = [stored(np.zeros(size, np.int8)), stored(np.ones(1, np.int8))]
        fact = TensorFact(DType.INT8, (size,))
    dialect = "custom" if kind == "custom" else ""
    total = graph.append(Node(op_type, operands, [Value("t", fact)], dialect=dialect)).output
    y = graph.append(Node("Neg", [total], [Value("y", fact)], dialect="nnef")).output
    graph.set_outputs([total, y] if kind == "returned" else [y])
    return graph, y


@pytest.mark.parametrize("kind", ["whole", "truth", "largest", "real", "given", "large", "custom", "returned"])
def test_integers_that_are_computed_of_constants_are_constants(kind):
    graph, y = computing(kind)
    before_export(graph)
    verify(graph)
    (read,) = y.producer.operands
    if kind in ("whole", "truth", "largest"):
        assert [node.op_type for node in graph] == ["Neg"]
        assert (read.name, read.is_constant, read.fact.dtype) == ("t", True, y.fact.dtype)
        expected = {"whole": [6, 8], "truth": [True, True]}.get(kind, 1)
        np.testing.assert_array_equal(read.storage.numpy(), expected)
    else:
        assert len(graph) == 2
        assert read.producer is not None


@pytest.mark.parametrize("is_returned", [False, True])
@pytest.mark.parametrize("kind", ["computed", "an input", "no numbers"])
def test_a_state_is_updated_where_its_numbers_and_its_update_are_known(kind, is_returned):
    graph = Graph()
    fact = TensorFact(DType.FLOAT32, (1, 3))
    x, state = graph.add_input("x", fact), graph.add_input("s", fact)
    if kind != "no numbers":
        state.storage = storage_of(S)
    result = x
    if kind != "an input":
        result = graph.append(Node("add", [x, state], [Value("u", fact)], dialect="nnef")).output
    y = graph.append(Node("mul", [state, x], [Value("y", fact)], dialect="nnef")).output
    graph.set_outputs([y, result])
    mark(state, State(result.name, "s", is_returned=is_returned))
    after_export(graph)
    verify(graph)
    words = [node.op_type for node in graph]
    if kind != "computed":
        assert "update" not in words
        assert graph.inputs == [x, state]
        return
    assert words == ["add", "mul", "update"]
    variable = graph.last_node.operands[0]
    assert (variable.is_constant, variable.name, variable.fact) == (True, "s", fact)
    np.testing.assert_array_equal(variable.storage.numpy(), S)
    assert graph.last_node.operands[1] is result
    assert graph.inputs == [x]
    assert [value.name for value in graph.outputs] == ["y", "u"][: 1 + is_returned]
    assert (graph.outputs[-1] is graph.last_node.output) is is_returned


def test_only_variables_that_are_updated_are_exposed():
    for kind in ("variable", "computed", "custom"):
        graph = Graph()
        fact = TensorFact(DType.FLOAT32, (1, 3))
        x = graph.add_input("x", fact)
        storage = storage_of(S)
        s = graph.add_constant("s", TensorFact.of(storage), storage)
        variable = (
            graph.append(Node("copy", [s], [Value("c", fact)], dialect="nnef")).output if kind == "computed" else s
        )
        t = graph.append(Node("add", [x, variable], [Value("t", fact)], dialect="nnef")).output
        dialect = "custom" if kind == "custom" else "nnef"
        u = graph.append(Node("update", [variable, t], [Value("u", fact)], dialect=dialect)).output
        graph.set_outputs([u])
        before(graph)
        verify(graph)
        is_exposed = kind == "variable"
        assert ([value.name for value in graph.inputs] == ["x", "s"]) is is_exposed
        assert ("update" in [node.op_type for node in graph]) is not is_exposed
        if is_exposed:
            assert state_of(graph.inputs[1]) == State("u", "s", is_returned=True)
            assert graph.inputs[1].fact == fact
            assert (graph.last_node.op_type, graph.last_node.operands, graph.outputs) == ("Identity", [t], [u])

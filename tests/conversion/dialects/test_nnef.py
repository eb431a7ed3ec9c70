"""Variables that a document updates are inputs and outputs of the graph."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.storage import storage_of
from graphport.formats.nnef.tensors import tensor_file

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


def test_its_shape_is_known_in_the_documents_own_words(cell):
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
    report = gp.convert(cell(), tmp_path / "cell.onnx", verify=True)
    assert report.passed
    assert list(gp.load(tmp_path / "cell.onnx").inputs) == ["x", "s"]

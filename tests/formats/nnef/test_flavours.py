"""Whom a text is for when nobody says so: for Khronos' parser and tract alike, else for the former, with a note."""

from __future__ import annotations

import json
from pathlib import Path

import nnef
import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import graphport as gp
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError, Severity
from graphport.core.facts import TensorFact
from graphport.formats.nnef.tensors import HEADER

HEAD = "version 1.0;\nextension KHR_enable_operator_expressions;\n"
RNG = np.random.default_rng(7)
FILTER = RNG.normal(size=(3, 2, 2, 2)).astype(np.float32)

SHARED = {
    "deconv": "x = external(shape = [1, 3, 4, 5]); w = variable(shape = [3, 2, 2, 2], label = 'w');"
    "y = deconv(x, w, stride = [2, 2]);",
    "multilinear_upsample": "x = external(shape = [1, 3, 4, 5]); y = multilinear_upsample(x, factor = [2, 2]);",
    "gather": "x = external(shape = [3, 6]); i = variable<integer>(shape = [2, 3], label = 'i'); y = gather(x, i, axis = 1);",
    "cast": "x = external(shape = [3, 6]); y = cast<integer>(x > 0.0);",
}
APART = {
    "gather": "x = external<integer>(shape = [2]); w = variable(shape = [3, 2, 2, 2], label = 'w'); y = gather(w, x);",
    "cast": "x = external<integer>(shape = [2]); y = cast<scalar>(x);",
}


def document(folder: Path, body: str) -> gp.Model:
    folder.mkdir()
    lines = body.replace(";", ";\n    ")
    (folder / "graph.nnef").write_text(f"{HEAD}graph net( x ) -> ( y )\n{{\n    {lines}\n}}\n")
    for name, array in (("w", FILTER), ("i", np.array([[4, 0, 1], [5, 5, 2]]))):
        with (folder / f"{name}.dat").open("wb") as file:
            nnef.write_tensor(file, array)
    # A document that nobody changed would stay the text that it was.
    gp.save(gp.load(folder), folder.with_suffix(".onnx"))
    return gp.load(folder.with_suffix(".onnx"))


@pytest.mark.parametrize("word", SHARED)
def test_a_text_is_for_both_where_one_means_the_same(tmp_path, word):
    model = document(tmp_path / "a", SHARED[word])
    assert gp.save(model, tmp_path / "b", format="nnef") == []
    text = (tmp_path / "b" / "graph.nnef").read_text()
    assert f"{word}(" not in text
    gp.save(model, tmp_path / "c", format="nnef", flavour="both")
    assert text == (tmp_path / "c" / "graph.nnef").read_text()
    nnef.load_graph(str(tmp_path / "b"))
    fact = model.inputs["x"].fact
    assert isinstance(fact, TensorFact)
    x = RNG.normal(size=[int(str(dim)) for dim in fact.dims]).astype(np.float32)
    wanted, found = (
        gp.run(model, {"x": x}, backend="reference"),
        gp.run(gp.load(tmp_path / "b"), {"x": x}, backend="tract"),
    )
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("word", APART)
def test_else_it_is_for_the_standard_and_a_note_says_what_tract_would_not_take(tmp_path, word):
    model = document(tmp_path / "a", APART[word])
    findings = gp.save(model, tmp_path / "b", format="nnef")
    assert [(each.code, each.severity) for each in findings] == [("NNEF0774", Severity.NOTE)] * len(findings)
    assert any(f"tract would not take {word}" in each.message for each in findings)
    nnef.load_graph(str(tmp_path / "b"))
    with pytest.raises(DiagnosticError) as caught:
        gp.save(model, tmp_path / "c", format="nnef", flavour="both")
    assert {each.code for each in caught.value.diagnostics} == {"NNEF0774"}
    assert not (tmp_path / "c").exists()
    assert gp.save(model, tmp_path / "d", format="nnef", flavour="khronos") == []


def test_what_is_for_the_standard_alone_keeps_its_costly_words(tmp_path):
    body = SHARED["deconv"].replace("y =", "t =") + " y = cast<integer>(t);"
    model = document(tmp_path / "a", body)
    gp.save(model, tmp_path / "b", format="nnef")
    assert "deconv(" in (tmp_path / "b" / "graph.nnef").read_text()


def test_the_note_stands_in_the_document_of_convert_and_fails_nothing(tmp_path):
    document(tmp_path / "a", APART["gather"])
    result = CliRunner().invoke(cli, ["convert", str(tmp_path / "a.onnx"), str(tmp_path / "b.nnef.tgz"), "--json"])
    found = [each for each in json.loads(result.output)["diagnostics"] if each["code"] == "NNEF0774"]
    assert result.exit_code == 0
    assert [each["severity"] for each in found] == ["note"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_variables_have_the_width_of_inputs_for_both(tmp_path, dtype):
    weights = numpy_helper.from_array(np.array([2, 3], dtype), "w")
    x, y = (helper.make_tensor_value_info(name, weights.data_type, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "net", [x], [y], [weights])
    (tmp_path / "a.onnx").write_bytes(helper.make_model(graph, ir_version=9).SerializeToString())
    model = gp.load(tmp_path / "a.onnx")
    for flavour, size in ((None, 4), ("khronos", np.dtype(dtype).itemsize)):
        target = tmp_path / str(flavour)
        gp.save(model, target, format="nnef", flavour=flavour)
        (data,) = target.glob("*.dat")
        assert data.stat().st_size == HEADER + 2 * size
    found = gp.run(gp.load(tmp_path / "None"), {"x": np.array([1, 2], np.float32)}, backend="tract")
    np.testing.assert_array_equal(found["y"], [2, 6])

"""The default flavour of a text: for the Khronos parser and tract if possible, otherwise for tract, with a note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nnef
import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

import graphport as gp
from graphport.api.edit import edit_file
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError, Severity
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.tensors import HEADER

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
    # An unchanged document would be copied verbatim.
    gp.save(gp.load(folder), folder.with_suffix(".onnx"))
    return gp.load(folder.with_suffix(".onnx"))


@pytest.mark.parametrize("word", SHARED)
def test_a_text_is_for_both_where_one_is_equivalent(tmp_path, word):
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
def test_else_it_is_for_tract_and_a_note_states_why_and_how_the_standard_is_had(tmp_path, word):
    model = document(tmp_path / "a", APART[word])
    (finding,) = gp.save(model, tmp_path / "b", format="nnef")
    assert (finding.code, finding.severity) == ("NNEF0776", Severity.NOTE)
    assert f"tract does not accept {word}" in finding.message
    assert "--flavour khronos writes standard NNEF" in str(finding.help)
    assert f"tract_core_{word}(" in (tmp_path / "b" / "graph.nnef").read_text()
    inputs = {"x": np.array([2, 0])}
    (wanted,) = gp.run(model, inputs, backend="reference").values()
    np.testing.assert_allclose(by_tract(tmp_path / "b", *inputs.values()), wanted, rtol=1e-6)
    with pytest.raises(DiagnosticError) as caught:
        gp.save(model, tmp_path / "c", format="nnef", flavour="both")
    assert {each.code for each in caught.value.diagnostics} == {"NNEF0774"}
    assert not (tmp_path / "c").exists()
    assert gp.save(model, tmp_path / "d", format="nnef", flavour="khronos") == []
    nnef.load_graph(str(tmp_path / "d"))


def by_tract(folder: Path, *inputs):
    import tract

    runnable: Any = tract.nnef().load(str(folder)).into_runnable()
    return runnable.run(list(inputs))[0].to_numpy()


def onnx_of(folder: Path, nodes, inputs, outputs):
    given = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    made = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs]
    graph = helper.make_graph(nodes, "net", given, made)
    (folder / "a.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    )
    return gp.load(folder / "a.onnx")


def test_dynamic_dims_are_symbols_of_tract_for_the_standard_has_numbers_alone(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = onnx_of(tmp_path, nodes, [("x", 1, ["N", 3])], [("y", 1, ["N", 3])])
    (finding,) = gp.save(model, tmp_path / "b", format="nnef")
    assert finding.code == "NNEF0776"
    assert "standard NNEF cannot express the graph" in finding.message
    assert "extension tract_symbol N;" in (tmp_path / "b" / "graph.nnef").read_text()
    for count in (1, 4):
        x = RNG.normal(size=(count, 3)).astype(np.float32)
        np.testing.assert_array_equal(by_tract(tmp_path / "b", x), np.maximum(x, 0))


def test_operators_outside_the_standard_use_tract_op_types(tmp_path):
    nodes = [helper.make_node("GatherND", ["x", "at"], ["y"])]
    onnx_of(tmp_path, nodes, [("x", 1, [3, 8]), ("at", 7, [5, 2])], [("y", 1, [5])])
    report = gp.convert(tmp_path / "a.onnx", tmp_path / "b", format="nnef")
    assert [each.code for each in report.findings] == ["NNEF0776"]
    assert report.passed
    assert report.verification is not None


def test_double_precision_is_kept_by_tract_and_narrowed_by_the_standards_readers(tmp_path):
    nodes = [helper.make_node("Mul", ["x", "x"], ["y"])]
    onnx_of(tmp_path, nodes, [("x", 11, [3])], [("y", 11, [3])])
    report = gp.convert(tmp_path / "a.onnx", tmp_path / "b", format="nnef")
    assert [each.code for each in report.findings] == ["NNEF0776"]
    assert report.passed
    x = np.array([1 + 2**-30, 1e100, -3])
    np.testing.assert_array_equal(by_tract(tmp_path / "b", x), x * x)
    asked = gp.convert(tmp_path / "a.onnx", tmp_path / "c", format="nnef", flavour="tract")
    assert (list(asked.findings), asked.passed) == ([], True)
    other = gp.convert(tmp_path / "a.onnx", tmp_path / "d", format="nnef", flavour="khronos", verify=False)
    assert [each.code for each in other.findings] == ["LEG0006"]


def test_arrays_of_the_three_types_of_the_standard_are_taken_and_given_whichever_flavour_it_is(tmp_path):
    nodes = [helper.make_node("Cast", ["x"], ["r"], to=1), helper.make_node("Cast", ["r"], ["y"], to=2)]
    model = onnx_of(tmp_path, nodes, [("x", 2, [3])], [("y", 2, [3])])
    assert [each.code for each in gp.save(model, tmp_path / "b", format="nnef")] == ["NNEF0776"]
    found = by_tract(tmp_path / "b", np.array([0, 7, 255]))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [0, 7, 255])
    gp.save(model, tmp_path / "c", format="nnef", flavour="tract")
    assert by_tract(tmp_path / "c", np.array([0, 7, 255], np.uint8)).dtype == np.uint8


def test_where_neither_can_say_it_the_reasons_of_both_are_reported(tmp_path):
    nodes = [helper.make_node("Loop", ["m", "c", "x"], ["y"], body=body_of_a_loop())]
    given = [("m", 7, []), ("c", 9, []), ("x", 1, [2])]
    model = onnx_of(tmp_path, nodes, given, [("y", 1, [2])])
    with pytest.raises(DiagnosticError) as caught:
        gp.save(model, tmp_path / "b", format="nnef")
    said = [each.message.partition(": unsupported operator")[0] for each in caught.value.diagnostics]
    assert said == ["nnef", "tract"]
    report = gp.convert(tmp_path / "a.onnx", tmp_path / "b", format="nnef")
    assert report.unsupported == {"Loop": 1}
    assert [each.message for each in report.findings] == [each.message for each in caught.value.diagnostics]
    assert not (tmp_path / "b").exists()


def body_of_a_loop():
    nodes = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "v"], ["w"])]
    given = [("i", 7, []), ("go", 9, []), ("v", 1, [2])]
    typed = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in given]
    made = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in [("on", 9, []), ("w", 1, [2])]]
    return helper.make_graph(nodes, "body", typed, made)


def test_what_was_read_of_the_standard_stays_that_with_a_note_on_what_tract_would_not_take(tmp_path):
    document(tmp_path / "a", APART["gather"])
    report = edit_file(tmp_path / "a", tmp_path / "b", gp.Edit(rename={"x": "places"}), format="nnef")
    assert {each.code for each in report.findings} == {"NNEF0774"}
    nnef.load_graph(str(tmp_path / "b"))


def test_what_is_for_the_standard_alone_keeps_its_costly_op_types(tmp_path):
    body = SHARED["deconv"].replace("y =", "t =") + " y = cast<integer>(t);"
    model = document(tmp_path / "a", body)
    gp.save(model, tmp_path / "b", format="nnef", flavour="khronos")
    assert "deconv(" in (tmp_path / "b" / "graph.nnef").read_text()


def test_the_note_stands_in_the_document_of_convert_and_fails_nothing(tmp_path):
    document(tmp_path / "a", APART["gather"])
    result = CliRunner().invoke(cli, ["convert", str(tmp_path / "a.onnx"), str(tmp_path / "b.nnef.tgz"), "--json"])
    found = [each for each in json.loads(result.output)["diagnostics"] if each["code"] == "NNEF0776"]
    assert result.exit_code == 0
    assert [each["severity"] for each in found] == ["note"]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_variables_have_the_width_of_inputs_for_both(tmp_path, dtype):
    weights = numpy_helper.from_array(np.array([2, 3], dtype), "w")
    x, y = (helper.make_tensor_value_info(name, weights.data_type, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "net", [x], [y], [weights])
    (tmp_path / "a.onnx").write_bytes(helper.make_model(graph, ir_version=9).SerializeToString())
    model = gp.load(tmp_path / "a.onnx")
    for flavour, size in (("both", 4), ("khronos", np.dtype(dtype).itemsize)):
        target = tmp_path / flavour
        gp.save(model, target, format="nnef", flavour=flavour)
        (data,) = target.glob("*.dat")
        assert data.stat().st_size == HEADER + 2 * size
    found = gp.run(gp.load(tmp_path / "both"), {"x": np.array([1, 2], np.float32)}, backend="tract")
    np.testing.assert_array_equal(found["y"], [2, 6])

"""Metadata in an archive besides the graph: qparams, the placement of nodes, the source model."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import numpy_helper

import graphport as gp
from graphport.cli.main import cli
from graphport.formats.archive import Documents
from graphport.quantization.record import all_qparams
from tests.models import model, node, perceptron, write_onnx
from tests.quantization.nets import residual, samples


@pytest.fixture(scope="module")
def quantized(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "net.graphport"
    net = residual()
    settings = {"preset": "fast", "cheap_layers": False, "float_nodes": ("second",)}
    gp.save(gp.quantize(net, samples(net), **settings), path)
    return path


def section(path: Path, name: str):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(f"{name}.json"))


def text(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("graph.txt").decode()


def test_record_contains_settings_and_result(quantized):
    said = section(quantized, "quantization")
    assert said["settings"]["float_nodes"] == ["second"]
    assert said["report"]["floating"] == ["second"]
    assert "seconds" not in said["report"]


def test_record_contains_qparams_of_each_value(quantized):
    graph = gp.load(quantized).graph
    rows = {row["value"]: row for row in section(quantized, "quantization")["grids"]}
    values = {value.name: value for value in graph.values()}
    codes = next(name for name in rows if name.startswith("w1"))
    row, maker = rows[codes], next(iter(values[codes].users))
    assert (row["type"], row["axis"], row["zero_point"]) == ("int8", 0, 0)
    np.testing.assert_array_equal(np.float32(row["scale"]), maker.operand(1).storage.numpy())


def test_record_contains_the_placement_of_every_node(quantized):
    places = {row["node"]: (row["place"], row["reason"]) for row in section(quantized, "dispatch")["nodes"]}
    assert places["first"] == ("quantized", "it has weights")
    assert places["first_relu"][0] == "quantized"
    assert places["second"] == ("floating", "the settings keep it")
    assert len(places) == 9


def test_the_steps_that_led_to_a_model_are_reported(quantized):
    said = section(quantized, "provenance")
    assert said["made_by"] == "quantize"
    (before,) = said["earlier"]
    assert before["made_by"] == "prepare"
    assert before["passes"]["name-nodes"] == 0


def test_quantization_is_deterministic(tmp_path):
    net = residual()
    for name in ("a", "b"):
        gp.save(gp.quantize(net, samples(net), preset="fast"), tmp_path / f"{name}.graphport")
    assert (tmp_path / "a.graphport").read_bytes() == (tmp_path / "b.graphport").read_bytes()


def test_text_and_grids_are_the_same_after_onnx(quantized, tmp_path):
    gp.convert(quantized, tmp_path / "net.onnx")
    gp.convert(tmp_path / "net.onnx", tmp_path / "again.graphport")
    assert text(tmp_path / "again.graphport") == text(quantized)
    assert section(tmp_path / "again.graphport", "quantization") == {
        "grids": section(quantized, "quantization")["grids"]
    }


def test_an_operand_that_legalizing_needs_no_more_leaves_no_constant(tmp_path):
    nodes = [
        node("Constant", [], ["roi"], value=numpy_helper.from_array(np.empty(0, np.float32))),
        node("Constant", [], ["scales"], value_floats=[1.0, 1.0, 2.0, 2.0]),
        node("Resize", ["x", "roi", "scales"], ["y"], mode="nearest"),
    ]
    write_onnx(tmp_path / "a.onnx", model(nodes, [("x", [1, 1, 2, 2])], [("y", None)], {}, opset=12))
    for source, target in (("a.onnx", "a.graphport"), ("a.graphport", "b.onnx"), ("b.onnx", "b.graphport")):
        assert gp.convert(tmp_path / source, tmp_path / target).passed
    assert "roi" not in text(tmp_path / "a.graphport")
    assert text(tmp_path / "b.graphport") == text(tmp_path / "a.graphport")


def test_preparing_keeps_decisions_and_checks(tmp_path):
    prepared, _ = gp.prepare(gp.load(write_onnx(tmp_path / "net.onnx", perceptron())))
    gp.save(prepared, tmp_path / "net.graphport")
    said = section(tmp_path / "net.graphport", "provenance")
    assert (said["source"], said["format"], said["made_by"]) == ("net.onnx", "onnx", "prepare")
    assert said["checks"]["passed"]
    (output,) = said["checks"]["outputs"]
    assert output["max_abs"] < 1e-5
    assert {row["place"] for row in section(tmp_path / "net.graphport", "dispatch")["nodes"]} == {"quantized"}


@pytest.mark.parametrize("verb", ["convert", "prepare", "simplify"])
def test_record_contains_the_verification(tmp_path, verb):
    write_onnx(tmp_path / "net.onnx", perceptron())
    for more, expected in (([], "passed"), (["--no-verify"], "skipped")):
        arguments = [verb, str(tmp_path / "net.onnx"), str(tmp_path / "net.graphport"), *more]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
        said = section(tmp_path / "net.graphport", "provenance")
        assert said["made_by"] == verb
        assert expected in said["checks"]
    assert gp.check(tmp_path / "net.graphport") == []


def test_simplify_drops_the_outdated_dispatch_record(quantized, tmp_path):
    simple, _ = gp.simplify(gp.load(quantized))
    found = simple.graph.notes["documents"]
    assert found.dispatch is None
    assert found.quantization["settings"] == section(quantized, "quantization")["settings"]
    assert [step["made_by"] for step in found.provenance["earlier"]] == ["prepare", "quantize"]


def test_user_provenance_is_preserved(tmp_path):
    mine = Documents(provenance={"trained by": "us"})
    gp.save(gp.from_onnx(perceptron()), tmp_path / "a.graphport", documents=mine)
    prepared, _ = gp.prepare(gp.load(tmp_path / "a.graphport"))
    assert prepared.graph.notes["documents"].provenance["earlier"] == [{"trained by": "us"}]


def test_infinite_values_are_omitted_from_the_record(tmp_path):
    nodes = [node("QuantizeLinear", ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["y"])]
    proto = model(nodes, [("x", [4])], [("y", [4])], {"s": np.float32(np.inf)})
    gp.convert(write_onnx(tmp_path / "net.onnx", proto), tmp_path / "net.graphport", verify=False)
    assert section(tmp_path / "net.graphport", "quantization")["grids"][0]["scale"] is None
    assert gp.check(tmp_path / "net.graphport") == []


def test_a_scale_that_is_computed_is_named():
    nodes = [node("Abs", ["t"], ["s"]), node("QuantizeLinear", ["x", "s"], ["q"])]
    nodes.append(node("DequantizeLinear", ["q", "s"], ["y"]))
    graph = gp.from_onnx(model(nodes, [("x", [4]), ("t", [])], [("y", [4])], {})).graph
    assert all_qparams(graph) == [{"value": "x", "type": "uint8", "scale": "s", "zero_point": 0, "axis": 1}]

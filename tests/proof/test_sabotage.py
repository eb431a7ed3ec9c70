"""A wrong reader is never verified: the source file itself has other results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.api import convert, first_difference
from graphport.api.rewrite import rewrite_file
from graphport.cli.main import cli
from graphport.formats import Format
from graphport.ir import rewrite
from graphport.passes.prepare import PREPARE
from graphport.passes.simplify import SIMPLIFY
from tests import sabotage
from tests.models import write_onnx
from tests.passes.cases import info, model, node, some


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, Path]:
    """Return one network in every format with a native runtime."""
    folder = tmp_path_factory.mktemp("sources")
    nodes = [
        node("Conv", "x w b", "c", name="c", pads=[1, 1, 1, 1]),
        node("LeakyRelu", "c", "l", alpha=0.125),
        node("Conv", "l v", "d", name="d"),
        node("HardSigmoid", "d", "h", alpha=0.25, beta=0.5),
        node("Sigmoid", "h", "y"),
    ]
    weights = {"w": some(6, 3, 3, 3), "b": some(6), "v": some(4, 6, 1, 1)}
    proto = model(nodes, [info("x", [1, 3, 8, 8])], [info("y", [1, 4, 8, 8])], weights)
    found = {"onnx": write_onnx(folder / "net.onnx", proto)}
    for kind, name in (("openvino", "net.xml"), ("ncnn", "net.ncnn.param"), ("nnef", "net"), ("tflite", "net.tflite")):
        report = gp.convert(found["onnx"], folder / name, verify=True, format=kind)
        assert report.passed
        assert report.proof.is_independent
        found[kind] = folder / name
    return found


PAIRS = [
    ("onnx", "copy.xml"),
    ("onnx", "copy.ncnn.param"),
    ("onnx", "copy.onnx"),
    ("onnx", "copy.pnnx.param"),
    ("openvino", "copy.onnx"),
    ("openvino", "copy.ncnn.param"),
    ("nnef", "copy.onnx"),
    ("nnef", "copy.xml"),
    ("ncnn", "copy.onnx"),
    ("ncnn", "copy.xml"),
    ("onnx", "copy.tflite"),
    ("tflite", "copy.onnx"),
]


@pytest.mark.parametrize("fault", [sabotage.scale_weight, sabotage.change_attribute, sabotage.drop_node])
def test_faulty_reader_is_never_verified(sources, tmp_path, monkeypatch, fault):
    spoiled: list[str] = []

    def wrong(path, *, raw=False, **options):
        loaded = gp.load(path, raw=raw, **options)
        if not raw:
            fault(loaded.graph)
            spoiled.append(loaded.format)
        return loaded

    monkeypatch.setattr("graphport.api.convert.load", wrong)
    for kind, name in PAIRS:
        # A copy at another opset: a verbatim copy would not run the writer.
        report = gp.convert(sources[kind], tmp_path / name, **({"opset": 17} if name == "copy.onnx" else {}))
        assert not report.passed, (kind, name, str(report.proof))
        assert report.proof.failed
        assert not (tmp_path / name).exists(), (kind, name)
    assert len(spoiled) >= len(PAIRS)


def test_a_right_reading_is(sources, tmp_path):
    for kind, name in PAIRS:
        report = gp.convert(sources[kind], tmp_path / name, verify=True if "pnnx" not in name else None)
        assert report.passed, str(report.proof)
        assert report.proof.is_independent == ("pnnx" not in name)
        largest = report.proof.max_abs
        assert largest is not None
        assert np.isfinite(largest)
        assert ("no other program computed" in str(report.proof)) == ("pnnx" in name)


@pytest.mark.parametrize("verb", [PREPARE, SIMPLIFY], ids=["prepare", "simplify"])
def test_faulty_reader_is_never_verified_by_rewrites(sources, tmp_path, monkeypatch, verb):
    read = Format.read

    def wrong(kind, path, **options):
        graph, findings = read(kind, path, **options)
        if Path(path) == sources["onnx"]:
            sabotage.scale_weight(graph)
        return graph, findings

    monkeypatch.setattr(Format, "read", wrong)
    report = rewrite_file(sources["onnx"], tmp_path / "small.onnx", verb)
    assert not report.passed
    assert not (tmp_path / "small.onnx").exists()


def sabotaged(monkeypatch, fault) -> None:
    """Make `convert` write a graph with the fault `fault`."""
    export = convert.export

    def wrong(model, kind, options):
        graph = rewrite.copy(model.graph)
        fault(graph)
        return export(replace(model, graph=graph), kind, options)

    monkeypatch.setattr(convert, "export", wrong)


@pytest.mark.parametrize(
    ("fault", "node", "values"),
    [
        pytest.param(sabotage.scale_weight, ("Conv", "c", 0), {"a": "c", "b": "c"}, id="a weight"),
        pytest.param(sabotage.change_attribute, ("LeakyRelu", "l", 1), {"a": "l", "b": "l"}, id="an attribute"),
        pytest.param(sabotage.drop_node, ("Sigmoid", "y", 4), {"a": "y", "b": "h"}, id="a node that is gone"),
    ],
)
def test_a_wrong_conversion_names_its_first_wrong_node(sources, tmp_path, monkeypatch, fault, node, values):
    operator, name, place = node
    sabotaged(monkeypatch, fault)
    for target in ("copy.xml", "copy.ncnn.param", "copy.pnnx.param", "copy.nnef.tgz"):
        proof = gp.convert(sources["onnx"], tmp_path / target).proof
        found = proof.as_json()["first"]
        assert (found["operator"], found["node"], found["values"]) == (operator, name, values), (target, proof.notes)
        assert found["place"].startswith(f"graph.node[{place}]")
        assert found["file"] == str(sources["onnx"])
        assert found["sides"] == {"a": "net.onnx", "b": target}
        assert found["sentence"].startswith(f"first wrong: {operator} {name} ({sources['onnx']}: graph.node[{place}]")


def test_verify_reports_the_first_wrong_node(sources, tmp_path):
    wrong = gp.load(sources["onnx"])
    sabotage.scale_weight(wrong.graph)
    gp.save(wrong, tmp_path / "wrong.xml")
    result = CliRunner().invoke(cli, ["verify", str(sources["onnx"]), str(tmp_path / "wrong.xml")])
    assert result.exit_code == 1
    told = result.output.splitlines()[-1]
    assert told.startswith(f"first wrong: Conv c ({sources['onnx']}: graph.node[0]")
    assert "c of wrong.xml differs by" in told


def test_first_differing_node_is_omitted_after_the_time_limit(sources, tmp_path, monkeypatch):
    sabotaged(monkeypatch, sabotage.scale_weight)
    monkeypatch.setattr(first_difference, "_SECONDS", 0.0)
    proof = gp.convert(sources["onnx"], tmp_path / "copy.xml").proof
    assert proof.failed
    assert proof.first is None
    assert proof.notes[-1] == "the first differing node is unknown: the search would take longer than 0 s"

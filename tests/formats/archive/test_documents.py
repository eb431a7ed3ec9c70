"""Sections of an archive besides its graph: how it was quantized, where it is computed, what it was made from."""

from __future__ import annotations

import pytest

import graphport as gp
from graphport import Model
from graphport.formats.archive import Documents, read
from tests.formats.archive.test_archive import rebuilt, saved, small


def test_documents_round_trip(tmp_path):
    documents = Documents(
        quantization={"w": {"scale": [0.5, 0.25]}}, dispatch={"times": "float"}, provenance={"by": "me"}
    )
    graph, _ = read(saved(tmp_path, documents=documents))
    assert graph.notes["documents"] == documents


def test_document_with_unknown_names_is_a_warning(tmp_path):
    documents = Documents(
        quantization={"grids": [{"value": "w"}, {"value": "v"}]},
        dispatch={"nodes": [{"node": "times"}, {"node": "gone"}, {"node": "lost"}, 7]},
    )
    _, warnings = read(saved(tmp_path, documents=documents))
    assert [(w.code, w.is_error) for w in warnings] == [("IO0217", False)] * 2
    assert "'gone', which does not exist in the graph, and 1 others" in warnings[0].message


@pytest.mark.parametrize(("depth", "codes"), [(60, []), (70, ["IO0210"]), (5000, ["IO0210"])])
def test_documents_are_not_nested_without_end(tmp_path, depth, codes):
    path = saved(tmp_path, documents=Documents(provenance={"by": "me"}))
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    rebuilt(path, lambda name, data: deep if name == "provenance.json" else data)
    assert [finding.code for finding in gp.check(path)] == codes


def test_conversion_records_its_source(tmp_path):
    gp.save(Model(small()), tmp_path / "a.onnx")
    gp.convert(tmp_path / "a.onnx", tmp_path / "a.graphport")
    said = gp.load(tmp_path / "a.graphport").graph.notes["documents"].provenance
    assert (said["source"], said["format"]) == ("a.onnx", "onnx")

"""Constants that nobody reads do not come along."""

from __future__ import annotations

from graphport.conversion.legalize import legalize
from graphport.conversion.unused_constants import remove_unused_constants
from graphport.formats import FORMATS
from graphport.formats.onnx import from_proto
from tests.models import model, node, perceptron, write_nnef


def test_graph_without_unused_constants_is_returned_unchanged():
    graph, _ = legalize(from_proto(perceptron()))
    assert remove_unused_constants(graph) is graph


def test_unused_constant_nodes_are_removed_from_a_copy():
    constants = [node("Constant", [], [name], value_float=1.0) for name in ("idle", "read")]
    proto = model([*constants, node("Add", ["x", "read"], ["y"])], [("x", [2])], [("y", [2])], {})
    graph, _ = legalize(from_proto(proto))
    assert [each.op for each in remove_unused_constants(graph)] == ["Constant", "Add"]
    assert len(graph) == 3


def test_constants_replaced_by_a_reshaped_view_are_removed_from_a_copy(tmp_path):
    raw, _ = FORMATS["nnef"].read(write_nnef(tmp_path / "small"))
    graph, _ = legalize(raw)
    before = [str(value.fact) for value in graph.constants]
    after = [str(value.fact) for value in remove_unused_constants(graph).constants]
    assert before == ["float32[3, 2, 3, 3]", "float32[1, 3]", "float32[3]"]
    assert after == ["float32[3, 2, 3, 3]", "float32[3]"]
    assert len(graph.constants) == 3

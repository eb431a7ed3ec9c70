from __future__ import annotations

import pytest

from graphport.formats.nnef import read
from graphport.formats.nnef.container.original_text import NOTE, original_of
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.infer import Inference

TEXT = """version 1.0;
graph net(x) -> (y)
{
    x = external(shape = [2, 3]);
    w = variable(shape = [2, 3], label = 'w');
    h = leaky_relu(x, alpha = 0.1);
    y = add(h, w);
}
"""


@pytest.fixture
def graph(tmp_path) -> Graph:
    (tmp_path / "model.nnef").write_text(TEXT)
    return read(tmp_path / "model.nnef")[0]


def is_still(graph: Graph) -> bool:
    original = original_of(graph)
    assert original is not None
    return original.is_still(graph)


def test_a_graph_knows_its_text(graph):
    original = original_of(graph)
    assert original is not None
    source = original.checked.document.source
    assert source is not None
    assert source.text == TEXT
    assert original_of(Graph()) is None
    assert NOTE in graph.notes


def test_copies_and_facts_of_results_do_not_count(graph):
    assert is_still(graph)
    assert is_still(rewrite.copy(graph))
    Inference().graph(graph)
    assert is_still(graph)


def another_attribute(graph: Graph) -> None:
    next(iter(graph)).set_attribute("alpha", 0.2)


def another_word(graph: Graph) -> None:
    next(iter(graph)).op_type = "relu"


def another_node(graph: Graph) -> None:
    graph.append(Node("relu", [graph.inputs[0]], [Value("z")], dialect="nnef"))


def swapped_operands(graph: Graph) -> None:
    node = list(graph)[1]
    node.inputs = tuple(reversed(node.inputs))


@pytest.mark.parametrize("change", [another_attribute, another_word, another_node, swapped_operands])
def test_any_change_counts(graph, change):
    change(graph)
    assert not is_still(graph)

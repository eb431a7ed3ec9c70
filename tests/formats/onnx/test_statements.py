"""Identical node texts are parsed once, and different nodes are never confused."""

from __future__ import annotations

import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx.container.notes import NodeNotes, noted
from graphport.formats.onnx.container.reader import from_proto, read
from graphport.ir.verify import verify


def model(*nodes: NodeProto) -> ModelProto:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "main", [helper.make_value_info("x", kind)], [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)])


def leaky(output: str, alpha: float, *, name: str = "", domain: str = "", doc_string: str = "") -> NodeProto:
    return helper.make_node("LeakyRelu", ["x"], [output], name, doc_string, domain, alpha=alpha)


def named(name: str) -> NodeProto:
    node = leaky(f"of {name}", 0.5)
    node.name = name
    return node


def seen(graph):
    return [(node.op, node.name, dict(node.attributes), noted(node, NodeNotes)) for node in graph]


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([leaky("a", 0.5), leaky("b", 0.25), leaky("c", 0.5)], id="attributes"),
        pytest.param([leaky("a", 0.5), leaky("b", 0.5, domain="own")], id="domains"),
        pytest.param([leaky("a", 0.5), leaky("b", 0.5, doc_string="why")], id="doc strings"),
        pytest.param([leaky("a", 0.5), leaky("b", 0.5, name="b"), named("")], id="names, one of them set and empty"),
        pytest.param([leaky("a", 0.5), leaky("ä", 0.5, name="Größe"), named("名前")], id="names that are not ASCII"),
        pytest.param([leaky("a", 0.5), leaky("b" * 127, 0.5), leaky("c" * 128, 0.5), named("d" * 20000)], id="long"),
        pytest.param(
            [leaky("a", 0.5), named('"\x09LeakyRelu'), named('"')], id="names that look like the field behind"
        ),
        pytest.param(
            [leaky("a", 0.5), helper.make_node('"\x09LeakyRelu', ["x"], ["b"], domain="own"), leaky("c", 0.5)],
            id="an operator that looks like a field",
        ),
    ],
)
def test_node_content_is_independent_of_other_nodes(nodes):
    graph = from_proto(model(*nodes))
    verify(graph)
    alone = [seen(from_proto(model(node)))[0] for node in nodes]
    assert seen(graph) == alone
    assert seen(read(model(*nodes).SerializeToString())) == alone


def test_equal_nodes_have_separate_attributes():
    first, second = from_proto(model(leaky("a", 0.5), leaky("b", 0.5)))
    first.attributes["alpha"] = 0.25
    assert second.attributes == {"alpha": 0.5}


def test_every_node_with_a_fault_is_reported_with_its_location():
    def faulty(output):
        node = leaky(output, 0.5)
        node.attribute[0].type = AttributeProto.INT
        return node

    with pytest.raises(DiagnosticError) as told:
        from_proto(model(faulty("a"), leaky("b", 0.5), faulty("c")))
    assert [(each.code, each.span.place) for each in told.value.diagnostics] == [
        ("ONNX0201", 'graph.node[0] ""'),
        ("ONNX0201", 'graph.node[2] ""'),
    ]


def test_the_count_of_operands_is_looked_at_in_every_node():
    wide = helper.make_node("Relu", ["x", "x"], ["c"])
    with pytest.raises(DiagnosticError, match="Relu has 2 inputs, expected 1"):
        from_proto(model(helper.make_node("Relu", ["x"], ["a"]), wide))


def test_node_origins_are_computed_on_demand():
    graph = from_proto(model(leaky("a", 0.5, name="first"), leaky("b", 0.5)))
    assert [str(node.origin) for node in graph] == ['model: graph.node[0] "first"', 'model: graph.node[1] ""']

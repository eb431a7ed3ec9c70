"""CastLike where the type of its second operand is known."""

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.passes.journal import Journal
from graphport.passes.resolve_casts import resolve_casts


def made(like):
    graph = Graph("g")
    x = graph.add_input("x", TensorFact(DType.INT64, (3,)))
    z = graph.add_input("z", like)
    y = Value("y", TensorFact(DType.FLOAT16, (3,)))
    graph.append(Node("CastLike", [x, z], [y], {"saturate": 0}))
    graph.add_output(y)
    return graph


def test_castlike_with_known_dtype_becomes_cast():
    graph = made(TensorFact(DType.FLOAT16, None))
    resolve_casts(graph, Journal())
    (node,) = graph
    assert (node.op_type, len(node.inputs), node.attributes) == ("Cast", 1, {"saturate": 0, "to": DType.FLOAT16})


def test_castlike_with_unknown_dtype_is_kept():
    graph = made(UNKNOWN)
    resolve_casts(graph, Journal())
    assert [node.op_type for node in graph] == ["CastLike"]

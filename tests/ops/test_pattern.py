"""The pattern language: parsing, holding against a page, and both directions on one page."""

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir import Graph, Node, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.infer import Inference
from graphport.ops.pattern import Pattern, PatternError, Term, check, exported, lowered, parse

FLOAT = TensorFact(DType.FLOAT32, (2, 1, 3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("relu(x)", Pattern("relu", ((None, Term("name", "x")),)), id="operand"),
        pytest.param("nn.ReLU(x)", Pattern("nn.ReLU", ((None, Term("name", "x")),)), id="dotted word"),
        pytest.param(
            "f(x, slope=alpha)",
            Pattern("f", ((None, Term("name", "x")), ("slope", Term("name", "alpha")))),
            id="renamed",
        ),
        pytest.param("f(axes=const(axes))", Pattern("f", (("axes", Term("const", "axes")),)), id="constant"),
        pytest.param("f(special=not allowzero)", Pattern("f", (("special", Term("not", "allowzero")),)), id="negated"),
        pytest.param(
            "max(x, 0.0)", Pattern("max", ((None, Term("name", "x")), (None, Term("literal", 0.0)))), id="float"
        ),
        pytest.param(
            "f(-3, mode='a b', on=true)",
            Pattern(
                "f", ((None, Term("literal", -3)), ("mode", Term("literal", "a b")), ("on", Term("literal", True)))
            ),
            id="literals",
        ),
        pytest.param(
            "concat([*inputs], axis=axis)",
            Pattern("concat", ((None, Term("rest", "inputs")), ("axis", Term("name", "axis")))),
            id="run",
        ),
        pytest.param("f()", Pattern("f", ()), id="nothing"),
    ],
)
def test_parse(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "f", "f(", "f(x", "f(x,)", "f(x y)", "f(x))", "f([x])", "f(x=)", "f(const(x)", "f(%)"]
)
def test_malformed_patterns_are_refused(text):
    with pytest.raises(PatternError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("squeeze(data, axes=axes)", id="an operand where the dialect has an attribute"),
        pytest.param("squeeze(data, data)", id="one operand twice"),
        pytest.param("squeeze(x)", id="no such parameter"),
    ],
)
def test_patterns_that_do_not_fit_are_refused(text):
    with pytest.raises(PatternError):
        check(registry.op_defs()["Squeeze"], parse(text))


def graph_with(fact: TensorFact = FLOAT) -> tuple[Graph, Value]:
    graph = Graph()
    return graph, graph.add_input("x", fact)


def test_lowering_converts_an_attribute_to_a_constant():
    graph, x = graph_with()
    op_def = registry.op_defs()["Squeeze"]
    builder = Builder(Inference(), graph)
    (y,) = lowered(op_def, parse("squeeze(data, axes=const(axes))"), builder, [x], {"axes": (1,)})
    assert y.fact.shape == (2, 3)
    axes = y.producer.inputs[1]
    assert axes.is_constant
    np.testing.assert_array_equal(axes.storage.numpy(), np.array([1], np.int64), strict=True)


def test_export_converts_a_constant_to_an_attribute():
    graph, x = graph_with()
    axes = graph.add_constant("axes", TensorFact(DType.INT64, (1,), (1,)), storage_of([1]))
    node = graph.append(Node("Squeeze", [x, axes], [Value("y")]))
    op_def = registry.op_defs()["Squeeze"]
    builder = Builder(Inference(), graph, node, dialect="nnef")
    (y,) = exported(op_def, parse("squeeze(data, axes=const(axes))"), builder, node)
    assert (y.producer.op, y.producer.inputs, y.producer.attributes) == ("nnef.squeeze", (x,), {"axes": (1,)})


def test_export_refuses_an_operand_that_is_computed():
    graph, x = graph_with()
    axes = graph.add_input("axes", TensorFact(DType.INT64, (1,)))
    node = graph.append(Node("Squeeze", [x, axes], [Value("y")]))
    builder = Builder(Inference(), graph, node, dialect="nnef")
    assert exported(registry.op_defs()["Squeeze"], parse("squeeze(data, axes=const(axes))"), builder, node) is None


def test_export_refuses_an_attribute_that_the_pattern_cannot_express():
    graph, x = graph_with()
    node = graph.append(Node("Softmax", [x], [Value("y")], {"axis": 1}))
    builder = Builder(Inference(), graph, node, dialect="nnef")
    assert exported(registry.op_defs()["Softmax"], parse("softmax(input)"), builder, node) is None
    node.attributes["axis"] = -1
    assert exported(registry.op_defs()["Softmax"], parse("softmax(input)"), builder, node) is not None


def test_lowering_refuses_an_attribute_that_the_pattern_does_not_know():
    graph, x = graph_with()
    with pytest.raises(UnsupportedError, match="odd"):
        lowered(registry.op_defs()["Relu"], parse("relu(x)"), Builder(Inference(), graph), [x], {"odd": 1})


def test_lowering_refuses_another_literal():
    graph, x = graph_with()
    zero = graph.add_constant("zero", TensorFact(DType.FLOAT32, ()), storage_of(0.0, DType.FLOAT32))
    one = graph.add_constant("one", TensorFact(DType.FLOAT32, ()), storage_of(1.0, DType.FLOAT32))
    op_def, pattern = registry.op_defs()["Relu"], parse("max(x, 0.0)")
    assert lowered(op_def, pattern, Builder(Inference(), graph), [x, zero], {})[0].fact == FLOAT
    with pytest.raises(UnsupportedError):
        lowered(op_def, pattern, Builder(Inference(), graph), [x, one], {})

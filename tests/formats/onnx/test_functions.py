from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper

from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import from_proto, inline_functions, to_proto
from graphport.ir.graph import Graph, walk
from graphport.ir.verify import verify
from tests.formats.onnx.models import model, plain, tensor, weights

X = np.array([-2, -1, 0, 1], np.float32)


def function(
    name: str, nodes: list[NodeProto], inputs: tuple[str, ...] = ("a",), outputs: tuple[str, ...] = ("b",), **more: Any
) -> FunctionProto:
    opsets = [helper.make_opsetid("", more.pop("opset", 17)), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, list(inputs), list(outputs), nodes, opsets, **more)


def call(name: str, *inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(name, list(inputs), [output], domain="my", **attributes)


def calling(nodes: list[NodeProto], *functions: FunctionProto, **more: Any) -> ModelProto:
    return model(nodes, functions=list(functions), imports={"my": 1}, **more)


def reference(operator: str, name: str, target: str, kind: Any) -> NodeProto:
    node = helper.make_node(operator, ["a"], ["b"])
    node.attribute.append(AttributeProto(name=name, ref_attr_name=target, type=kind))
    return node


def inlined(proto: ModelProto) -> Graph:
    graph = from_proto(proto)
    inline_functions(graph)
    verify(graph)
    return graph


def run(proto: ModelProto, **inputs: Any) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return list(onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, inputs or {"x": X}))


def same(proto: ModelProto, **inputs: Any) -> Graph:
    """The graph after inlining, which computes what the model computes."""
    graph = inlined(proto)
    written = to_proto(graph)
    onnx.checker.check_model(written)
    assert not written.functions
    for expected, found in zip(run(proto, **inputs), run(written, **inputs), strict=True):
        np.testing.assert_array_equal(found, expected)
    return graph


DOUBLE = function("Double", [helper.make_node("Add", ["a", "a"], ["b"])])
LEAKY = function(
    "Leaky",
    [reference("LeakyRelu", "alpha", "slope", AttributeProto.FLOAT)],
    attribute_protos=[helper.make_attribute("slope", 0.5)],
)


def test_functions_survive_until_they_are_inlined() -> None:
    proto = calling([call("Leaky", "x", slope=0.25)], LEAKY, DOUBLE)
    proto.functions[0].doc_string = "leaks"
    proto.functions[0].metadata_props.add(key="k", value="v")
    proto.functions[0].value_info.append(tensor("b"))
    proto.functions[1].overload = "second"
    graph = from_proto(proto)
    verify(graph)
    assert plain(to_proto(graph)) == plain(proto)
    assert [node.op for node in graph] == ["my.Leaky"]


def test_a_call_becomes_the_nodes_of_the_function() -> None:
    graph = same(calling([call("Double", "x")], DOUBLE))
    assert [node.op for node in graph] == ["onnx.Add"]
    assert [value.name for value in graph.outputs] == ["y"]


def test_attributes_of_the_call_reach_the_nodes() -> None:
    graph = same(calling([call("Leaky", "x", slope=0.25)], LEAKY))
    assert next(iter(graph)).attributes == {"alpha": 0.25}


def test_omitted_function_attribute_uses_its_default() -> None:
    assert next(iter(same(calling([call("Leaky", "x")], LEAKY)))).attributes == {"alpha": 0.5}


def test_an_attribute_without_a_default_is_absent() -> None:
    leaky = function("Leaky", [reference("LeakyRelu", "alpha", "slope", AttributeProto.FLOAT)], attributes=["slope"])
    assert next(iter(same(calling([call("Leaky", "x")], leaky)))).attributes == {}


def test_functions_call_functions() -> None:
    outer = function("Outer", [call("Double", "a", output="h"), call("Leaky", "h", output="b", slope=0.125)])
    nodes = [call("Outer", "x", output="h"), call("Outer", "h")]
    graph = same(calling(nodes, outer, DOUBLE, LEAKY))
    assert [node.op_type for node in graph] == ["Add", "LeakyRelu"] * 2


def test_function_calls_in_bodies_are_inlined() -> None:
    then = helper.make_graph([reference("LeakyRelu", "alpha", "slope", AttributeProto.FLOAT)], "t", [], [tensor("b")])
    orelse = helper.make_graph([call("Double", "a", output="b")], "e", [], [tensor("b")])
    choose = function(
        "Choose",
        [helper.make_node("If", ["c"], ["r"], then_branch=then, else_branch=orelse)],
        ("a", "c"),
        ("r",),
        attributes=["slope"],
    )
    nodes = [call("Choose", "x", "c", output="b", slope=0.25), call("Choose", "b", "c", slope=0.75)]
    proto = calling(nodes, choose, DOUBLE, inputs=[tensor("x"), tensor("c", [], TensorProto.BOOL)])
    for given in (True, False):
        graph = same(proto, x=X, c=np.array(given))
    words = [node.op_type for body in walk(graph) for node in body]
    assert sorted(words) == ["Add", "Add", "If", "If", "LeakyRelu", "LeakyRelu"]


def test_an_operand_that_is_omitted_is_absent_inside() -> None:
    clip = function("Limit", [helper.make_node("Clip", ["a", "low", "high"], ["b"])], ("a", "low", "high"))
    proto = calling([call("Limit", "x", "", "w")], clip, initializer=[weights("w", np.array(0.5, np.float32))])
    (node,) = same(proto)
    assert [value and value.name for value in node.inputs] == ["x", None, "w"]


def test_an_operand_that_is_returned_is_copied() -> None:
    both = function("Both", [helper.make_node("Neg", ["a"], ["n"])], ("a",), ("a", "n", "n"))
    node = helper.make_node("Both", ["x"], ["p", "q", "r"], domain="my")
    proto = calling([node], both, outputs=[tensor("p"), tensor("q"), tensor("r")])
    graph = inlined(proto)
    assert [value.name for value in graph.outputs] == ["p", "q", "r"]
    p, q, r = run(to_proto(graph))
    assert (p.tolist(), q.tolist(), r.tolist()) == (X.tolist(), (-X).tolist(), (-X).tolist())


def test_unused_function_result_is_dropped() -> None:
    both = function(
        "Both", [helper.make_node("Neg", ["a"], ["n"]), helper.make_node("Abs", ["a"], ["m"])], outputs=("n", "m")
    )
    node = helper.make_node("Both", ["x"], ["", "y"], domain="my")
    graph = inlined(calling([node], both))
    assert run(to_proto(graph))[0].tolist() == np.abs(X).tolist()


def test_function_overloads_are_distinguished() -> None:
    first, second = (
        function("F", [helper.make_node("Neg", ["a"], ["b"])]),
        function("F", [helper.make_node("Abs", ["a"], ["b"])]),
    )
    second.overload = "abs"
    node = call("F", "x")
    node.overload = "abs"
    graph = inlined(calling([node], first, second, ir_version=10))
    assert [each.op_type for each in graph] == ["Abs"]


def test_function_may_shadow_an_operator() -> None:
    relu = helper.make_function(
        "", "Relu", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    proto = model([helper.make_node("Relu", ["x"], ["y"])], functions=[relu])
    graph = from_proto(proto)
    assert [node.op for node in graph] == ["onnx:.Relu"]
    assert plain(to_proto(graph)) == plain(proto)
    assert [node.op for node in inlined(proto)] == ["onnx.Neg"]


def refusal(proto: ModelProto, **options: Any) -> str:
    graph = from_proto(proto)
    before = to_proto(graph)
    with pytest.raises(DiagnosticError) as caught:
        inline_functions(graph, **options)
    verify(graph)
    assert to_proto(graph) == before
    return str(caught.value)


def test_recursive_functions_are_rejected() -> None:
    one = function("One", [call("Two", "a", output="b")])
    two = function("Two", [call("One", "a", output="b")])
    assert "ONNX0501" in refusal(calling([call("One", "x")], one, two))


def test_functions_that_double_with_every_step_are_refused_before_they_do() -> None:
    functions = [DOUBLE]
    for number in range(60):
        inner = f"F{number - 1}" if number else "Double"
        functions.append(function(f"F{number}", [call(inner, "a", output="h"), call(inner, "h", output="b")]))
    text = refusal(calling([call("F59", "x")], *functions))
    assert "ONNX0504" in text
    assert str(2**60) in text


def test_a_file_of_few_bytes_does_not_become_a_million_nodes() -> None:
    functions = [DOUBLE]
    for number in range(19):
        inner = f"F{number - 1}" if number else "Double"
        functions.append(function(f"F{number}", [call(inner, "a", output="h"), call(inner, "h", output="b")]))
    assert "ONNX0504" in refusal(calling([call("F18", "x")], *functions))


def test_long_function_chain_is_inlined() -> None:
    chain = [function(f"F{number}", [call(f"F{number + 1}", "a", output="b")]) for number in range(2999)]
    graph = inlined(calling([call("F0", "x")], *chain, function("F2999", [helper.make_node("Neg", ["a"], ["b"])])))
    assert [node.op for node in graph] == ["onnx.Neg"]


def test_function_of_another_opset_is_inlined_if_operators_are_unchanged() -> None:
    relu = function("F", [helper.make_node("Relu", ["a"], ["b"])], opset=14)
    assert [node.op for node in inlined(calling([call("F", "x")], relu))] == ["onnx.Relu"]
    old = function("F", [helper.make_node("Softmax", ["a"], ["b"])], opset=11)
    text = refusal(calling([call("F", "x")], old))
    assert "ONNX0502" in text
    assert "Softmax" in text


def test_duplicate_functions_are_rejected() -> None:
    with pytest.raises(DiagnosticError, match="ONNX0503"):
        from_proto(calling([call("Double", "x")], DOUBLE, DOUBLE))


def test_a_reference_to_an_attribute_that_the_function_lacks_is_refused() -> None:
    wrong = function("F", [reference("Elu", "alpha", "beta", AttributeProto.FLOAT)])
    with pytest.raises(
        DiagnosticError, match=r"ONNX0206.*attribute 'beta', which the enclosing function does not declare"
    ):
        from_proto(calling([call("F", "x")], wrong))


def test_model_without_functions_is_unchanged() -> None:
    assert inline_functions(from_proto(model([helper.make_node("Relu", ["x"], ["y"])]))) == 0

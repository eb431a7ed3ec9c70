from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import SequenceFact, TensorFact
from graphport.core.storage import Bytes, FileStorage, MappedFile, Storage
from graphport.formats.onnx import from_proto, read
from graphport.formats.onnx.container.notes import MODEL, ModelNotes, noted
from graphport.ir.graph import Graph, Node, walk
from graphport.ir.verify import verify
from tests.every import every
from tests.formats.onnx.models import DATA, model, tensor, weights
from tests.formats.onnx.newest import NEEDS_NEWEST_OPSET

SQUEEZENET = DATA / "light_squeezenet.onnx"


def graph_of(proto: ModelProto) -> Graph:
    graph = from_proto(proto)
    verify(graph)
    return graph


def refusals(proto: ModelProto) -> list[Diagnostic]:
    with pytest.raises(DiagnosticError) as caught:
        from_proto(proto)
    return caught.value.diagnostics


def codes(proto: ModelProto) -> list[str]:
    return [finding.code for finding in refusals(proto)]


def warnings(proto: ModelProto) -> list[str]:
    findings: list[Diagnostic] = []
    verify(from_proto(proto, findings=findings))
    return [finding.code for finding in findings]


def node(graph: Graph) -> Node:
    assert graph.first_node is not None
    return graph.first_node


# Files


@pytest.mark.parametrize("form", ["path", "text", "bytes", "message"])
def test_model_is_read_from_every_kind_of_source(form: str) -> None:
    data = SQUEEZENET.read_bytes()
    sources: dict[str, Any] = {
        "path": SQUEEZENET,
        "text": str(SQUEEZENET),
        "bytes": data,
        "message": ModelProto.FromString(data),
    }
    graph = read(sources[form])
    verify(graph)
    assert (len(graph), len(graph.constants), graph.opsets) == (105, 52, {"onnx": 9})
    assert [value.name for value in graph.inputs] == ["data_0"]


def test_node_origin_names_file_and_node() -> None:
    graph = read(SQUEEZENET)
    nodes = list(graph)
    assert str(nodes[3].origin) == f'{SQUEEZENET}: graph.node[3] ""'
    assert str(read(SQUEEZENET, name="net").first_node.origin) == 'net: graph.node[0] ""'  # type: ignore[union-attr]


def test_a_missing_file_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match="IO0006"):
        read(tmp_path / "none.onnx")


@pytest.mark.parametrize(("data", "code"), [(b"", "ONNX0002"), (b"\x08\x08", "ONNX0002"), (b"text", "ONNX0001")])
def test_invalid_model_is_reported(data: bytes, code: str) -> None:
    with pytest.raises(DiagnosticError, match=code):
        read(data)


def test_embedded_weights_are_views_on_the_file(tmp_path: Path) -> None:
    large = np.arange(3000, dtype=np.float32)
    path = tmp_path / "net.onnx"
    proto = model(
        [helper.make_node("Constant", [], ["k"], value=weights("", large + 1))],
        [],
        [tensor("k", [3000]), tensor("w", [3000])],
        initializer=[weights("w", large)],
    )
    path.write_bytes(proto.SerializeToString())
    graph = read(path)
    (constant,) = graph.constants
    attribute = node(graph).attributes["value"]
    for storage, expected in ((constant.storage, large), (attribute, large + 1)):
        assert isinstance(storage, FileStorage)
        assert isinstance(storage.file, MappedFile)
        np.testing.assert_array_equal(storage.numpy(), expected)


def test_bytes_are_viewed_and_not_copied() -> None:
    data = model([], [], [tensor("w", [3000])], initializer=[weights("w", np.zeros(3000))]).SerializeToString()
    (constant,) = read(data).constants
    assert isinstance(constant.storage, FileStorage)
    assert isinstance(constant.storage.file, Bytes)
    assert constant.storage.file.size == len(data)


def test_reading_restores_the_gc_state() -> None:
    for was in (False, True):
        (gc.enable if was else gc.disable)()
        try:
            read(SQUEEZENET)
            assert gc.isenabled() is was
        finally:
            gc.enable()


def test_importing_the_package_does_not_import_onnx() -> None:
    code = "import sys, graphport.formats.onnx as o; o.recognizes; sys.exit('onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_fields_are_a_warning() -> None:
    data = model([helper.make_node("Relu", ["x"], ["y"])]).SerializeToString() + b"\xf2\x07\x03abc"
    findings: list[Diagnostic] = []
    read(data, findings=findings)
    assert [finding.code for finding in findings] == ["ONNX0007"]
    assert "6 bytes" in findings[0].message


# Values and facts


def test_values_have_their_declared_facts() -> None:
    graph = graph_of(
        model(
            [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
            [tensor("x", ["N", 3])],
            [tensor("y", ["N", "?"])],
            value_info=[tensor("h", [None, 3])],
        )
    )
    facts = {value.name: value.fact for value in graph.values()}
    n = Symbol("N")
    assert facts["x"] == TensorFact(DType.FLOAT32, (n, 3))
    assert facts["h"] == TensorFact(DType.FLOAT32, (Symbol("h.0"), 3))
    assert facts["y"] == TensorFact(DType.FLOAT32, (n, Symbol("y.1")))


def test_small_integer_constants_carry_their_elements() -> None:
    graph = graph_of(
        model(
            [helper.make_node("Reshape", ["x", "s"], ["y"])],
            outputs=[tensor("y", [2, -1])],
            initializer=[weights("s", np.array([2, -1]))],
        )
    )
    assert next(iter(graph.constants)).fact == TensorFact(DType.INT64, (2,), (2, -1))


def test_an_initializer_that_is_an_input_is_a_constant() -> None:
    graph = graph_of(
        model(
            [helper.make_node("Add", ["x", "w"], ["y"])],
            [tensor("x", [2]), tensor("w", [2])],
            [tensor("y", [2])],
            ir_version=3,
            opset=8,
            initializer=[weights("w", np.ones(2, np.float32))],
        )
    )
    assert [value.name for value in graph.inputs] == ["x"]
    assert [value.name for value in graph.constants] == ["w"]


@pytest.mark.parametrize("declared", [tensor("w", [3]), tensor("w", [2, 1]), tensor("w", [2], TensorProto.DOUBLE)])
def test_initializer_must_match_its_declared_input(declared: ValueInfoProto) -> None:
    proto = model([], [declared], [declared], initializer=[weights("w", np.ones(2, np.float32))])
    assert codes(proto) == ["ONNX0308"]


def test_sequences_and_other_types_are_facts() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["N"])
    graph = graph_of(model([helper.make_node("SequenceLength", ["s"], ["y"])], [sequence], [tensor("y", [], 7)]))
    assert graph.inputs[0].fact == SequenceFact(TensorFact(DType.FLOAT32, (Symbol("N"),)))


# Nodes and attributes


def attributes(**given: Any) -> dict[str, Any]:
    """Attributes of a node of an unknown domain, as read."""
    proto = model([helper.make_node("Op", ["x"], ["y"], domain="my", **given)], imports={"my": 1})
    return dict(node(graph_of(proto)).attributes)


@pytest.mark.parametrize(
    "value",
    [1, -(2**63), 0.1, "text", "é", (1, 2), (0.5, -1.0), ("a", "b"), b"\xff\xfe"],
    ids=repr,
)
def test_attributes_are_plain_python(value: object) -> None:
    expected = float(np.float32(value)) if isinstance(value, float) else value
    found = attributes(a=value)["a"]
    assert found == expected
    assert type(found) is type(expected)


def test_tensors_types_and_graphs_are_attributes() -> None:
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "b", [], [tensor("n")])
    found = attributes(
        t=weights("t", np.arange(3)),
        tp=helper.make_tensor_type_proto(TensorProto.FLOAT, [2]),
        g=body,
        graphs=[body, body],
        tensors=[weights("", np.zeros(1)), weights("", np.ones(1))],
    )
    assert isinstance(found["t"], Storage)
    assert found["t"].numpy().tolist() == [0, 1, 2]
    assert found["tp"] == TensorFact(DType.FLOAT32, (2,))
    assert isinstance(found["g"], Graph)
    assert [type(item) for item in found["graphs"]] == [Graph, Graph]
    assert [item.numpy().tolist() for item in found["tensors"]] == [[0.0], [1.0]]


def test_an_attribute_without_a_type_has_that_of_its_field() -> None:
    proto = helper.make_node("Op", ["x"], ["y"], domain="my")
    proto.attribute.append(AttributeProto(name="a", ints=[1, 2]))
    proto.attribute.append(AttributeProto(name="b", f=0.5))
    assert dict(node(graph_of(model([proto], imports={"my": 1}))).attributes) == {"a": (1, 2), "b": 0.5}


def test_element_types_of_operators_are_element_types() -> None:
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)
    assert node(graph_of(model([cast]))).attributes == {"to": DType.FLOAT16}
    other = helper.make_node("Op", ["x"], ["y"], to=TensorProto.FLOAT16, domain="my")
    assert node(graph_of(model([other], imports={"my": 1}))).attributes == {"to": 10}


def test_output_dtype_0_is_absent() -> None:
    proto = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=0)
    graph = graph_of(model([proto], [tensor("x"), tensor("s", [])], [tensor("y", None, 2)], opset=21, ir_version=10))
    assert node(graph).attributes == {"output_dtype": None}


def test_absent_operands_and_results_are_none() -> None:
    clip = helper.make_node("Clip", ["x", "", "x"], ["y"])
    assert [value and value.name for value in node(graph_of(model([clip], [tensor("x", [])]))).inputs] == [
        "x",
        None,
        "x",
    ]
    pool = helper.make_node("MaxPool", ["x"], ["y", ""], kernel_shape=[1])
    assert len(node(graph_of(model([pool]))).outputs) == 1


def test_trailing_absent_results_of_split_are_kept() -> None:
    split = helper.make_node("Split", ["x"], ["y", ""])
    found = node(graph_of(model([split], [tensor("x", [4])], opset=13)))
    assert len(found.outputs) == 2
    assert found.outputs[1] is not None


def test_domains_are_dialects_and_names_of_nodes_stay() -> None:
    graph = graph_of(
        model(
            [
                helper.make_node("Relu", ["x"], ["a"], name="first", domain="ai.onnx"),
                helper.make_node("Gelu", ["a"], ["y"], domain="com.microsoft"),
            ],
            imports={"com.microsoft": 1},
        )
    )
    assert [(each.op, each.name) for each in graph] == [("onnx.Relu", "first"), ("com.microsoft.Gelu", "")]
    assert graph.opsets == {"onnx": 17, "com.microsoft": 1}


@NEEDS_NEWEST_OPSET
def test_operators_that_changed_after_the_pin_are_of_the_future() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("SwiGLU", ["a", "x"], ["y"])]
    graph = graph_of(model(nodes, opset=28, ir_version=14))
    assert [each.op for each in graph] == ["onnx.Relu", "onnx.future.SwiGLU"]
    assert graph.opsets == {"onnx": 28, "onnx.future": 28}


def test_nodes_of_an_opset_that_is_unknown_are_opaque() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"], surprise=1)], opset=999)
    assert warnings(proto) == ["ONNX0004"]
    assert node(from_proto(proto)).op == "onnx.future.Relu"


def test_file_without_opset_import_has_opset_1() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], ir_version=2)
    del proto.opset_import[:]
    assert graph_of(proto).opsets == {"onnx": 1}


# Bodies


def condition(then: list[NodeProto], orelse: list[NodeProto], **more: Any) -> ModelProto:
    branches: dict[str, Any] = {
        name: helper.make_graph(nodes, name, [], [tensor("r", None)])
        for name, nodes in (("then_branch", then), ("else_branch", orelse))
    }
    choice = helper.make_node("If", ["c"], ["y"], name="choice", **branches)
    before = more.pop("before", [])
    return model([*before, choice], [tensor("c", [], TensorProto.BOOL), tensor("x")], **more)


def test_bodies_read_outer_values_and_siblings_share_names() -> None:
    graph = graph_of(condition([helper.make_node("Neg", ["x"], ["r"])], [helper.make_node("Abs", ["x"], ["r"])]))
    inner = [body for body in walk(graph) if body is not graph]
    assert [[value.name for value in body.outputs] for body in inner] == [["r"], ["r"]]
    assert all(each.inputs == (graph.inputs[1],) for body in inner for each in body)
    places = {str(body.first_node.origin) for body in inner if body.first_node is not None}
    assert places == {f'model: graph.node[0] "choice".{name}_branch.node[0] ""' for name in ("then", "else")}


def test_body_may_return_an_outer_value() -> None:
    proto = condition([], [helper.make_node("Abs", ["x"], ["r"])])
    for branch in proto.graph.node[0].attribute:
        if branch.name == "then_branch":
            branch.g.output[0].name = "x"
    graph = graph_of(proto)
    assert graph.inputs[1].is_output


def test_body_result_may_not_shadow_an_outer_value() -> None:
    neg = [helper.make_node("Neg", ["x"], ["r"])]
    proto = condition(neg, [helper.make_node("Abs", ["x"], ["r"])], before=[helper.make_node("Exp", ["x"], ["r"])])
    assert codes(proto) == ["ONNX0101", "ONNX0101"]


def test_body_input_may_shadow_an_outer_value() -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"])],
        "b",
        [tensor("i", [], TensorProto.INT64), tensor("c", [], TensorProto.BOOL), tensor("x")],
        [tensor("c", [], TensorProto.BOOL), tensor("n")],
    )
    proto = model(
        [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)], [tensor("x"), tensor("m", [], TensorProto.INT64)]
    )
    assert warnings(proto) == ["ONNX0105"]
    graph = from_proto(proto)
    inner = next(each for each in walk(graph) if each is not graph)
    assert inner.first_node is not None
    assert inner.first_node.inputs == (inner.inputs[2],)


# Errors


def test_nodes_out_of_order_are_sorted() -> None:
    proto = model([helper.make_node("Neg", ["h"], ["y"]), helper.make_node("Abs", ["x"], ["h"])])
    assert warnings(proto) == ["ONNX0103"]
    assert [each.op_type for each in graph_of(proto)] == ["Abs", "Neg"]


def test_node_that_captures_a_later_value_is_sorted() -> None:
    proto = condition([helper.make_node("Neg", ["h"], ["r"])], [helper.make_node("Abs", ["h"], ["r"])])
    proto.graph.node.append(helper.make_node("Exp", ["x"], ["h"]))
    assert warnings(proto) == ["ONNX0103"]
    assert [each.op_type for each in graph_of(proto)] == ["Exp", "If"]


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param([helper.make_node("Neg", ["y"], ["y"])], id="reads itself"),
        pytest.param([helper.make_node("Neg", ["h"], ["y"]), helper.make_node("Abs", ["y"], ["h"])], id="two"),
    ],
)
def test_a_cycle_is_refused(nodes: list[NodeProto]) -> None:
    assert codes(model(nodes)) == ["ONNX0104"]


def relu(*inputs: str, **given: Any) -> NodeProto:
    return helper.make_node("Relu", list(inputs), ["y"], **given)


def _two_imports(proto: ModelProto) -> None:
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 11))


def _no_import(proto: ModelProto) -> None:
    del proto.opset_import[:]


def _zero_import(proto: ModelProto) -> None:
    proto.opset_import[0].version = 0


def _no_version(proto: ModelProto) -> None:
    proto.ClearField("ir_version")


def _no_graph(proto: ModelProto) -> None:
    proto.ClearField("graph")


def _undefined(proto: ModelProto) -> None:
    proto.graph.node[0].input[0] = "X"


def _undefined_output(proto: ModelProto) -> None:
    proto.graph.output[0].name = "z"


def _twice(proto: ModelProto) -> None:
    proto.graph.node.append(relu("x"))


def _input_twice(proto: ModelProto) -> None:
    proto.graph.input.append(tensor("x"))


def _over_input(proto: ModelProto) -> None:
    proto.graph.node.append(helper.make_node("Relu", ["x"], ["x"]))


def _nameless(proto: ModelProto) -> None:
    proto.graph.input.append(tensor(""))


def _unknown_attribute(proto: ModelProto) -> None:
    proto.graph.node[0].attribute.append(helper.make_attribute("alpha", 1.0))


def _wrong_kind(proto: ModelProto) -> None:
    proto.graph.node[0].CopyFrom(helper.make_node("Transpose", ["x"], ["y"], perm=0))


def _missing_attribute(proto: ModelProto) -> None:
    proto.graph.node[0].op_type = "Cast"


def _attribute_twice(proto: ModelProto) -> None:
    proto.graph.node[0].CopyFrom(helper.make_node("Transpose", ["x"], ["y"], perm=[0]))
    proto.graph.node[0].attribute.append(helper.make_attribute("perm", [0]))


def _reference(proto: ModelProto) -> None:
    proto.graph.node[0].CopyFrom(helper.make_node("Elu", ["x"], ["y"]))
    proto.graph.node[0].attribute.append(AttributeProto(name="alpha", ref_attr_name="a", type=AttributeProto.FLOAT))


def _operands(proto: ModelProto) -> None:
    proto.graph.node[0].input.append("x")


def _results(proto: ModelProto) -> None:
    proto.graph.node[0].output.append("z")


def _element_type(proto: ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.elem_type = 77


def _cast_to(proto: ModelProto) -> None:
    proto.graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["y"], to=99))


def _no_operator(proto: ModelProto) -> None:
    proto.graph.node[0].op_type = ""


FLAWS = [
    pytest.param(_no_version, "ONNX0002", "ir_version", id="no version of the format"),
    pytest.param(_no_graph, "ONNX0002", "no graph", id="no graph"),
    pytest.param(_no_import, "ONNX0003", "ai.onnx", id="no import"),
    pytest.param(_zero_import, "ONNX0003", "opset_import[0]", id="opset 0"),
    pytest.param(_two_imports, "ONNX0005", "version 17 and version 11", id="two opsets"),
    pytest.param(_twice, "ONNX0101", "graph.node[1].output", id="a result twice"),
    pytest.param(_input_twice, "ONNX0101", "graph.input[1]", id="an input twice"),
    pytest.param(_over_input, "ONNX0101", "'x'", id="a result called like an input"),
    pytest.param(_nameless, "ONNX0101", "no name", id="no name"),
    pytest.param(_undefined, "ONNX0102", "did you mean x?", id="an unknown operand"),
    pytest.param(_undefined_output, "ONNX0106", "graph.output[0]", id="an unknown output"),
    pytest.param(_wrong_kind, "ONNX0201", "INT, expected INTS", id="an attribute of another type"),
    pytest.param(_missing_attribute, "ONNX0202", "missing required attribute to of Cast", id="a missing attribute"),
    pytest.param(_unknown_attribute, "ONNX0203", "unknown attribute 'alpha' of Relu", id="an unknown attribute"),
    pytest.param(_attribute_twice, "ONNX0205", "perm", id="an attribute twice"),
    pytest.param(_reference, "ONNX0206", "outside of a function", id="a reference outside of functions"),
    pytest.param(_no_operator, "ONNX0207", "missing op_type", id="no operator"),
    pytest.param(_operands, "ONNX0208", "2 inputs, expected 1", id="too many operands"),
    pytest.param(_results, "ONNX0208", "2 outputs, expected 1", id="too many results"),
    pytest.param(_element_type, "ONNX0301", "element type 77", id="an unknown element type"),
    pytest.param(_cast_to, "ONNX0301", "graph.node[0]", id="a cast to an unknown type"),
]


@every(("flaw", "code", "words"), FLAWS)
def test_errors_are_reported_with_their_location(flaw: Callable[[ModelProto], None], code: str, words: str) -> None:
    proto = model([relu("x", name="act")])
    flaw(proto)
    found = refusals(proto)
    assert code in [finding.code for finding in found]
    assert any(words in str(finding) for finding in found if finding.code == code)


def test_all_findings_are_reported_together() -> None:
    proto = model([relu("X"), helper.make_node("Cast", ["Z"], ["q"])], outputs=[tensor("nothing")])
    assert sorted(codes(proto)) == ["ONNX0102", "ONNX0102", "ONNX0106", "ONNX0202"]


def test_very_many_findings_are_counted() -> None:
    found = refusals(model([helper.make_node("Relu", [f"a{i}"], [f"b{i}"]) for i in range(500)], outputs=[]))
    assert len(found) == 201
    assert found[-1].message == "300 more findings are not shown"


def test_unknown_operators_are_a_warning() -> None:
    assert warnings(model([helper.make_node("Sofmax", ["x"], ["y"])])) == ["ONNX0207"]
    assert warnings(model([helper.make_node("Upsample", ["x", "s"], ["y"])], [tensor("x"), tensor("s")])) == [
        "ONNX0207"
    ]
    assert warnings(model([helper.make_node("Op", ["x"], ["y"], domain="my")])) == ["ONNX0003"]


def test_internal_attributes_are_allowed() -> None:
    assert node(graph_of(model([relu("x", __internal=1)]))).attributes == {"__internal": 1}


def test_texts_that_are_no_utf8_are_refused() -> None:
    data = model([relu("x"), helper.make_node("Abs", ["x"], ["abcdef"])]).SerializeToString()
    with pytest.raises(DiagnosticError, match="ONNX0006"):
        read(data.replace(b"abcdef", b"abc\xff\xfef"))


def test_bodies_nested_too_deep_are_refused() -> None:
    proto = model([], [tensor("x"), tensor("c", [], TensorProto.BOOL)], [tensor("x")])
    body = proto.graph
    for _ in range(40):
        attribute = body.node.add(op_type="Op", domain="my", input=["c"]).attribute.add(name="body")
        attribute.type = AttributeProto.GRAPH
        body = attribute.g
    assert "ONNX0107" in codes(proto)


# Preserved content


def test_model_metadata_is_kept_in_notes() -> None:
    proto = model([relu("x")])
    proto.producer_name, proto.producer_version, proto.model_version = "maker", "2.1", 7
    proto.doc_string, proto.domain = "about", "org.example"
    helper.set_model_props(proto, {"author": "somebody"})
    notes = noted(graph_of(proto), ModelNotes, MODEL)
    assert notes is not None
    assert (notes.producer_name, notes.producer_version, notes.model_version) == ("maker", "2.1", 7)
    assert (notes.doc_string, notes.domain, notes.metadata) == ("about", "org.example", (("author", "somebody"),))
    assert (notes.ir_version, notes.opset) == (8, 17)

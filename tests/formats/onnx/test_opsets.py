from __future__ import annotations

import pytest

from graphport.core.diagnostics import Source
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx.container import opsets, schema
from graphport.formats.onnx.container.findings import Findings
from graphport.formats.onnx.container.notes import MODEL, ModelNotes
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.declare import OPSET
from tests.formats.onnx.newest import NEEDS_NEWEST_OPSET


def graph(*words: str, dialect: str = "", versions: dict[str, int] | None = None, source: int | None = None) -> Graph:
    made = Graph(opsets=versions or {"": OPSET})
    value = made.add_input("x", TensorFact(DType.FLOAT32, (1,)))
    for number, op_type in enumerate(words):
        value = made.append(Node(op_type, [value], [Value(f"v{number}")], dialect=dialect)).output
    if source is not None:
        made.notes[MODEL] = ModelNotes(ir_version=8, opset=source)
    return made


def chosen(made: Graph, wanted: int | None = None) -> int | str:
    findings = Findings(Source("net.onnx"))
    version = opsets.choose_opset(made, opsets.count_op_types([made]), wanted, findings)
    return str(findings.diagnostics[0]) if findings.diagnostics else version


def test_the_pin_is_known_to_onnx() -> None:
    assert schema.newest() >= OPSET


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(graph("Relu"), 17, id="the least is 17"),
        pytest.param(graph("Gelu"), 20, id="no older than an operator"),
        pytest.param(graph("Relu", source=14), 14, id="that of the source"),
        pytest.param(graph("Gelu", source=14), 20, id="the source is too old for an operator"),
        pytest.param(graph("Relu", source=28), 28, id="the source is newer", marks=NEEDS_NEWEST_OPSET),
        pytest.param(graph("Relu", dialect="onnx", versions={"onnx": 7}), 7, id="raw"),
        pytest.param(graph("Hardmaxx", dialect="onnx", versions={"onnx": 7}), 7, id="unknown operator"),
        pytest.param(graph("Op", dialect="my", versions={"my": 1, "onnx": 12}), 12, id="none of the default domain"),
        pytest.param(
            graph("Celu", dialect="onnx.future", versions={"onnx.future": 28}),
            28,
            id="of the future",
            marks=NEEDS_NEWEST_OPSET,
        ),
    ],
)
def test_the_opset_that_is_written(made: Graph, expected: int) -> None:
    assert chosen(made) == expected


def test_requested_opset_must_support_all_nodes() -> None:
    assert chosen(graph("Relu", "Gelu"), 21) == 21
    refused = str(chosen(graph("Relu", "Gelu"), 19))
    assert "ONNX0602" in refused
    assert "Gelu is valid in opsets 20 to" in refused


def test_incompatible_op_type_versions_are_rejected() -> None:
    made = graph("Softmax", dialect="onnx", versions={"onnx": 9, "": OPSET})
    made.append(Node("Gelu", made.inputs, [Value("g")]))
    assert "ONNX0602" in str(chosen(made))


def test_unchanged_op_type_may_have_another_opset() -> None:
    made = graph("Identity", dialect="onnx", versions={"onnx": 25, "": OPSET})
    made.append(Node("Relu", made.inputs, [Value("r")]))
    assert chosen(made) == 25


def test_imports_name_the_domains_in_use() -> None:
    made = graph("Relu", versions={"": OPSET, "com.microsoft": 1})
    made.append(Node("Op", made.inputs, [Value("o")], dialect="my"))
    assert opsets.imports(made, opsets.count_op_types([made]), 17, Findings(Source("net"))) == {
        "onnx": 17,
        "com.microsoft": 1,
        "my": 1,
    }


def test_nodes_of_other_formats_are_counted() -> None:
    made = graph("conv", "conv", "relu", dialect="nnef", versions={"nnef": 1})
    findings = Findings(Source("net"))
    opsets.imports(made, opsets.count_op_types([made]), 17, findings)
    assert [(each.code, each.message) for each in findings.diagnostics] == [
        ("ONNX0601", "2 nodes nnef.conv: the operator does not exist in ONNX"),
        ("ONNX0601", "1 node nnef.relu: the operator does not exist in ONNX"),
    ]


def test_graphport_expression_is_rejected() -> None:
    made, findings = graph("Expression"), Findings(Source("net"))
    opsets.imports(made, opsets.count_op_types([made]), 17, findings)
    assert [each.message for each in findings.diagnostics] == ["1 node Expression: the operator does not exist in ONNX"]


@pytest.mark.parametrize(
    ("op_type", "version", "span"),
    [
        ("Softmax", 9, (1, 10)),
        ("Softmax", 11, (11, 12)),
        ("Softmax", 13, (13, schema.newest())),
        pytest.param("Celu", 26, (12, 27), marks=NEEDS_NEWEST_OPSET),
        ("NoSuchOperator", 5, (5, 5)),
    ],
)
def test_an_op_type_is_the_same_between_two_versions(op_type: str, version: int, span: tuple[int, int]) -> None:
    assert schema.versions(op_type, version) == span

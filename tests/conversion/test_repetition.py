"""Nodes that are alike become the same as they would one by one, and only those are taken for alike."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.files import ir_chain, ir_constants, ncnn_chain, nnef_text, onnx_decoder, pnnx_chain

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.conversion.lift import lift
from graphport.conversion.repetition import Repetition
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.text import to_text


def nnef(path, count):
    path.write_text(nnef_text(count))


FILES = {
    "chain.xml": ir_chain,
    "constants.xml": ir_constants,
    "chain.param": ncnn_chain,
    "chain.pnnx.param": pnnx_chain,
    "chain.nnef": nnef,
    "decoder.onnx": lambda path, count: onnx_decoder(path, count // 48),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_remembered_changes_nothing(name, tmp_path, monkeypatch):
    """Reading, and writing as five formats: the same text with the rules asked for every node."""
    FILES[name](tmp_path / name, 48)
    found = []
    for is_forgetful in (False, True):
        if is_forgetful:
            monkeypatch.setattr(Repetition, "find", lambda self, key: None)
        model = gp.load(tmp_path / name)
        texts = [told(model.graph)]
        for dialect in ("openvino", "ncnn", "pnnx", "nnef", "tflite"):
            graph, findings = lift(model.graph, dialect)
            texts += [told(graph), [str(finding) for finding in findings]]
        found.append(texts)
    assert found[0] == found[1]


def told(graph: Graph) -> list[str]:
    """The graph with values called by their order: what a rule makes beside its results may be numbered otherwise."""
    for index, value in enumerate(graph.values()):
        graph.rename(value, f"value{index}")
    return to_text(graph).splitlines()


def two(word: str, *attributes: dict, operands: str = "xy xy") -> list[dict]:
    """What two words of OpenVINO become that differ in their attributes or in which values they read."""
    graph = Graph()
    fact = TensorFact(DType.FLOAT32, (2, 2))
    values = {name: graph.add_input(name, fact) for name in "xy"}
    for index, (each, names) in enumerate(zip(attributes, operands.split(), strict=True)):
        made = Value(graph.fresh(f"r{index}"), fact)
        given = [values[name] for name in names]
        graph.append(Node(word, given, [made], each, dialect="openvino"))
        graph.add_output(made)
    result, _ = legalize(graph)
    return [{"inputs": [value.name for value in node.inputs], **node.attributes} for node in result]


@pytest.mark.parametrize("pair", [(0.0, -0.0), (1.0, float(np.nextafter(1, 2)))], ids=["sign of zero", "last digit"])
def test_attributes_that_are_nearly_the_same_are_two(pair):
    first, second = two("opset1.Elu", {"alpha": pair[0]}, {"alpha": pair[1]}, operands="x x")
    assert [str(each["alpha"]) for each in (first, second)] == [str(number) for number in pair]


def test_one_value_read_twice_is_not_two_values():
    first, second, third = two("opset1.Add", {}, {}, {}, operands="xy xx yx")
    assert [each["inputs"] for each in (first, second, third)] == [["x", "y"], ["x", "x"], ["y", "x"]]


def test_results_that_no_node_computes_and_names_stay_where_they_are(tmp_path):
    """A dropped layer gives what it is given; names of values and nodes are those of the file."""
    lines = ["Input x 0 1 x 0=4 1=4 2=2"]
    lines += [f"Dropout d{n} 1 1 {'x' if n == 0 else f'd{n - 1}'} d{n}" for n in range(3)]
    lines += [f"ReLU r{n} 1 1 {'d2' if n == 0 else f'r{n - 1}'} r{n}" for n in range(3)]
    (tmp_path / "m.param").write_text(f"7767517\n{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n")
    (tmp_path / "m.bin").touch()
    graph = gp.load(tmp_path / "m.param").graph
    assert [(node.op, node.name, node.output.name) for node in graph][-3:] == [
        ("Relu", f"r{n}", f"r{n}") for n in range(3)
    ]
    assert [value.name for value in graph.outputs] == ["r2"]

"""Nodes like one before get the facts, and the findings, that they get by being asked for one by one."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from graphport.conversion import legalize, legalizer
from graphport.formats.onnx import read as onnx_read
from graphport.ops.fact_cache import FactCache
from graphport.ops.infer import infer
from tests.draws import times
from tests.passes.cases import I64, F, info, model, node

SIZES = [3, "N", "M"]
ONE = {"kernel_shape": [1], "pads": [0, 0]}


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """Nodes of few kinds many times over, on open and closed shapes, of which some are claimed, and some wrongly."""
    shape = [draw(st.sampled_from(SIZES)), 4, draw(st.sampled_from(SIZES))]
    values = ["x", "z"]
    nodes: list[Any] = []
    claims: list[Any] = []
    for index in range(draw(st.integers(2, 24))):
        one, two = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        name = f"v{index}"
        kind = draw(
            st.sampled_from(["Relu", "Add", "Conv", "LeakyRelu", "Transpose", "Shape", "Split", "TopK", "NonZero"])
        )
        match kind:
            case "Add":
                nodes.append(node(kind, f"{one} {two}", name))
            case "Conv":
                nodes.append(node(kind, f"{one} w", name, **ONE))
            case "LeakyRelu":
                nodes.append(node(kind, one, name, alpha=draw(st.sampled_from([0.1, 0.2]))))
            case "Transpose":
                nodes += [node(kind, one, f"{name}t", perm=[0, 2, 1]), node(kind, f"{name}t", name, perm=[0, 2, 1])]
            case "Shape":
                nodes += [node(kind, one, f"{name}s"), node("Reshape", f"{two} {name}s", name)]
            case "Split":
                nodes += [node(kind, one, f"{name}a {name}b", axis=1, num_outputs=2)]
                nodes += [node("Concat", f"{name}b {name}a", name, axis=1)]
            case "TopK":
                nodes += [node(kind, f"{one} k", f"{name}t {name}", axis=1), node("Relu", one, f"{name}r")]
                name = f"{name}r"
            case "NonZero":
                nodes += [node(kind, one, f"{name}n"), node("Relu", one, name)]
            case _:
                nodes.append(node(kind, one, name))
        values.append(name)
        claim = draw(st.sampled_from(["none", "none", "right", "open", "other", "type"]))
        if claim != "none":
            said = {"right": shape, "open": ["A", 4, None], "other": [5, 4, 7], "type": shape}[claim]
            claims.append(info(name, said, I64 if claim == "type" else F))

    proto = model(nodes, [info("x", shape), info("z", shape)], [info(values[-1], None)], opset=18)
    proto.graph.initializer.append(helper.make_tensor("w", F, [4, 4, 1], [1.0] * 16))
    proto.graph.initializer.append(helper.make_tensor("k", I64, [1], [2]))
    proto.graph.value_info.extend(claims)
    return proto


def read(proto: onnx.ModelProto) -> list[tuple[list[str], list[str]]]:
    """Facts of all values and everything that is found: of the graph as it is written, and of the canonical one."""
    written = onnx_read(proto)
    found = infer(written)
    graph, findings = legalize.legalize(onnx_read(proto))
    return [
        ([f"{value.name}: {value.fact!r}" for value in each.values()], [str(finding) for finding in told])
        for each, told in ((written, found), (graph, findings))
    ]


@given(chains())
@settings(max_examples=times(60))
def test_facts_and_findings_are_those_of_nodes_that_are_requested_each(proto):
    found = read(proto)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FactCache, "reuse", lambda self, node: False)
        assert read(proto) == found


@pytest.mark.parametrize("ask", [infer, legalize.legalize], ids=["as it is written", "canonical"])
def test_fact_cache_answers_equal_nodes(monkeypatch, ask):
    nodes = [node("Relu", "x" if not n else f"v{n - 1}", f"v{n}") for n in range(20)]
    graph = onnx_read(model(nodes, [info("x", ["N", 3])], [info("v19", ["N", 3])], opset=18))
    asked: list[str] = []
    settle = legalizer.Inference.settle

    def counted(self: Any, each: Any, **options: Any) -> None:
        asked.append(each.op_type)
        settle(self, each, **options)

    monkeypatch.setattr(legalizer.Inference, "settle", counted)
    ask(graph)
    assert 1 <= len(asked) <= 3


def test_broadcasting_nodes_with_different_float_constants_share_facts(monkeypatch):
    nodes = [node("Add", f"{f'v{n - 1}' if n else 'x'} c{n}", f"v{n}") for n in range(20)]
    proto = model(nodes, [info("x", ["N", 3])], [info("v19", ["N", 3])], opset=18)
    proto.graph.initializer.extend(helper.make_tensor(f"c{n}", F, [3], [n, 0.5, 1.0]) for n in range(20))
    asked: list[str] = []
    settle = legalizer.Inference.settle

    def counted(self: Any, each: Any, **options: Any) -> None:
        asked.append(each.op_type)
        settle(self, each, **options)

    monkeypatch.setattr(legalizer.Inference, "settle", counted)
    infer(onnx_read(proto))
    assert 1 <= len(asked) <= 3


@pytest.mark.parametrize("starts", [[0, 0], [0, 1]], ids=["the same", "other"])
def test_numbers_that_a_rule_reads_distinguish_nodes(starts):
    proto = model(
        [node("Slice", f"x s{n} e", f"v{n}") for n in range(2)], [info("x", [4, 3])], [info("v1", None)], opset=10
    )
    for n, start in enumerate(starts):
        proto.graph.initializer.append(helper.make_tensor(f"s{n}", I64, [1], [start]))
    proto.graph.initializer.append(helper.make_tensor("e", I64, [1], [4]))
    graph = onnx_read(proto)
    infer(graph)
    assert [node.output.fact.shape for node in graph] == [(4 - start, 3) for start in starts]

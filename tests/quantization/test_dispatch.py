"""Where each node is computed: the methods, shapes and indices, overrides."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.quantization.dispatch import ComputeDomain, Method, as_text, counts, dispatch, remains
from tests.draws import spread
from tests.every import every
from tests.passes.cases import Case, graph, info, model, node, some
from tests.passes.families import cases
from tests.quantization import nets

WEIGHTS = {"w": some(4, 4, 1, 1), "v": some(4, 4, 1, 1), "axes": np.array([0]), "minus": np.array([-1])}


def network():
    """relu, conv, relu, an opaque operator, conv, sigmoid, reshape by a shape that is computed."""
    nodes = [
        node("Relu", "x", "before", name="before"),
        node("Conv", "before w", "first", name="first"),
        node("Clip", "first", "between", name="between"),
        node("Odd", "between", "odd", name="odd", domain="com.example"),
        node("Conv", "between v", "second", name="second"),
        node("Sigmoid", "second", "behind", name="behind"),
        node("Add", "odd behind", "sum", name="sum"),
        node("Shape", "x", "s", name="shape"),
        node("Gather", "s axes", "n", name="gather"),
        node("Concat", "n minus", "t", name="concat", axis=0),
        node("Reshape", "sum t", "y", name="reshape"),
    ]
    y = info("y", ["N", None])
    proto = model(nodes, [info("x", ["N", 4, 5, 6])], [y], WEIGHTS, domains={"com.example": 1})
    return gp.from_onnx(proto).graph


def places(method: Method | str, **options) -> dict[str, ComputeDomain]:
    return {each.name: decision.place for each, decision in dispatch(network(), method, **options).items()}


def quantized(method: Method | str, **options) -> list[str]:
    return [name for name, place in places(method, **options).items() if place is ComputeDomain.QUANTIZED]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param("conservative", ["first", "between", "second", "behind", "sum", "reshape"], id="conservative"),
        pytest.param("aggressive", ["first", "between", "second", "behind", "sum", "reshape"], id="aggressive"),
        pytest.param("all-in", ["before", "first", "between", "second", "behind", "sum", "reshape"], id="all in"),
        pytest.param("pointwise", ["first", "second"], id="weights alone"),
        pytest.param("between-convolutions", ["first", "between", "second"], id="between convolutions"),
        pytest.param(
            "closure", ["before", "first", "between", "second", "behind", "sum", "reshape"], id="what hangs together"
        ),
    ],
)
def test_methods_spread_from_weights(method, expected):
    assert quantized(method) == expected


def test_conservative_dispatch_stops_at_unsupported_operators():
    operators = {"Conv", "Clip", "Add", "Reshape"}
    assert quantized("conservative", operators=operators) == ["first", "between", "second"]
    assert quantized("aggressive", operators=operators) == ["first", "between", "second", "sum", "reshape"]


def test_dispatch_follows_sequence_elements():
    nodes = [
        node("MatMul", "x w", "h"),
        node("SplitToSequence", "h three", "s", axis=-1),
        node("SequenceAt", "s zero", "q"),
        node("SequenceAt", "s one", "k"),
        node("Transpose", "k", "t", perm=[0, 2, 1]),
        node("MatMul", "q t", "y"),
    ]
    constants = {"w": some(4, 6), "three": np.array(3), "zero": np.array(0), "one": np.array(1)}
    proto = model(nodes, [info("x", ["N", 5, 4])], [info("y", ["N", 5, 5])], constants)
    prepared, _ = gp.prepare(gp.from_onnx(proto))
    decisions = dispatch(prepared.graph)
    assert [each.op for each in decisions] == ["MatMul", "Split", "Transpose", "MatMul"]
    assert {decision.place for decision in decisions.values()} == {ComputeDomain.QUANTIZED}


def test_shape_and_index_nodes_are_not_quantized():
    for method in Method:
        found = places(method)
        assert [name for name, place in found.items() if place is ComputeDomain.INDEX] == ["shape", "gather", "concat"]


def test_arithmetic_that_ends_in_a_shape_is_index_arithmetic():
    nodes = [
        node("Cast", "lengths", "f", to=1),
        node("Mul", "f two", "d"),
        node("Cast", "d", "t", to=7),
        node("Reshape", "x t", "y"),
        node("TopK", "y k", "v i", axis=0),
        node("Gather", "x i", "z"),
        node("Unsqueeze", "i k0", "j"),
        node("Gather", "x j", "q"),
    ]
    constants = {"two": np.float32(2), "k": np.array([1]), "k0": np.array([0])}
    inputs = [info("x", [4, 4]), info("lengths", [1], 7)]
    proto = model(nodes, inputs, [info(n, None) for n in ("v", "z", "q")], constants)
    decisions = dispatch(gp.from_onnx(proto).graph, "all-in")
    index = [each.op for each, decision in decisions.items() if decision.place is ComputeDomain.INDEX]
    assert index == ["Cast", "Mul", "Cast", "Unsqueeze"]


def test_operators_with_weights_are_not_index_arithmetic():
    nodes = [node("MatMul", "x w", "h"), node("Cast", "h", "t", to=7), node("Gather", "x t", "y")]
    proto = model(nodes, [info("x", [4, 4])], [info("y", None)], {"w": some(4, 4), "u": np.array(0)})
    found = {each.op: d.place for each, d in dispatch(gp.from_onnx(proto).graph).items()}
    assert found == {"MatMul": ComputeDomain.QUANTIZED, "Cast": ComputeDomain.INDEX, "Gather": ComputeDomain.FLOATING}


def test_a_single_layer_is_quantized():
    proto = model([node("Conv", "x w", "y")], [info("x", [1, 4, 5, 5])], [info("y", None)], {"w": some(4, 4, 1, 1)})
    (decision,) = dispatch(gp.from_onnx(proto).graph).values()
    assert (decision.place, decision.reason) == (ComputeDomain.QUANTIZED, "it has weights")


def test_nodes_with_bodies_stay_float():
    body = graph([node("Conv", "x w", "a")], [], [info("a", None)])
    other = graph([node("Neg", "x", "b")], [], [info("b", None)])
    nodes = [node("If", "c", "y", then_branch=body, else_branch=other, name="choice")]
    proto = model(nodes, [info("x", [1, 4, 5, 5]), info("c", [], 9)], [info("y", None)], {"w": some(4, 4, 1, 1)})
    graph_ = gp.from_onnx(proto).graph
    for method in Method:
        assert {each.op: d.reason for each, d in dispatch(graph_, method).items()} == {
            "If": "it has subgraphs",
            "Conv": "it is in the subgraph then_branch of If choice, whose values are not observed",
            "Neg": "it is in the subgraph else_branch of If choice, whose values are not observed",
        }


@pytest.mark.parametrize(
    ("method", "sigmoid", "before"),
    [
        pytest.param(
            "conservative",
            "it depends on an operator with weights",
            "no operator with weights precedes it",
            id="conservative",
        ),
        pytest.param("pointwise", "it has no weights", "it has no weights", id="weights alone"),
        pytest.param(
            "between-convolutions",
            "it is not between two convolutions",
            "it is not between two convolutions",
            id="between convolutions",
        ),
        pytest.param("all-in", "the operator is quantizable", "the operator is quantizable", id="all in"),
        pytest.param(
            "closure",
            "it is connected to an operator with weights",
            "it is connected to an operator with weights",
            id="what hangs together",
        ),
    ],
)
def test_the_reason_is_that_of_the_method(method, sigmoid, before):
    reasons = {each.name: decision.reason for each, decision in dispatch(network(), method).items()}
    assert (reasons["behind"], reasons["before"]) == (sigmoid, before)


def test_overrides_win_and_state_so():
    decisions = dispatch(network(), floating=["first", "behind"], quantized=["before"])
    found = {each.name: str(d.reason) for each, d in decisions.items() if "the settings" in d.reason}
    assert found == {
        "before": "the settings request it",
        "first": "the settings keep it",
        "behind": "the settings keep it",
    }


def test_overrides_name_nodes_or_their_results_and_no_shapes():
    assert places("all-in", floating=["odd"])["odd"] is ComputeDomain.FLOATING
    with pytest.raises(DiagnosticError) as caught:
        dispatch(network(), floating=["nobody"], quantized=["gather"])
    assert [finding.code for finding in caught.value.diagnostics] == ["QUANT0101", "QUANT0102"]


@pytest.mark.parametrize(("name", "meant"), [("pursus", None), ("perseus", "closure"), ("agressive", "aggressive")])
def test_unknown_dispatch_method_suggests_an_equivalent(name, meant):
    with pytest.raises(DiagnosticError) as caught:
        dispatch(network(), name)
    (finding,) = caught.value.diagnostics
    assert finding.code == "QUANT0103"
    assert repr(name) in finding.message
    assert "conservative" in (finding.help or "")
    assert meant is None or f"did you mean {meant!r}?" in (finding.help or "")


def test_decisions_are_counted_printed_and_the_same_every_time():
    decisions = dispatch(network())
    assert counts(decisions) == {ComputeDomain.QUANTIZED: 6, ComputeDomain.FLOATING: 2, ComputeDomain.INDEX: 3}
    assert remains(decisions) == [
        ("Relu", "no operator with weights precedes it", 1),
        ("com.example.Odd", "the operator is unknown", 1),
    ]
    lines = as_text(decisions).splitlines()
    assert lines[1].split() == ["Conv", "first", "quantized", "it", "has", "weights"]
    assert lines == as_text(dispatch(network())).splitlines()


@every("case", spread(cases(), start=3), ids=lambda case: case.name)
def test_dispatch_decides_every_node_and_quantizes_only_floats(case: Case):
    prepared, report = gp.prepare(gp.from_onnx(case.model), verify=False)
    for method in Method:
        decisions = dispatch(prepared.graph, method)
        assert len(decisions) == report.nodes_after
        for each, decision in decisions.items():
            assert decision.reason
            if decision.place is ComputeDomain.QUANTIZED:
                assert any(str(getattr(value.fact, "dtype", "float")).find("float") >= 0 for value in each.results)


def test_float_nodes_are_reported_with_the_dispatch_rule():
    found = nets.products()
    with pytest.raises(
        gp.DiagnosticError, match=r"QUANT0007.*the dispatch method keeps it float: it is not between two conv"
    ):
        gp.quantize(found, nets.samples(found, 16), dispatch="between-convolutions")

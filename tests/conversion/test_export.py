"""Export of canonical graphs to a dialect: all unsupported operators are reported, names kept, no node is unused."""

from __future__ import annotations

import numpy as np
import pytest

from graphport.backends import reference
from graphport.conversion.export import Remedies, export_graph, unsupported
from graphport.conversion.legalize import legalize
from graphport.core.diagnostics import DiagnosticError
from graphport.formats.onnx import from_proto
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from graphport.ops.declare import EXPORT_RULES, Rule, UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, Div
from tests.models import model, node, perceptron


@pytest.fixture
def say(monkeypatch):
    """Return a function that registers an export rule of a fictional dialect."""

    def rule(name, function):
        monkeypatch.setitem(EXPORT_RULES, ("madeup", name), [Rule("madeup", name, function)])

    return rule


def graph_of(nodes, outputs, inputs=(("x", [2, 3]),), constants=None):
    return legalize(from_proto(model(nodes, inputs, outputs, constants)))[0]


def test_all_unsupported_operators_are_reported_together_with_counts():
    nodes = [node("Hardmax", ["x"], ["a"]), node("Hardmax", ["a"], ["b"]), node("Relu", ["b"], ["c"])]
    nodes += [node("NonZero", ["c"], ["d"]), node("Foo", ["c"], ["e"], domain="com.example")]
    proto = model(nodes, [("x", [2, 3])], [("e", [2, 3])], domains={"com.example": 1})
    proto.graph.output.append(model([], [], [("d", None)]).graph.output[0])
    graph, _ = legalize(from_proto(proto))
    _, findings = export_graph(graph, "madeup")
    assert unsupported(graph, "madeup") == {"Hardmax": 2, "Relu": 1, "NonZero": 1, "com.example.Foo": 1}
    assert [finding.code for finding in findings] == ["LEG0002"] * 4
    assert findings[0].message.startswith("madeup: unsupported operator Hardmax (2)")
    assert "graph.node[0]" in str(findings[0].span)
    assert findings[3].message.endswith("it belongs to the dialect com.example")


def test_the_argument_is_not_changed():
    graph, _ = legalize(from_proto(perceptron(1)))
    before = to_text(graph)
    export_graph(graph, "nnef")
    unsupported(graph, "nnef")
    assert to_text(graph) == before


def test_nodes_without_path_to_outputs_are_not_exported():
    graph = graph_of([node("Relu", ["x"], ["y"]), node("NonZero", ["x"], ["unread"])], [("y", [2, 3])])
    exported, findings = export_graph(graph, "nnef")
    assert findings == []
    assert [said.op for said in exported] == ["nnef.relu"]
    assert unsupported(graph, "nnef") == {}


def test_public_names_stay():
    graph = graph_of([node("Relu", ["x"], ["y"]), node("Sigmoid", ["y"], ["z"])], [("z", [2, 3]), ("y", [2, 3])])
    exported, _ = export_graph(graph, "nnef")
    verify(exported)
    assert [value.name for value in exported.inputs] == ["x"]
    assert [value.name for value in exported.outputs] == ["z", "y"]


def test_an_output_that_is_stated_by_its_operand_keeps_its_name(say):
    say("Relu", lambda b, x: (x,))
    say("Identity", lambda b, input: b.emit("copy", input))
    graph = graph_of([node("Relu", ["x"], ["y"])], [("y", [2, 3])])
    exported, findings = export_graph(graph, "madeup")
    verify(exported)
    assert findings == []
    assert [said.op for said in exported] == ["madeup.copy"]
    assert [value.name for value in exported.outputs] == ["y"]


def test_export_rule_may_replace_result_by_its_operand(say):
    say("Relu", lambda b, x: (x,))
    say("Sigmoid", lambda b, x: b.emit("sigmoid", x))
    graph = graph_of([node("Relu", ["x"], ["h"]), node("Sigmoid", ["h"], ["y"])], [("y", [2, 3])])
    exported, _ = export_graph(graph, "madeup")
    verify(exported)
    assert [str(said) for said in exported] == ["%y = madeup.sigmoid(%x)"]


def test_failed_export_rule_leaves_no_nodes(say):
    def try_it(b, x):
        b.emit("tried", x)

    say("Relu", try_it)
    graph = graph_of([node("Relu", ["x"], ["y"])], [("y", [2, 3])])
    exported, findings = export_graph(graph, "madeup")
    assert [said.op for said in exported] == ["Relu"]
    assert len(findings) == 1


def test_export_and_legalizing_preserves_the_semantics():
    graph, _ = legalize(from_proto(perceptron(2)))
    exported, findings = export_graph(graph, "nnef")
    assert findings == []
    assert {said.dialect for said in exported} == {"nnef"}
    again, findings = legalize(exported)
    assert findings == []
    verify(again)
    x = np.random.default_rng(3).normal(size=(2, 4)).astype(np.float32)
    expected = reference.prepare(graph).run({"x": x})["y"]
    np.testing.assert_allclose(reference.prepare(again).run({"x": x})["y"], expected, rtol=1e-6)


def test_export_rule_may_emit_canonical_operators(say):
    say("Softsign", lambda b, x: (b(Div, x, b(Add, b(Abs, x), b.like(x, 1.0))),))
    for name in ("Div", "Add", "Abs"):
        say(name, lambda b, *operands, name=name: b.emit(name.lower(), *operands, facts=[operands[0].fact]))
    graph = graph_of([node("Softsign", ["x"], ["y"]), node("Softsign", ["y"], ["z"])], [("z", [2, 3])])
    exported, findings = export_graph(graph, "madeup")
    assert findings == []
    assert [said.op for said in exported] == [f"madeup.{op_type}" for op_type in ("abs", "add", "div")] * 2
    assert [value.name for value in exported.outputs] == ["z"]
    verify(exported)


def test_unsupported_part_of_a_lowering_is_reported_for_the_whole_operator(say):
    say("Softsign", lambda b, x: (b(Div, b(Abs, x), b(Abs, x)),))
    say("Div", lambda b, left, right: b.emit("div", left, right, facts=[left.fact]))
    graph = graph_of([node("Softsign", ["x"], ["y"]), node("Softsign", ["y"], ["z"])], [("z", [2, 3])])
    _, findings = export_graph(graph, "madeup")
    message = "madeup: unsupported operator Softsign (2): its lowering contains Abs: no export rule exists"
    assert [finding.message for finding in findings] == [message]
    assert unsupported(graph, "madeup") == {"Softsign": 2}


@pytest.mark.parametrize("ending", ["caffe", "ncnn", "nnef", "openvino", "pnnx", "tflite"])
def test_symbolic_dim_too_long_to_write_is_unsupported_not_a_bug(ending, monkeypatch):
    monkeypatch.setenv("GRAPHPORT_DEBUG", "1")
    wide = "+".join(f"a{number}" for number in range(200))
    proto = model(
        [node("Concat", ["x", "x"], ["k"], axis=0), node("Flatten", ["k"], ["y"])],
        [("x", [wide, "n", 3])],
        [("y", None)],
    )
    _, findings = export_graph(legalize(from_proto(proto))[0], ending)
    assert {finding.code for finding in findings} <= {"LEG0002"}


def test_node_name_is_kept_by_the_first_result_only():
    """For an operator whose results are exported as separate nodes."""
    operator = node("LayerNormalization", ["x", "g"], ["y", "m", "i"], name="norm")
    graph = graph_of([operator], [("y", None), ("m", None), ("i", None)], constants={"g": np.ones(3, np.float32)})
    for dialect in ("openvino", "nnef"):
        exported, _ = export_graph(graph, dialect)
        verify(exported)
        named = {each.name for each in exported if each.name == "norm"}
        assert len([each for each in exported if each.name == "norm"]) == 1 == len(named)
        assert exported.outputs[0].producer.name == "norm"
        assert [value.name for value in exported.outputs] == ["y", "m", "i"]


def test_unsupported_shape_is_reported_only_with_a_supported_consumer():
    """A Shape with only unsupported consumers is not reported separately."""
    nodes = [node("Shape", ["x"], ["s"]), node("Neg", ["s"], ["n"]), node("Expand", ["x", "n"], ["y"])]
    graph = graph_of(nodes, [("y", None)])
    assert unsupported(graph, "madeup") == {"Expand": 1}
    graph.add_output(graph.first_node.output)
    assert unsupported(graph, "madeup") == {"Shape": 1, "Expand": 1}
    graph = graph_of([*nodes, node("Cast", ["s"], ["z"], to=1)], [("y", None), ("z", None)])
    assert unsupported(graph, "madeup") == {"Expand": 1, "Cast": 1}


def test_export_rule_result_is_cached_unless_it_reads_neighbours(say):
    for looks, is_canonical in ((False, False), (True, False), (False, True)):
        asked = []

        def relu(b, x, looks=looks, is_canonical=is_canonical, asked=asked):
            asked.append(b)
            b.looks_around = looks
            return (b(Abs, x),) if is_canonical else b.emit("relu", x)

        say("Relu", relu)
        say("Abs", lambda b, x: b.emit("abs", x))
        names = [f"y{place}" for place in range(4)]
        graph = graph_of([node("Relu", ["x"], [name]) for name in names], [(name, [2, 3]) for name in names])
        exported, findings = export_graph(graph, "madeup")
        verify(exported)
        assert (findings, [value.name for value in exported.outputs]) == ([], names)
        assert [each.op_type for each in exported] == ["abs" if is_canonical else "relu"] * 4
        assert len(asked) == (4 if looks or is_canonical else 1), (looks, is_canonical)


def refusing(say, *names, **told):
    def refuse(b, *operands, **attributes):
        raise UnsupportedError("it is late", **told)

    for name in names:
        say(name, refuse)


MANY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Ceil", "Floor", "Exp")


@pytest.mark.parametrize("count", [1, 6, 7, 8])
def test_operators_with_equal_cause_share_one_finding(say, count):
    refusing(say, *MANY, cause="nothing is said at night", help="wait for the day")
    nodes = [node("Tanh" if count > 2 else "Relu", ["x"], ["again"])]
    nodes += [node(name, ["x"], [f"y{place}"]) for place, name in enumerate(MANY[:count])]
    outputs = [("again", [2, 3]), *((f"y{place}", [2, 3]) for place in range(count))]
    _, findings = export_graph(graph_of(nodes, outputs), "madeup")
    (finding,) = findings
    counts = sorted(((name, 1 + (name == nodes[0].op_type)) for name in MANY[:count]), key=lambda each: -each[1])
    listed = ", ".join(f"{name} ({number})" for name, number in counts[:6])
    more = f" and {count - 6} more" if count > 6 else ""
    what = "unsupported operator" if count == 1 else "unsupported operators"
    assert finding.message == f"madeup: {what} {listed}{more}: nothing is said at night"
    assert (finding.code, finding.help) == ("LEG0002", "wait for the day")
    assert "graph.node[0]" in str(finding.span)


def test_findings_with_a_cause_precede_findings_without(say):
    refusing(say, "Relu", cause="one")
    refusing(say, "Abs", cause="two")
    refusing(say, "Neg")
    nodes = [node(name, ["x"], [f"y{place}"]) for place, name in enumerate(("Neg", "Abs", "Relu", "Neg", "Abs"))]
    _, findings = export_graph(graph_of(nodes, [(f"y{place}", [2, 3]) for place in range(5)]), "madeup")
    assert [finding.message for finding in findings] == [
        "madeup: unsupported operator Abs (2): two",
        "madeup: unsupported operator Relu (1): one",
        "madeup: unsupported operator Neg (2): it is late",
    ]
    assert ["graph.node[1]" in str(findings[0].span), "graph.node[0]" in str(findings[2].span)] == [True, True]


def test_secondary_reason_is_reported_only_without_a_primary_reason(say):
    refusing(say, "Relu", is_secondary=True)
    refusing(say, "Abs")
    nodes = [node("Relu", ["x"], ["h"]), node("Abs", ["h"], ["y"])]
    _, findings = export_graph(graph_of(nodes, [("y", [2, 3])]), "madeup")
    assert [finding.message for finding in findings] == ["madeup: unsupported operator Abs (1): it is late"]
    _, findings = export_graph(graph_of(nodes[:1], [("h", [2, 3])]), "madeup")
    assert [finding.message for finding in findings] == ["madeup: unsupported operator Relu (1): it is late"]


def test_remedy_cuts_at_computed_operands_of_the_unsupported_node(say):
    say("Relu", lambda b, x: b.emit("relu", x, facts=[x.fact]))
    nodes = [node("Relu", ["x"], [f"h{place}"]) for place in range(8)]
    nodes += [node("Sum", ["x", "w", *(f"h{place}" for place in range(8)), "h0"], ["y"]), node("Hardmax", ["x"], ["z"])]
    graph = graph_of(nodes, [("y", [2, 3]), ("z", [2, 3])], constants={"w": np.ones((2, 3), np.float32)})
    helps = {finding.message.split()[3]: finding.help for finding in export_graph(graph, "madeup")[1]}
    cut = "choose another format, or export the part before it: graphport cut MODEL PART --to h0,h1,h2,h3,h4,h5"
    assert helps == {"Sum": cut, "Hardmax": "choose another format"}


def test_reasons_that_differ_only_in_value_names_share_one_finding(say):
    def refuse(b, x):
        message = f"{x.name} is {x.fact}, which is too little"
        raise UnsupportedError(message)

    say("Relu", refuse)
    nodes = [node("Relu", [f"x{i}" if i else "x"], [f"x{i + 1}"]) for i in range(5)]
    _, findings = export_graph(graph_of(nodes, [("x5", [2, 3])]), "madeup")
    assert [finding.message for finding in findings] == [
        "madeup: unsupported operator Relu (5): x is float32[2, 3], which is too little"
    ]


@pytest.mark.parametrize(("most", "fits"), [(7, False), (8, True)])
def test_a_model_does_not_grow_without_bounds(say, monkeypatch, most, fits):
    monkeypatch.setenv("GRAPHPORT_LIMITS", f"write.nodes={most}")

    def three(b, x):
        for op_type in "abc":
            (x,) = b.emit(op_type, x)
        return (x,)

    say("Relu", three)
    nodes = [node("Relu", [f"x{i}" if i else "x"], [f"x{i + 1}"]) for i in range(4)]
    graph = graph_of(nodes, [("x4", [2, 3])])
    if fits:
        assert len(export_graph(graph, "madeup")[0]) == 12
        return
    with pytest.raises(DiagnosticError, match="add more than 7 nodes") as caught:
        export_graph(graph, "madeup")
    assert [each.code for each in caught.value.diagnostics] == ["LEG0008"]


def test_no_cut_is_proposed_at_unknown_values_or_after_unsupported_nodes(say):
    nodes = [node("Relu", ["x"], ["h"]), node("Abs", ["h"], ["y"])]
    graph = graph_of(nodes, [("y", [2, 3])])
    assert {finding.help for finding in export_graph(graph, "madeup")[1]} == {"choose another format"}
    say("Relu", lambda b, x: b.emit("relu", x, facts=[x.fact]))
    assert [finding.help for finding in export_graph(graph, "madeup")[1]] == [
        "choose another format, or export the part before it: graphport cut MODEL PART --to h"
    ]
    unknown = Remedies(names=frozenset())
    assert [finding.help for finding in export_graph(graph, "madeup", remedies=unknown)[1]] == ["choose another format"]

from __future__ import annotations

import pytest

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source
from graphport.formats.nnef.container.check import check
from graphport.formats.nnef.container.expand import expand
from graphport.formats.nnef.container.parser import parse
from graphport.formats.nnef.container.propagation import Propagation


def expansion_of(*statements: str, outputs: str = "y"):
    body = " ".join(f"{statement};" for statement in statements)
    text = f"version 1.0; graph net(x) -> ({outputs}) {{ x = external(shape = [2, 3, 8, 8]); {body} }}"
    checked = check(parse(Source("net", text)).document)
    assert checked.diagnostics == []
    return expand(checked, infer=Propagation())


def shown(*statements: str, outputs: str = "y") -> dict[str, str]:
    expansion = expansion_of(*statements, outputs=outputs)
    assert expansion.diagnostics == []
    return {name: str(tensor.fact) for name, tensor in expansion.tensors.items()}


def test_facts_go_along_with_the_operations():
    assert shown("h = relu(x)", "y = concat([h, x], axis = 1)") == {
        "x": "float32[2, 3, 8, 8]",
        "h": "float32[2, 3, 8, 8]",
        "y": "float32[2, 6, 8, 8]",
    }


def test_each_result_has_its_own():
    assert shown("[a, b] = split(x, axis = 1, ratios = [1, 2])", outputs="a, b")["b"] == "float32[2, 2, 8, 8]"


def test_constants_and_variables_are_what_they_are_declared():
    facts = shown(
        "c = constant<integer>(shape = [2], value = [1])", "v = variable(shape = [3, 1], label = 'v')", "y = copy(v)"
    )
    assert (facts["c"], facts["v"], facts["y"]) == ("int64[2]", "float32[3, 1]", "float32[3, 1]")


def test_operations_that_do_not_fit_are_findings():
    expansion = expansion_of("y = transpose(x, axes = [0, 0])")
    assert any(finding.is_error for finding in expansion.diagnostics)


def test_a_finding_of_a_rule_is_raised(monkeypatch):
    def node(inference, _node):
        inference.findings.append(Diagnostic("SHAPE0001", "no"))
        return (None,)

    monkeypatch.setattr("graphport.ops.infer.Inference.node", node)
    propagation = Propagation()
    external, relu = expansion_of_nothing()
    propagation(external)
    with pytest.raises(DiagnosticError, match="SHAPE0001"):
        propagation(relu)


def expansion_of_nothing():
    text = "version 1.0; graph net(x) -> (y) { x = external(shape = [2]); y = relu(x); }"
    return expand(check(parse(Source("net", text)).document)).operations

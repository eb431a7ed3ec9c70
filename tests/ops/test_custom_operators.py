"""Operators that a user declares: they infer, run, are written as they are, and are verified."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.core.diagnostics import DiagnosticError
from graphport.core.facts import TensorFact
from graphport.ops.declare import MEANINGS, OWN
from tests.models import model, node, write_onnx

DOMAIN = "my.domain"


@pytest.fixture(autouse=True)
def declared():
    """Two operators, forgotten again after each test."""

    @gp.operator(DOMAIN)
    def Swish(x, *, alpha: float = 1.0):
        return (x / (1 + np.exp(-alpha * x))).astype(x.dtype)

    def pooled(x: TensorFact, *, size: int) -> TensorFact:
        *front, last = x.dims
        return x.with_shape([*front, last // size])

    @gp.operator(DOMAIN, name="Pool1", shape=pooled)
    def pool(x, *, size: int):
        return x.reshape(*x.shape[:-1], -1, size).mean(-1, dtype=x.dtype)

    assert callable(Swish)
    assert callable(pool)
    yield
    for registry in (OWN, MEANINGS):
        for key in [key for key in registry if key[0] == DOMAIN]:
            del registry[key]


def net() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Swish", ["h"], ["s"], domain=DOMAIN, alpha=2.0, name="swish"),
        node("Pool1", ["s"], ["p"], domain=DOMAIN, size=2, name="pool"),
        node("Relu", ["p"], ["y"]),
    ]
    weight = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    return model(nodes, [("x", ["N", 4])], [("y", None)], {"w": weight}, domains={DOMAIN: 1})


def test_shapes_are_inferred_after_it():
    found = gp.from_onnx(net())
    assert {name: str(fact) for name, fact in found.shapes().items() if name in ("s", "p", "y")} == {
        "s": "float32[N, 6]",
        "p": "float32[N, 3]",
        "y": "float32[N, 3]",
    }
    assert not found.findings


def test_it_runs():
    found = gp.from_onnx(net())
    x = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    h = x @ onnx.numpy_helper.to_array(net().graph.initializer[0])
    s = h / (1 + np.exp(-2 * h))
    np.testing.assert_allclose(gp.run(found, {"x": x})["y"], np.maximum(s.reshape(2, 3, 2).mean(-1), 0), rtol=1e-5)


def test_custom_operator_is_copied_and_the_proof_is_not_independent(tmp_path):
    source = write_onnx(tmp_path / "net.onnx", net())
    report = gp.convert(source, tmp_path / "copy.onnx")
    assert [each.op_type for each in onnx.load(tmp_path / "copy.onnx").graph.node][1:3] == ["Swish", "Pool1"]
    assert report.proof is not None
    assert report.passed
    assert not report.proof.is_independent
    assert "no other program computed net.onnx or copy.onnx" in str(report.proof)


def test_a_changed_weight_is_seen_by_the_verification(tmp_path):
    source = gp.from_onnx(net())
    other = gp.edit(source, weights={"w": np.ones((4, 6), np.float32)})
    assert not gp.compare(source, other).passed
    found = gp.find_difference(source, other)
    assert found is not None
    assert found.operator == "MatMul"


def test_other_formats_have_no_op_type_for_it(tmp_path):
    source = write_onnx(tmp_path / "net.onnx", net())
    report = gp.convert(source, tmp_path / "net.xml")
    assert set(report.unsupported) == {f"{DOMAIN}.Swish", f"{DOMAIN}.Pool1"}


def test_an_attribute_that_it_does_not_have_is_a_finding():
    proto = net()
    proto.graph.node[1].attribute.append(onnx.helper.make_attribute("beta", 1.0))
    with pytest.raises(DiagnosticError, match="beta"):
        gp.from_onnx(proto)


def test_a_meaning_that_fails_is_reported_with_its_node():
    @gp.operator(DOMAIN)
    def Swish(x, *, alpha: float = 1.0):
        message = "not today"
        raise TypeError(message)

    assert Swish
    with pytest.raises(DiagnosticError, match=r"swish.*not today"):
        gp.run(gp.from_onnx(net()), {"x": np.ones((2, 4), np.float32)})


def test_undeclared_custom_operator_is_an_error(tmp_path):
    OWN.clear()
    for key in [key for key in MEANINGS if key[0] == DOMAIN]:
        del MEANINGS[key]
    source = write_onnx(tmp_path / "net.onnx", net())
    assert CliRunner().invoke(cli, ["run", str(source)]).exit_code == 1


def test_declaring_operators_in_the_onnx_domain_raises():
    with pytest.raises(ValueError, match="has its operators already"):
        gp.operator("ai.onnx")

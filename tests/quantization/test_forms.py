"""Integers said by operators, and activations that are rounded while a model runs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from tests.models import model, node
from tests.quantization import nets


def _run(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def _operators(path):
    return Counter(node.op_type for node in gp.load(path, raw=True).graph)


@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
def test_qdq_and_qoperator_forms_are_equivalent(name, tmp_path):
    found = getattr(nets, name)()
    x = nets.samples(found, 64)
    for form in ("qdq", "qoperator"):
        made = gp.quantize(found, x, preset="fast", real_results=False, form=form)
        gp.save(made, tmp_path / f"{form}.onnx")
    same = nets.snr(_run(tmp_path / "qdq.onnx", x), _run(tmp_path / "qoperator.onnx", x))
    assert same > 40
    kinds = _operators(tmp_path / "qoperator.onnx")
    if name == "residual":
        assert kinds["QLinearConv"] == 2
        assert kinds["QLinearAdd"] == kinds["QLinearGlobalAveragePool"] == 1
        assert not kinds["Conv"] + kinds["Relu"]
    if name == "depthwise":
        assert kinds["QLinearConv"] >= 2


def test_qoperator_form_keeps_results_with_float_consumers(tmp_path):
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found, 64), preset="fast", real_results=True, form="qoperator")
    gp.save(made, tmp_path / "a.onnx")
    assert _operators(tmp_path / "a.onnx")["QLinearAdd"] == 0
    assert nets.snr(gp.run(found, nets.samples(found, 8))["y"], _run(tmp_path / "a.onnx", nets.samples(found, 8))) > 20


@pytest.mark.parametrize("name", ["products", "residual"])
def test_products_are_rounded_while_they_run(name, tmp_path):
    found = getattr(nets, name)()
    path = tmp_path / "a.onnx"
    made = gp.quantize(found, dynamic=True)
    gp.save(made, path)
    products = sum(node.op in ("MatMul", "Gemm") for node in gp.prepare(found, verify=False)[0].graph)
    kinds = _operators(path)
    assert 0 < kinds["MatMulInteger"] <= products
    x = nets.samples(found, 16)
    snr = nets.snr(gp.run(found, x)["y"], _run(path, x))
    assert snr > 25
    assert made.report.snr_db == pytest.approx(snr, abs=8)


def test_shared_operand_is_quantized_once(tmp_path):
    r = np.random.default_rng(0)
    weights = {f"w{k}": r.normal(size=(8, 4)).astype(np.float32) for k in range(3)}
    nodes = [node("MatMul", ["x", f"w{k}"], [f"h{k}"], name=f"p{k}") for k in range(3)]
    nodes += [node("Concat", ["h0", "h1", "h2"], ["y"], axis=-1)]
    found = gp.from_onnx(model(nodes, [("x", ["N", 8])], [("y", ["N", 12])], weights))
    gp.save(gp.quantize(found, dynamic=True), tmp_path / "a.onnx")
    kinds = _operators(tmp_path / "a.onnx")
    assert (kinds["DynamicQuantizeLinear"], kinds["MatMulInteger"]) == (1, 3)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"dynamic": True, "target": "openvino"}, id="a target without such kernels"),
        pytest.param({"dynamic": True, "weight_bits": 4}, id="weights of few bits"),
        pytest.param({"form": "qoperator", "target": "openvino"}, id="a target that reads roundings"),
    ],
)
def test_operators_that_the_target_lacks_are_refused(changes):
    found = nets.products()
    with pytest.raises(gp.DiagnosticError, match="QUANT0004"):
        gp.quantize(found, nets.samples(found, 8), **changes)


def test_opset_option_sets_the_opset(tmp_path):
    found = nets.residual()
    gp.save(found, tmp_path / "a.onnx")
    np.savez(tmp_path / "x.npz", **nets.samples(found, 16))
    said = [
        "quantize",
        "a.onnx",
        "b.onnx",
        "--calibration",
        "x.npz",
        "--preset",
        "fast",
        "--no-latency",
        "--opset",
        "19",
    ]
    said = [str(tmp_path / each) if "." in each else each for each in said]
    result = CliRunner().invoke(cli, said)
    assert result.exit_code == 0, result.output
    assert [each.version for each in onnx.load(tmp_path / "b.onnx").opset_import if not each.domain] == [19]

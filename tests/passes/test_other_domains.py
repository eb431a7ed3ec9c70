"""Operators of other domains of ONNX stay where a model is only rewritten, in Python as on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.core.storage import storage_of

if TYPE_CHECKING:
    from pathlib import Path

OWN = {"com.microsoft.FusedMatMul", "com.microsoft.BiasGelu"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (("w", (4, 5)), ("b", (5,)))
    ]
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["a"], domain="com.microsoft", alpha=0.5),
        helper.make_node("BiasGelu", ["a", "b"], ["c"], domain="com.microsoft"),
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["N", 4]), ("y", ["N", 5])))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(helper.make_graph(nodes, "net", [x], [y], weights), opset_imports=opsets, ir_version=8)
    onnx.save(proto, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def operators(path: Path) -> set[str]:
    return {f"{node.domain}.{node.op_type}" for node in onnx.load(path).graph.node if node.domain}


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("verb", [gp.simplify, gp.prepare])
def test_they_stay(file, verb, raw):
    model = gp.load(file, raw=raw)
    found, report = verb(model)
    assert report.passed
    gp.save(found, file.with_name("out.onnx"))
    assert operators(file.with_name("out.onnx")) == OWN
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(gp.run(found, {"x": x})["y"], gp.run(gp.load(file), {"x": x})["y"], rtol=1e-6)
    gp.save(found, file.with_name("out.xml"))


def test_rewrite_uses_the_edited_graph(file):
    model = gp.load(file)
    weight = next(value for value in model.graph.constants if value.name == "w")
    assert weight.storage is not None
    weight.storage = storage_of(weight.storage.numpy() * 2)
    x = np.ones((2, 4), np.float32)
    wanted = gp.run(model, {"x": x})["y"]
    found, _ = gp.simplify(model)
    np.testing.assert_allclose(gp.run(found, {"x": x})["y"], wanted, rtol=1e-6)


def test_quantizing_states_them_in_canonical_operators(file):
    samples = {"x": np.random.default_rng(1).normal(size=(16, 4)).astype(np.float32)}
    found = gp.quantize(gp.load(file), samples, preset="fast")
    assert not {node.dialect for node in found.graph} - {""}

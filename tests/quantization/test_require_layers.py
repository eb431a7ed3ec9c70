"""Models of which nothing can be computed on integers get the remedy for their reason."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import graphport as gp
from tests.models import model, node, typed
from tests.quantization import nets

W = np.random.default_rng(0).normal(size=(4, 4, 1, 1))


def _said(found, data, **changes):
    with pytest.raises(gp.DiagnosticError) as error:
        gp.quantize(found, data, preset="fast", **changes)
    (finding,) = error.value.diagnostics
    assert finding.code == "QUANT0007"
    return finding.message, finding.help


def test_weights_in_float64_are_to_be_converted():
    dtype = np.float64
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shape = ["N", 4, 3, 3]
    found = gp.from_onnx(
        model(
            [node("Conv", ["x", "w"], ["y"])],
            [typed("x", shape, kind)],
            [typed("y", shape, kind)],
            {"w": W.astype(dtype)},
        )
    )
    message, remedy = _said(found, {"x": np.random.default_rng(1).normal(size=(9, 4, 3, 3)).astype(dtype)})
    assert "its weight is not a float32 constant" in message
    assert remedy == "cast the model from float64 to float32 (graphport cast --to float32), then quantize it"


def test_layers_in_bodies_are_counted():
    then = onnx.helper.make_graph([node("Conv", ["a", "w"], ["t"])], "then", [], [typed("t", None)])
    other = onnx.helper.make_graph([node("Conv", ["a", "v"], ["e"])], "else", [], [typed("e", None)])
    nodes = [node("Relu", ["x"], ["a"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    inputs = [("x", ["N", 4, 3, 3]), typed("c", [], TensorProto.BOOL)]
    constants = {"w": W.astype(np.float32), "v": -W.astype(np.float32)}
    found = gp.from_onnx(model(nodes, inputs, [("y", ["N", 4, 3, 3])], constants))
    items = [{"x": np.full((1, 4, 3, 3), i, np.float32), "c": np.asarray(i % 2 == 0)} for i in range(9)]
    message, remedy = _said(found, items)
    assert "2 layers are in subgraphs of If, Loop or Scan, which remain in float" in message
    assert "export the model without" in remedy


def test_float_nodes_setting_is_the_reported_reason():
    found = nets.residual()
    message, remedy = _said(found, nets.samples(found), float_nodes=("first", "second", "head"))
    assert "the settings keep it in float" in message
    assert "keep fewer nodes in float" in remedy


def test_model_without_layers_suggests_the_float_model():
    found = gp.from_onnx(model([node("Relu", ["x"], ["y"])], [("x", ["N", 4])], [("y", ["N", 4])]))
    assert _said(found, nets.samples(found))[1] == "use the float model: integers have no benefit here"

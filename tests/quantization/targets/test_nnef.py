"""NNEF: the file of quantizations says everything that was quantized, and a reader computes the same."""

from __future__ import annotations

import re

import nnef
import numpy as np
import pytest

import graphport as gp
from tests.draws import spread
from tests.every import every
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.targets.pieces import OPERATORS


def _fixed(found):
    """The same with a batch of one: the extents of NNEF are numbers."""
    proto = gp.to_onnx(found)
    for value in proto.graph.input:
        value.type.tensor_type.shape.dim[0].dim_value = 1
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    return gp.from_onnx(proto)


def _written(found, place, **settings):
    made = gp.quantize(found, nets.samples(found, 1), "nnef", preset="fast", equalize=False, **settings)
    gp.save(made, place / "model", format="nnef")
    return made, gp.load(place / "model")


@every("name", spread(list(OPERATORS)))
def test_reloaded_model_matches_the_simulation(name, tmp_path):
    found = _fixed(OPERATORS[name]())
    made, again = _written(found, tmp_path)
    inputs = nets.samples(found, 1, seed=4)
    (expected,) = gp.run(made, inputs, backend="reference").values()
    (given,) = gp.run(again, inputs, backend="reference").values()
    step = float(np.ptp(expected)) / 255
    off = np.abs(expected - given) / step
    assert off.max() < 1.5
    assert np.mean(off > 0.5) <= 1e-3


@pytest.mark.parametrize("name", ["Conv", "Conv, depthwise", "Gemm", "MatMul", "ConvTranspose", "products", "residual"])
def test_every_weight_and_every_rounded_value_is_in_the_file(name, tmp_path):
    found = _fixed(getattr(nets, name)() if hasattr(nets, name) else OPERATORS[name]())
    made, _ = _written(found, tmp_path)
    said = (tmp_path / "model" / "graph.quant").read_text()
    named = set(re.findall(r'^"([^"]+)": zero_point_linear_quantize', said, re.MULTILINE))
    weights = [n for n in made.graph if n.op == "DequantizeLinear" and n.operands[0].is_constant]
    points = [n for n in made.graph if n.op == "QuantizeLinear"]
    assert weights
    assert points
    assert len(named) == len(weights) + len(points)
    text = (tmp_path / "model" / "graph.nnef").read_text()
    assert all(re.search(rf"\b{re.escape(op_type)}\b", text) for op_type in named)


@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
def test_the_parser_of_nnef_reads_the_same_grids(name, tmp_path):
    made, again = _written(_fixed(getattr(nets, name)()), tmp_path)
    read = [tensor.quantization for tensor in nnef.load_graph(str(tmp_path / "model")).tensors.values()]
    theirs = sorted(_grid(said["scale"], said["zero_point"]) for said in read if said)
    assert {said["op-name"] for said in read if said} == {"zero_point_linear_quantize"}
    for graph in (made.graph, again.graph):
        pairs = {item.inputs[1:] for item in graph if item.op == "QuantizeLinear"} | {
            item.inputs[1:] for item in graph if item.op == "DequantizeLinear" and item.operands[0].is_constant
        }
        ours = sorted(_grid(*(value.storage.numpy() for value in pair)) for pair in pairs)
        assert len(ours) == len(theirs)
        assert all(
            np.allclose(a, b, rtol=1e-6)
            for one, other in zip(ours, theirs, strict=True)
            for a, b in zip(one, other, strict=True)
        )


def _grid(scale, zero_point):
    return tuple(np.ravel(scale).tolist()), tuple(np.ravel(zero_point).astype(float).tolist())


def test_nnef_weights_are_stored_as_integers(tmp_path):
    _written(_fixed(nets.residual()), tmp_path)
    codes = [path.stat().st_size - 128 for path in (tmp_path / "model").glob("w*.dat")]
    assert sorted(codes) == sorted([8 * 3 * 9, 8 * 8 * 9, 5 * 8])


@pytest.mark.parametrize("changes", [
    pytest.param({"activation_bits": 16}, id="sixteen bits"),
    pytest.param({"weight_bits": 4}, id="weights of four bits"),
    pytest.param({"symmetric": True, "activation_type": "int8"}, id="symmetric"),
    pytest.param({"power_of_two": True}, id="powers of two"),
])  # fmt: skip
def test_other_settings_are_stated(changes, tmp_path):
    found = _fixed(nets.residual())
    made, again = _written(found, tmp_path, **changes)
    inputs = nets.samples(found, 1, seed=4)
    expected, given = (gp.run(each, inputs, backend="reference")["y"] for each in (made, again))
    assert nets.snr(expected, given) > 80


def test_symbolic_batch_is_rejected_before_writing(tmp_path):
    found = gp.from_onnx(
        model([node("Conv", ["x", "w"], ["y"])], [("x", ["N", 1, 3, 3])], [("y", None)],
              {"w": np.ones((1, 1, 1, 1), np.float32)})
    )  # fmt: skip
    made = gp.quantize(found, nets.samples(found, 4), "nnef", preset="fast")
    with pytest.raises(gp.DiagnosticError, match="NNEF0762"):
        gp.save(made, tmp_path / "model", format="nnef")

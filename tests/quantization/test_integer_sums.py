"""Convolutions whose sums are not rounded."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.placement import Placement, decide_placement
from graphport.quantization.targets import target
from tests.models import model, node
from tests.quantization import nets

onnxruntime = target("onnxruntime")


def _operators(quantized):
    return [node.op for node in quantized.graph]


def _placed(found, summed) -> Placement:
    graph = gp.prepare(found, verify=False)[0].graph
    return decide_placement(graph, onnxruntime, set(graph), summed=summed)


def _names(placement):
    return [node.name for node in placement.summing]


def test_result_with_only_float_consumers_uses_convinteger():
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found), real_results=True, round=False, equalize=False)
    assert _names(_placed(found, 1.0)) == ["second"]
    assert _operators(quantized).count("ConvInteger") == 1


def test_a_result_that_a_layer_reads_is_rounded():
    assert _names(_placed(nets.depthwise(activation="Relu"), 1.0)) == ["project"]


def test_share_0_disables_integer_sums():
    found = nets.residual()
    assert _names(_placed(found, 0.0)) == []
    quantized = gp.quantize(found, nets.samples(found), real_results=False)
    assert "ConvInteger" not in _operators(quantized)


@pytest.mark.parametrize(("summed", "expected"), [
    pytest.param(0.05, [], id="the cheapest is more"),
    pytest.param(0.2, ["small"], id="the cheapest alone"),
    pytest.param(0.9, ["large", "small"], id="both"),
])  # fmt: skip
def test_integer_sums_select_cheapest_layers_up_to_a_share(summed, expected):
    r = np.random.default_rng(0)
    constants = {
        "w1": r.normal(size=(8, 4, 3, 3)).astype(np.float32), "w2": r.normal(size=(8, 4, 1, 1)).astype(np.float32),
        "w3": r.normal(size=(2, 8, 3, 3)).astype(np.float32),
    }  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="large"),
        node("Conv", ["x", "w2"], ["b"], name="small"),
        node("Sin", ["a"], ["as"]), node("Sin", ["b"], ["bs"]), node("Mul", ["as", "bs"], ["c"]),
        node("Conv", ["c", "w3"], ["d"], name="last"), node("Relu", ["d"], ["dr"]), node("Flatten", ["dr"], ["f"]),
        node("MatMul", ["f", "w4"], ["y"], name="head"),
    ]  # fmt: skip
    constants["w4"] = r.normal(size=(2 * 36, 3)).astype(np.float32)
    found = gp.from_onnx(model(nodes, [("x", ["N", 4, 8, 8])], [("y", ["N", 3])], constants))
    assert sorted(_names(_placed(found, summed))) == expected


@pytest.mark.parametrize("name", ["residual", "depthwise"])
def test_without_rounding_there_is_less_noise(name):
    found = getattr(nets, name)()
    inputs = nets.samples(found, 40, seed=5)
    expected = gp.run(found, inputs)

    def snr(real_results):
        quantized = gp.quantize(found, nets.samples(found, 64), real_results=real_results)
        return nets.snr(expected["y"], gp.run(quantized, inputs)["y"])

    assert snr(real_results=True) > snr(real_results=False)


def test_the_sums_are_those_that_the_graph_states():
    """Padding counts as zero also where zero is no code of its own, and biases and strides are kept."""
    r = np.random.default_rng(3)
    constants = {"w": r.normal(size=(6, 3, 3, 3)).astype(np.float32), "b": r.normal(size=6).astype(np.float32)}
    nodes = [node("Conv", ["x", "w", "b"], ["y"], pads=[1, 2, 0, 1], strides=[2, 1], name="only")]
    found = gp.from_onnx(model(nodes, [("x", ["N", 3, 7, 6])], [("y", ["N", 6, 4, 7])], constants))
    inputs = {"x": (r.normal(size=(16, 3, 7, 6)) + 1).astype(np.float32)}
    summed = gp.quantize(found, inputs, preset="fast", real_results=True)
    assert "ConvInteger" in _operators(summed)
    assert nets.snr(gp.run(found, inputs)["y"], gp.run(summed, inputs)["y"]) > 38
    one = {"x": inputs["x"][:2]}
    computed, said = (gp.run(summed, one, backend=name)["y"] for name in ("onnxruntime", "reference"))
    assert np.allclose(computed, said, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("changes", [{"symmetric": True, "activation_type": "int8"}, {"activation_bits": 16}])
def test_integer_sums_need_uint8_activations(changes):
    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found), preset="fast", real_results=True, **changes)
    assert "ConvInteger" not in _operators(quantized)

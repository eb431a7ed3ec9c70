"""What a run is likely to take, and which layers are cheap by that."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.estimate import nanoseconds
from graphport.quantization.float_fallback import cheap_layers
from graphport.quantization.insert_qdq import Quantization
from graphport.quantization.observe import Statistics
from graphport.quantization.parameters import activation_qparams
from graphport.quantization.placement import decide_placement
from graphport.quantization.targets import target
from graphport.runtimes.target import Rates
from tests.models import model, node

ORT = target("onnxruntime")
RATES = Rates(
    products=((30.0, 2.0), (10.0, 1.0)), windows=((300.0, 2.0), (100.0, 1.0)), grouped=((3.0, 0.2), (7.0, 0.1)),
    sums=((0.0, 0.0), (0.0, 0.0)), pointwise=(1000.0, 5000.0), conversion=1e4, layout=1e5, call=(16e6, 16e7),
)  # fmt: skip


def _chain():
    """A convolution over windows, one over places, an addition and a product: 1, 4, 8 channels of 8 x 8 places."""
    r = np.random.default_rng(0)
    shapes = {"w1": (4, 1, 3, 3), "w2": (8, 4, 1, 1), "w3": (8, 4, 1, 1), "w4": (8, 3)}
    constants = {name: r.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="windows"),
        node("Conv", ["a", "w2"], ["b"], name="places"),
        node("Conv", ["a", "w3"], ["c"], name="others"),
        node("Add", ["b", "c"], ["d"], name="sum"),
        node("GlobalAveragePool", ["d"], ["e"], name="mean"),
        node("Flatten", ["e"], ["f"]),
        node("MatMul", ["f", "w4"], ["y"], name="product"),
    ]
    return gp.from_onnx(model(nodes, [("x", ["N", 1, 8, 8])], [("y", ["N", 3])], constants)).graph


def _placed(graph, *floating):
    chosen = [item for item in graph if item.name in floating]
    return decide_placement(graph, ORT, set(graph), chosen)


WHOLE = {"windows": 1e7 + 256 * (100 + 9), "places": 1e7 + 512 * (10 + 4), "others": 1e7 + 512 * (10 + 4),
         "sum": 1e7 + 512 * 5000, "mean": 1e7 + 8 * 5000, "product": 1e7 + 3 * (10 + 8)}  # fmt: skip
REAL = {"windows": 1e6 + 256 * (300 + 18), "places": 1e6 + 512 * (30 + 8), "others": 1e6 + 512 * (30 + 8),
        "sum": 1e6 + 512 * 1000, "mean": 1e6 + 8 * 1000, "product": 1e6 + 3 * (30 + 16)}  # fmt: skip


def _map(elements):
    return 3e6 + 1.1e5 * elements


@pytest.mark.parametrize(
    ("floating", "real", "conversions"),
    [
        pytest.param([], [], _map(64), id="the input is rounded"),
        pytest.param(["windows"], ["windows"], _map(256), id="what it gives is rounded"),
        pytest.param(
            ["places", "others"], ["places", "others", "sum", "mean"], _map(64) + _map(256) + 1e6 + 1e4 * 8, id="back"
        ),
        pytest.param(["product"], ["product", "sum", "mean"], _map(64) + 2 * _map(512), id="nobody wants the mean"),
        pytest.param([*WHOLE], [*WHOLE], 0.0, id="nothing is rounded"),
    ],
)
def test_kernels_and_conversions_add_up(floating, real, conversions):
    graph = _chain()
    base, of = _placed(graph), _placed(graph, *floating)
    assert {item.name for item in graph if item in of.layers or item in of.pointwise} == WHOLE.keys() - set(real)
    kernels = sum((REAL if name in real else WHOLE)[name] for name in WHOLE)
    assert nanoseconds(base, of, RATES) == pytest.approx(kernels + conversions)


def _rounded(graph):
    placement = _placed(graph)
    quantization, states = Quantization(placement), {}
    for number, value in enumerate(placement.roots):
        state = Statistics()
        state.add(np.random.default_rng(number).uniform(-1, 1, 2000).astype(np.float32)[None], samples=1)
        states[value] = state
        quantization.all_qparams[value] = activation_qparams(-9.0, 9.0, ORT.activation, is_symmetric=False)
    return quantization, states


@pytest.mark.parametrize("part", [0.001, 0.05, 0.3, 2.0])
def test_cheap_layers_are_limited_in_time_and_weights(part):
    graph = _chain()
    quantization, states = _rounded(graph)
    placement = quantization.placement
    whole = nanoseconds(placement, placement, ORT.rates)
    chosen = cheap_layers(
        quantization, states, part, lambda item: decide_placement(graph, ORT, set(graph), [item]), ORT.rates
    )
    spent = [
        nanoseconds(placement, decide_placement(graph, ORT, set(graph), [item]), ORT.rates) - whole for item in chosen
    ]
    assert sum(max(each, 0.0) for each in spent) <= part * whole
    sizes = {item: prod(layer.shape) for item, layer in placement.layers.items()}
    assert sum(sizes[item] for item in chosen) <= part * sum(sizes.values())


def test_layer_cost_includes_rounding_of_its_result():
    """A first convolution of one channel: sixty-four maps are rounded instead of one."""
    r = np.random.default_rng(0)
    shapes = {"w1": (64, 1, 3, 3), "w2": (64, 64, 1, 1), "w3": (64, 1, 3, 3), "w4": (64, 64, 1, 1)}
    constants = {name: (r.normal(size=shape) / np.sqrt(prod(shape[1:]))).astype(np.float32)
                 for name, shape in shapes.items()}  # fmt: skip
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"),
        node("Conv", ["a", "w2"], ["b"], name="second"),
        node("Conv", ["b", "w3"], ["c"], pads=[1, 1, 1, 1], group=64, name="alone"),
        node("Conv", ["c", "w4"], ["y"], name="last"),
    ]
    found = gp.from_onnx(model(nodes, [("x", ["N", 1, 32, 32])], [("y", ["N", 64, 32, 32])], constants))
    graph = found.graph
    quantization, states = _rounded(graph)

    def placed(item):
        return decide_placement(graph, ORT, set(graph), [item])

    by_products = cheap_layers(quantization, states, 0.2, placed)
    by_time = cheap_layers(quantization, states, 0.2, placed, replace(ORT.rates, conversion=0.8, layout=1.2))
    assert [item.name for item in by_products] == ["first"]
    assert by_time == []


def test_best_preset_uses_no_convinteger():
    from tests.quantization import nets

    found = nets.residual()
    quantized = gp.quantize(found, nets.samples(found), preset="best")
    assert "ConvInteger" not in [item.op for item in quantized.graph]

"""What is slower on integers stays real, by rates of kernels, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.choices import Choices
from graphport.quantization.estimate import conversion_time, kernel_time, nanoseconds
from graphport.quantization.fastest_placement import SLOWER, fastest_float_nodes
from graphport.quantization.placement import decide_placement
from graphport.quantization.placement_cut import Problem
from graphport.quantization.settings import Settings
from graphport.quantization.targets import target
from graphport.runtimes.target import Rates
from tests.models import model, node
from tests.quantization import nets

ORT = target("onnxruntime")


def _placed(graph, *floating):
    return decide_placement(graph, ORT, set(graph), [item for item in graph if item.output.name in floating])


def _named(found, **settings):
    graph = found.graph
    return fastest_float_nodes(Choices.of(Settings(**settings)), graph, _placed(graph), {})


def _swished(extent=24, window=5):
    """A convolution of each channel by itself between two of all channels; what bends them has no integer kernel."""
    r = np.random.default_rng(3)
    shapes = {"w1": (48, 16, 1, 1), "w2": (48, 1, window, window), "w3": (64, 48, 1, 1)}
    constants = {name: (r.normal(size=x) / np.sqrt(np.prod(x[1:]))).astype(np.float32) for name, x in shapes.items()}
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="expand"),
        node("HardSwish", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], pads=[window // 2] * 4, group=48, name="depth"),
        node("HardSwish", ["c"], ["d"]),
        node("Conv", ["d", "w3"], ["y"], name="project"),
    ]
    dims = [extent, extent] if isinstance(extent, int) else [*extent]
    return gp.from_onnx(model(nodes, [("x", ["N", 16, *dims])], [("y", ["N", 64, *dims])], constants))


def _data(count=16, extent=24):
    return np.random.default_rng(7).normal(size=(count, 16, extent, extent)).astype(np.float32)


def test_a_convolution_of_single_channels_between_real_nodes_stays_real():
    made = gp.quantize(_swished(), _data(), preset="fast")
    layers = {layer.name: layer for layer in made.report.layers}
    assert layers["depth"].reasons == (SLOWER,)
    assert layers["project"].is_quantized


@pytest.mark.parametrize(
    "settings",
    [{"cheap_layers": False}, {"dispatch": "all-in"}, {"quantize_nodes": ("depth",)}, {"max_float_layers": 0}],
)
def test_explicitly_requested_layers_are_quantized(settings):
    made = gp.quantize(_swished(), _data(), preset="fast", **settings)
    assert {layer.name: layer.is_quantized for layer in made.report.layers}["depth"]


def test_extents_that_are_free_are_those_of_the_samples():
    """Else calling a kernel is all that it takes, whatever it computes."""

    def real(found):
        made = gp.quantize(found, _data(extent=48), preset="balanced")
        return {layer.name for layer in made.report.layers if not layer.is_quantized}

    assert real(_swished(("h", "w"))) == real(_swished(48))


@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
def test_small_nets_compute_on_integers(name):
    """What calls alone take decides nothing: at least one layer is rounded."""
    found = getattr(nets, name)()
    made = gp.quantize(found, nets.samples(found), preset="fast")
    assert any(layer.is_quantized for layer in made.report.layers)


def _random_net(seed):
    """Convolutions, sums and what bends them, in any order; later ones read any earlier ones."""
    r = np.random.default_rng(seed)
    values, nodes, constants = ["x"], [], {}
    for number in range(int(r.integers(3, 9))):
        name, of = f"v{number}", str(r.choice(values[-3:]))
        match r.choice(["dense", "window", "single", "sum", "bend", "curve"]):
            case "dense":
                constants[f"w{number}"] = r.normal(size=(8, 8, 1, 1)).astype(np.float32)
                nodes.append(node("Conv", [of, f"w{number}"], [name], name=name))
            case "window":
                constants[f"w{number}"] = r.normal(size=(8, 8, 3, 3)).astype(np.float32)
                nodes.append(node("Conv", [of, f"w{number}"], [name], pads=[1] * 4, name=name))
            case "single":
                constants[f"w{number}"] = r.normal(size=(8, 1, 3, 3)).astype(np.float32)
                nodes.append(node("Conv", [of, f"w{number}"], [name], pads=[1] * 4, group=8, name=name))
            case "sum":
                nodes.append(node("Add", [of, str(r.choice(values))], [name], name=name))
            case "bend":
                nodes.append(node("Relu", [of], [name], name=name))
            case _:
                nodes.append(node("HardSwish", [of], [name], name=name))
        values.append(name)
    used = {value for item in nodes for value in item.input}
    outputs = [(name, ["N", 8, 6, 6]) for name in values[1:] if name not in used]
    return gp.from_onnx(model(nodes, [("x", ["N", 8, 6, 6])], outputs, constants))


RATES = [
    replace(ORT.rates, call=(0.0, 0.0), conversion=conversion, grouped=((0.3, 0.01), (single, 0.03)))
    for conversion, single in product([0.01, 0.3], [0.1, 3.0])
]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("seed", range(12))
def test_fastest_placement_beats_all_float_and_all_quantized(seed: int, rates: Rates):
    """And what it lets compute on integers is what is placed so."""
    graph = _random_net(seed).graph
    base = _placed(graph)
    if not base.layers:
        return

    def times(item):
        layer = base.layers.get(item)
        rounded = kernel_time(item, layer, rates, is_rounded=True)
        return rounded, kernel_time(item, layer, rates, is_rounded=False)

    problem = Problem(graph, base, ORT, times, lambda value: conversion_time(value, rates))
    real = problem.solved({})
    cost = problem.forced(real)
    assert cost <= problem.forced(()) * (1 + 1e-9)
    assert cost <= problem.forced(problem.nodes) * (1 + 1e-9)
    placed = _placed(graph, *(item.output.name for item in real))
    assert set(placed.layers) == set(base.layers) - set(real)
    assert set(placed.pointwise) <= set(base.pointwise) - set(real)
    whole = [nanoseconds(base, of, rates) for of in (placed, base)]
    assert whole[0] <= whole[1] * (1 + 1e-9) or placed.summing != base.summing


def test_weightless_nodes_need_quantized_operands():
    """A sum of what stays real and of integers is real: no plan counts on another."""
    found = nets.residual()
    base = _placed(found.graph)
    first = next(item for item in base.layers if item.name == "first")
    problem = Problem(
        found.graph, base, ORT, lambda item: (0.0, 100.0) if item is not first else (100.0, 0.0), lambda _: 0.0
    )
    real = problem.solved({})
    placed = _placed(found.graph, *(item.output.name for item in real))
    assert {*placed.layers, *placed.pointwise} == {*base.layers, *base.pointwise} - set(real)


@pytest.mark.parametrize("channels", [2, 4, 8])
def test_at_least_half_of_the_weights_are_quantized(channels):
    """Ever smaller maps of ever more channels, each with what real kernels take in and those for integers do not."""
    r = np.random.default_rng(channels)
    nodes, constants, value = [], {}, "x"
    for number in range(6):
        shape = (channels << number + 1, channels << number, 1, 1)
        constants[f"w{number}"] = (r.normal(size=shape) / shape[1] ** 0.5).astype(np.float32)
        made = f"c{number}"
        nodes.append(node("Conv", [value, f"w{number}"], [made], strides=[2, 2], name=made))
        value = f"h{number}"
        nodes.append(node("HardSwish", [made], [value]))
    found = gp.from_onnx(
        model(nodes, [("x", ["N", channels, 64, 64])], [(value, ["N", channels << 6, 1, 1])], constants)
    )
    placement = _placed(found.graph)
    real = set(_named(found))
    weights = {item.output.name: np.prod(layer.shape) for item, layer in placement.layers.items()}
    assert "c0" in real
    assert sum(weights[name] for name in weights if name not in real) >= 0.5 * sum(weights.values())


def test_weights_only_and_16_bit_activations_have_no_rates():
    found = _swished()
    assert _named(found) != ()
    assert _named(found, weights_only=True) == ()
    assert _named(found, activation_bits=16) == ()
    assert fastest_float_nodes(replace(Choices.of(Settings()), target=replace(ORT, rates=None)), found.graph, _placed(found.graph), {}) == ()  # fmt: skip

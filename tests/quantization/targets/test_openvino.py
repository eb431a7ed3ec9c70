"""OpenVINO: its CPU plugin computes on integers what quantized graphs say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import graphport as gp
from graphport.quantization.engine import session
from tests.draws import spread
from tests.every import every
from tests.models import model, node
from tests.quantization import nets
from tests.quantization.targets.pieces import OPERATORS, check, operator, pieces, quantized, weight

LAYERS = {"Conv": "Convolution", "ConvTranspose": "Deconvolution", "Gemm": "FullyConnected", "MatMul": "FullyConnected"}


class Compiled:
    """A model in the runtime, and the precisions that its layers are computed in."""

    def __init__(self, found, place):
        import openvino

        gp.save(found, place / "model.xml")
        # Real numbers in 32 bits: some processors would take 16, or 8 beside compressed weights.
        options = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "INFERENCE_NUM_THREADS": 1}
        self._compiled = openvino.Core().compile_model(str(place / "model.xml"), "CPU", options)

    def run(self, inputs):
        """The outputs by name."""
        given = {port.any_name: inputs[port.any_name] for port in self._compiled.inputs}
        found = self._compiled(given)
        return {port.any_name: found[port] for port in self._compiled.outputs}

    @property
    def precisions(self):
        """How many layers of each type are computed in each precision."""
        return Counter(
            (_text(item, "layerType"), _text(item, "runtimePrecision"))
            for item in self._compiled.get_runtime_model().get_ops()
        )


def _text(item, name):
    found = item.get_rt_info()[name]
    return found.astype(str) if hasattr(found, "astype") else str(found)


@every("name", spread(list(OPERATORS)))
def test_operators_compute_the_specified_result(name, tmp_path):
    def run(found, inputs):
        return Compiled(found, tmp_path).run(inputs)

    check(operator(name, "openvino"), run)


@every("name", spread(list(OPERATORS)))
def test_layers_compute_on_integers(name, tmp_path):
    made = operator(name, "openvino")
    layers = {item.op for item in made.graph} & {"Conv", "Gemm"}
    precisions = Compiled(made, tmp_path).precisions
    real = {kind for kind, precision in precisions if precision == "f32"}
    assert layers
    assert not {LAYERS[layer] for layer in layers} & real, precisions


@pytest.mark.parametrize("channels", [1, 2, 3, 5, 7, 16, 33])
def test_the_largest_weights_and_inputs_do_not_overflow(channels, tmp_path):
    w = np.ones((4, channels, 3, 3), np.float32)
    w[1] *= -1
    w[2] *= np.linspace(0.1, 1, w[2].size).reshape(w[2].shape)
    found = gp.from_onnx(
        model([node("Conv", ["x", "w"], ["y"])], [("x", ["N", channels, 6, 6])], [("y", None)], {"w": w})
    )
    x = np.abs(nets.samples(found, 24)["x"])
    made = gp.quantize(found, {"x": x}, "openvino", preset="fast", weight_range="pairs")
    (piece,) = pieces(made)
    (largest,) = piece.inputs().values()
    inputs = {piece.graph.inputs[0].name: np.full_like(largest, largest.max())}
    (expected,) = session(piece.graph, optimize=False).run(inputs).values()
    (given,) = Compiled(gp.Model(piece.graph), tmp_path).run(inputs).values()
    assert np.abs(expected - given).max() <= np.abs(expected).max() / 255


@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_odd_channels_survive_rounding_without_overflow(preset, tmp_path):
    """Rounding keeps pairs within their bound whatever the order of channels and places."""
    r = np.random.default_rng(3)
    w = np.abs(r.normal(size=(6, 5, 3, 3))).astype(np.float32)
    found = gp.from_onnx(model([node("Conv", ["x", "w"], ["y"])], [("x", ["N", 5, 8, 8])], [("y", None)], {"w": w}))
    x = np.abs(nets.samples(found, 48)["x"])
    made = gp.quantize(found, {"x": x}, "openvino", preset=preset, weight_range="pairs")
    check(made, lambda piece, inputs: Compiled(piece, tmp_path).run(inputs))


@pytest.mark.parametrize("name", ["residual", "depthwise", "products"])
@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_whole_models_compute_the_specified_result(name, preset, tmp_path):
    found = getattr(nets, name)()
    made = gp.quantize(found, nets.samples(found, 48), "openvino", preset=preset)
    x = nets.samples(found, 32, seed=5)
    expected = gp.run(found, x)["y"]
    said, computed = session(made.graph, optimize=False).run(x)["y"], Compiled(made, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > nets.snr(expected, said) + 10


@pytest.mark.parametrize("changes", [
    pytest.param({"symmetric": True, "activation_type": "int8"}, id="symmetric"),
    pytest.param({"per_channel": False}, id="one scale a weight"),
    pytest.param({"power_of_two": True}, id="powers of two"),
    pytest.param({"weights_only": True}, id="weights alone"),
    pytest.param({"weights_only": True, "weight_bits": 4, "weight_block": 4}, id="weights of four bits in blocks"),
    pytest.param({"activation_bits": 16}, id="sixteen bits"),
])  # fmt: skip
def test_other_settings_compute_the_specified_result(changes, tmp_path):
    found = nets.residual()
    made = gp.quantize(found, nets.samples(found, 48), "openvino", preset="fast", **changes)
    x = nets.samples(found, 16, seed=5)
    expected = gp.run(found, x)["y"]
    said, computed = session(made.graph, optimize=False).run(x)["y"], Compiled(made, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > min(nets.snr(expected, said) + 10, 100)


_LIMITED = """
import sys, numpy, openvino
options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
compiled = openvino.Core().compile_model(sys.argv[1], "CPU", options)
numpy.save(sys.argv[3], compiled([numpy.load(sys.argv[2])])[0])
"""


@pytest.mark.parametrize(
    ("channels", "size", "places", "limits"),
    spread(
        [
            (8, 3, range(9), ("SSE41", "AVX2", "DEFAULT")),
            (1, 3, (0, 3), ("AVX512_CORE",)),  # which a kernel for one channel pairs, along columns
            (1, 5, (5, 6), ("AVX512_CORE",)),  # the same, along rows
        ]
    ),
)
def test_a_model_is_right_with_fewer_instructions_than_here(channels, size, places, limits, tmp_path):
    """The largest weights and inputs, of one sign: without dot products their pairs are added in 16 bits."""
    w = np.zeros((8, channels, size, size), np.float32)
    w.reshape(8, channels, -1)[..., list(places)] = 1
    given, result = [("x", ["N", channels, 6, 6])], [("y", None)]
    found = gp.from_onnx(model([node("Conv", ["x", "w"], ["y"])], given, result, {"w": w}))
    x = np.abs(nets.samples(found, 24)["x"])
    made = gp.quantize(found, {"x": x}, "openvino", preset="fast")
    gp.save(made, tmp_path / "model.xml")
    largest = np.full_like(x[:2], x.max())
    np.save(tmp_path / "x.npy", largest)
    expected = session(made.graph, optimize=False).run({"x": largest})["y"]
    files = [str(tmp_path / name) for name in ("model.xml", "x.npy", "y.npy")]
    for limit in limits:
        environment = os.environ | {"ONEDNN_MAX_CPU_ISA": limit}
        subprocess.run([sys.executable, "-c", _LIMITED, *files], check=True, env=environment, timeout=120)
        assert nets.snr(expected, np.load(tmp_path / "y.npy")) > 80, limit


@pytest.mark.parametrize("block", [4, 16, 32, 64])
@pytest.mark.parametrize("dtype", ["int4", "uint4", "uint8"])
def test_blocks_that_do_not_tile_an_axis_are_stated(block, dtype, tmp_path):
    """A last block that is shorter, and one that is longer than the axis."""
    found = nets.products()
    made = gp.quantize(
        found,
        nets.samples(found),
        "openvino",
        preset="fast",
        weights_only=True,
        weight_type=dtype,
        weight_block=block - 1,
    )
    x = nets.samples(found, 8, seed=5)
    said, computed = session(made.graph, optimize=False).run(x)["y"], Compiled(made, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > 80


@pytest.mark.parametrize(("groups", "channels"), [(2, 3), (4, 7), (8, 17), (4, 33), (3, 1)])
@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_groups_of_odd_channels_do_not_overflow(groups, channels, preset, tmp_path):
    """Which weights are paired depends on the kernel: any two must fit."""
    w = np.abs(np.random.default_rng(5).normal(size=(groups * 2, channels, 3, 3))).astype(np.float32)
    nodes = [node("Conv", ["x", "w"], ["y"], group=groups, pads=[1] * 4)]
    found = gp.from_onnx(model(nodes, [("x", ["N", groups * channels, 6, 6])], [("y", None)], {"w": w}))
    x = np.abs(nets.samples(found, 16)["x"])
    made = gp.quantize(found, {"x": x}, "openvino", preset=preset, weight_range="pairs")
    (piece,) = pieces(made)
    (codes,) = (
        n.operands[0].storage.numpy() for n in made.graph if n.op == "DequantizeLinear" and n.operands[0].is_constant
    )
    assert np.abs(codes.astype(int)).max() <= 64
    (largest,) = piece.inputs().values()
    inputs = {piece.graph.inputs[0].name: np.full_like(largest, largest.max())}
    (expected,) = session(piece.graph, optimize=False).run(inputs).values()
    (given,) = Compiled(gp.Model(piece.graph), tmp_path).run(inputs).values()
    assert np.abs(expected - given).max() <= np.abs(expected).max() / 255


@pytest.mark.parametrize(("groups", "results"), [
    pytest.param(4, 16, id="groups"),
    pytest.param(8, 16, id="two results a channel"),
    pytest.param(8, 8, id="each channel by itself"),
])  # fmt: skip
def test_padded_3d_group_convolution_stays_float(groups, results, tmp_path):
    """Where such a convolution is padded, the runtime adds what stands for zeros to the wrong group."""
    nodes = [node("Conv", ["x", "w"], ["y"], group=groups, pads=[1] * 6), node("Conv", ["x", "v"], ["z"])]
    constants = {"w": weight(results, 8 // groups, 3, 3, 3), "v": weight(4, 8, 1, 1, 1)}
    found = gp.from_onnx(model(nodes, [("x", ["N", 8, 5, 6, 7])], [("y", None), ("z", None)], constants))
    made = quantized(found, "openvino")
    is_alone = groups == results == 8
    assert [layer.reasons for layer in made.report.floating] == (
        [] if is_alone else [("openvino has no correct integer kernel for grouped convolutions over 3 axes",)]
    )
    x = nets.samples(found, 2, seed=5)
    said, computed = session(made.graph, optimize=False).run(x), Compiled(made, tmp_path).run(x)
    assert min(nets.snr(said[name], computed[name]) for name in said) > 60


@pytest.mark.parametrize("added", ["bias", "behind", "nothing"])
@pytest.mark.parametrize("channels", [8, 48])
def test_addends_of_a_transposed_convolution_are_correct(added, channels, tmp_path):
    """The runtime adds it to sums of integers before it scales them, if what follows is rounded."""
    turned = ["r", "t", *(["b"] if added == "bias" else [])]
    nodes = [
        node("Conv", ["x", "a"], ["h"], pads=[1] * 4),
        node("Relu", ["h"], ["r"]),
        node("ConvTranspose", turned, ["m" if added != "behind" else "n"], strides=[2, 2]),
        *([node("Add", ["n", "c"], ["m"])] if added == "behind" else []),
        node("Conv", ["m", "p"], ["y"], pads=[1] * 4),
    ]
    constants = {"a": weight(channels, 6, 3, 3), "t": weight(channels, 8, 2, 2), "p": weight(4, 8, 3, 3)}
    constants |= {"bias": {"b": weight(8)}, "behind": {"c": weight(8).reshape(1, 8, 1, 1)}, "nothing": {}}[added]
    found = gp.from_onnx(model(nodes, [("x", ["N", 6, 12, 12])], [("y", None)], constants))
    made = quantized(found, "openvino", prepare=False)
    x = nets.samples(found, 2, seed=5)
    said, computed = session(made.graph, optimize=False).run(x)["y"], Compiled(made, tmp_path).run(x)["y"]
    assert nets.snr(said, computed) > nets.snr(gp.run(found, x)["y"], said) + 10
    assert len(made.report.floating) == (added != "nothing")

"""Layers of ncnn that compute on integers: what they mean, against the runtime, and what is no such layer."""

from __future__ import annotations

import re
import struct

import ncnn
import numpy as np
import pytest

import graphport as gp
from tests.quantization import nets

BYTES, REALS = 0x000D4B38, 0


def _written(place, layers, *weights):
    """A file of layers, and one of weights: arrays, those of pairs with a tag in front."""
    rows = [f"7767517\n{len(layers)} {len(layers)}", *layers]
    (place / "net.param").write_text("\n".join(rows) + "\n")
    with (place / "net.bin").open("wb") as file:
        for weight in weights:
            tag, array = weight if isinstance(weight, tuple) else (None, weight)
            data = np.ascontiguousarray(array).tobytes()
            file.write((b"" if tag is None else struct.pack("<I", tag)) + data + bytes(-len(data) % 4))
    return place / "net.param"


def _runtime(path, x):
    net = ncnn.Net()
    net.opt.num_threads = 1
    assert net.load_param(str(path)) == 0
    assert net.load_model(str(path).removesuffix("param") + "bin") == 0
    extractor = net.create_extractor()
    extractor.input("x", ncnn.Mat(x).clone())
    return np.array(extractor.extract("y")[1])


def _f(*numbers):
    return np.asarray(numbers, np.float32)


R = np.random.default_rng(0)
CODES = R.integers(-127, 128, 4 * 3 * 9).astype(np.int8)
REAL = R.normal(size=4 * 3 * 9).astype(np.float32)
IMAGE = "Input x 0 1 x 0=7 1=7 2=3"
KERNEL = "0=4 1=3 4=1 6=108"
LAYERS = {
    "a scale for each channel": (
        f"Convolution c 1 1 x y {KERNEL} 8=2", [(BYTES, CODES), _f(90, 70, 50, 30), _f(40)],
    ),
    "a bias and an activation": (
        f"Convolution c 1 1 x y {KERNEL} 5=1 8=2 9=1", [(BYTES, CODES), _f(1, -2, 3, 0), _f(90, 70, 50, 30), _f(40)],
    ),
    "the result is rounded, too": (
        f"Convolution c 1 1 x y {KERNEL} 8=102 9=1", [(BYTES, CODES), _f(90, 70, 50, 30), _f(40), _f(3)],
    ),
    "weights that are rounded when they are loaded": (
        f"Convolution c 1 1 x y {KERNEL} 8=2", [(REALS, REAL), _f(40, 41, 39, 50), _f(40)],
    ),
    "a channel of zeros": (
        f"Convolution c 1 1 x y {KERNEL} 8=2",
        [(BYTES, np.where(np.arange(108) < 27, 0, CODES).astype(np.int8)), _f(0, 70, 50, 30), _f(40)],
    ),
    "groups": (
        "ConvolutionDepthWise c 1 1 x y 0=6 1=3 6=54 7=3 8=1",
        [(BYTES, CODES[:54]), _f(90, 70, 50), _f(40)],
    ),
    "groups with one scale": (
        "ConvolutionDepthWise c 1 1 x y 0=3 1=3 6=27 7=3 8=2", [(BYTES, CODES[:27]), _f(90), _f(40)],
    ),
    "all elements through a matrix": (
        "InnerProduct c 1 1 x y 0=2 1=1 2=294 8=2",
        [(BYTES, np.resize(CODES, 294)), _f(1, 2), _f(90, 30), _f(40)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(LAYERS))
def test_integer_layers_mean_what_the_runtime_computes(kind, tmp_path):
    layer, weights = LAYERS[kind]
    path = _written(tmp_path, [IMAGE, layer], *weights)
    x = R.normal(size=(3, 7, 7)).astype(np.float32)
    expected = _runtime(path, x)
    if "too" in kind:
        # The runtime hands integers on, which the next layer would read.
        expected = expected / 3
    (given,) = gp.run(gp.load(path), {"x": x[None]}, backend="reference").values()
    assert nets.snr(expected.reshape(-1), given.reshape(-1)) > 55


def test_a_chain_of_layers_that_hand_integers_on(tmp_path):
    """The second layer has the scale to which the first one rounds."""
    layers = [
        IMAGE,
        f"Convolution a 1 1 x h {KERNEL} 8=102 9=1",
        "Convolution b 1 1 h y 0=2 1=1 6=8 8=2",
    ]
    weights = [(BYTES, CODES), _f(90, 70, 50, 30), _f(40), _f(2.5), (BYTES, CODES[:8]), _f(30, 20), _f(2.5)]
    path = _written(tmp_path, layers, *weights)
    x = R.normal(size=(3, 7, 7)).astype(np.float32)
    (given,) = gp.run(gp.load(path), {"x": x[None]}, backend="reference").values()
    assert nets.snr(_runtime(path, x), given[0]) > 55


@pytest.mark.parametrize(("layer", "weights", "said"), [
    pytest.param(f"Convolution c 1 1 x y {KERNEL} 8=2", [(BYTES, CODES), _f(1, 1, 1, 1), _f(0)],
                 "the input scale is 0.0", id="a scale of 0"),
    pytest.param(f"Convolution c 1 1 x y {KERNEL} 8=2", [(BYTES, CODES), _f(1, 1, 1, 1), _f(np.nan)],
                 "the input scale is nan", id="a scale that is not a number"),
    pytest.param(f"Convolution c 1 1 x y {KERNEL} 8=2", [(BYTES, CODES), _f(1, 1, 1, 1), _f(-3)],
                 "the input scale is -3.0", id="a negative scale"),
    pytest.param(f"Convolution c 1 1 x y {KERNEL} 8=2", [(BYTES, CODES), _f(1, 1)], "truncated file", id="cut off"),
    pytest.param("ConvolutionDepthWise c 1 1 x y 0=4 1=3 6=36 7=3 8=1", [(BYTES, CODES[:36]), _f(1, 1, 1), _f(1)],
                 "3 scales for 4 output channels in 3 groups", id="groups that do not divide"),
])  # fmt: skip
def test_an_unknown_layer_is_reported(layer, weights, said, tmp_path):
    path = _written(tmp_path, [IMAGE, layer], *weights)
    with pytest.raises(gp.DiagnosticError, match=said):
        gp.run(gp.load(path), {"x": np.zeros((1, 3, 7, 7), np.float32)}, backend="reference")


SUMS = R.integers(-3000, 3000, (3, 4, 5)).astype(np.int32)
SMALL = R.normal(size=(3, 4, 5)).astype(np.float32)
ALONE = {
    "reals to codes": ("Quantize q 1 1 x y 0=1", [_f(71.3)], SMALL),
    "reals to codes, a scale for each channel": ("Quantize q 1 1 x y 0=3", [_f(71.3, 10.7, 203.1)], SMALL),
    "reals to codes, a scale for each row": ("Quantize q 1 1 x y 0=4", [_f(71.3, 10.7, 203.1, 1.9)], SMALL[0]),
    "reals to codes, a vector": ("Quantize q 1 1 x y 0=1", [_f(71.3)], SMALL[0, 0]),
    "sums to reals": ("Dequantize q 1 1 x y 0=1", [_f(0.13)], SUMS),
    "sums to reals, with a bias": ("Dequantize q 1 1 x y 0=3 1=3", [_f(0.13, 7, -2), _f(1, 2, 3)], SUMS),
    "sums to reals, with one bias": ("Dequantize q 1 1 x y 0=4 1=1", [_f(0.13, 7, -2, 1), _f(0.5)], SUMS[0]),
    "sums to codes": ("Requantize q 1 1 x y 0=1 1=1", [_f(0.0131), _f(3.3)], SUMS),
    "sums to codes, with a bias and an activation": (
        "Requantize q 1 1 x y 0=3 1=3 2=3 3=2 -23304=1,0.3",
        [_f(0.0131, 0.02, 0.007), _f(3.3, 1.1, 0.7), _f(1, -2, 0.3)], SUMS,
    ),
}  # fmt: skip


def _shaped(x):
    return "Input x 0 1 x " + " ".join(f"{key}={n}" for key, n in zip((0, 1, 2), reversed(x.shape), strict=False))


@pytest.mark.parametrize("kind", list(ALONE))
def test_layers_that_only_round_give_the_codes_of_the_runtime(kind, tmp_path):
    layer, weights, x = ALONE[kind]
    path = _written(tmp_path, [_shaped(x), layer], *weights)
    (given,) = gp.run(gp.load(path), {"x": x[None]}, backend="reference").values()
    assert given.dtype == (np.float32 if kind.startswith("sums to reals") else np.int8)
    assert np.allclose(given[0], _runtime(path, x), rtol=1e-6, atol=1e-6)


def test_a_layer_takes_codes_as_they_are(tmp_path):
    layers = [IMAGE, "Quantize q 1 1 x h 0=1", f"Convolution c 1 1 h y {KERNEL} 8=2"]
    path = _written(tmp_path, layers, _f(40), (BYTES, CODES), _f(90, 70, 50, 30), _f(40))
    x = R.normal(size=(3, 7, 7)).astype(np.float32)
    (given,) = gp.run(gp.load(path), {"x": x[None]}, backend="reference").values()
    assert nets.snr(_runtime(path, x), given[0]) > 55


@pytest.mark.parametrize(("layer", "weights", "said"), [
    pytest.param("Quantize q 1 1 x y 0=1", [_f(0)], "the scale is 0", id="a scale of 0"),
    pytest.param("Quantize q 1 1 x y 0=3", [_f(1, np.inf, 1)], "weight 0 contains inf", id="an infinite scale"),
    pytest.param("Quantize q 1 1 x y 0=2", [_f(1, 2)], "2 elements, expected 1 or 3", id="another length"),
])  # fmt: skip
def test_layers_that_cannot_round_are_reported(layer, weights, said, tmp_path):
    path = _written(tmp_path, [IMAGE, layer], *weights)
    with pytest.raises(gp.DiagnosticError, match=said):
        gp.run(gp.load(path), {"x": np.zeros((1, 3, 7, 7), np.float32)}, backend="reference")


@pytest.mark.parametrize(("layers", "said"), [
    pytest.param(["Input x 0 1 x 0=2", "Quantize q 1 1 x y 0=2"], "if the input is a vector", id="scales of a vector"),
    pytest.param([IMAGE, "Quantize q 1 1 x h 0=1", "Dequantize d 1 1 h y 0=1"],
                 "h is int8.*requires int32", id="codes that are no sums"),
    pytest.param([IMAGE, "Quantize q 1 1 x h 0=1", "Quantize d 1 1 h y 0=1"],
                 "h is int8.*requires float32", id="codes that are no reals"),
])  # fmt: skip
def test_layers_that_only_round_stay_where_there_is_no_rule(layers, said, tmp_path):
    path = _written(tmp_path, layers, _f(1, 2))
    found = gp.load(path)
    assert any(re.search(said, finding.message) for finding in found.findings)
    assert [node.dialect for node in found.graph][-1] == "ncnn"

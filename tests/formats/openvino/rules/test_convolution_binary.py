"""Convolutions of signs in OpenVINO: by definition, and as the plugin computes them where it has the numbers it asks for."""

import numpy as np
import openvino

import graphport as gp
from tests.at_once import at_once
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir
from tests.ops.openvino_oracle import check_word

RANDOM = np.random.default_rng(9)
X = RANDOM.normal(size=(2, 16, 5, 6)).astype(np.float32)
FILTERS = RANDOM.integers(0, 2, (3, 16, 3, 3)).astype(np.uint8)
EDGES = [(0.0, 0), (1.0, 1), (-1.0, -1)]
WINDOW = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}


def agreeing(x, filters, edge):
    """Signs that agree less signs that do not, with one place of padding around; bits from the lowest of a byte on."""
    wide = np.pad(np.where(x > 0, 1, -1), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=edge)
    places = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    bits = np.unpackbits(np.packbits(filters), bitorder="little").reshape(filters.shape)
    return np.einsum("nchwij,ocij->nohw", places, bits.astype(int) * 2 - 1).astype(np.float32)


@at_once(("pad_value", "edge"), EDGES)
@at_once("auto_pad", ["explicit", "same_upper"])
def test_signs_that_agree_are_counted(pad_value, edge, auto_pad):
    check_word(
        "opset1.BinaryConvolution",
        [X, FILTERS],
        constants=(1,),
        expected=[agreeing(X, FILTERS, edge)],
        mode="xnor-popcount",
        pad_value=pad_value,
        auto_pad=auto_pad,
        **WINDOW,
    )


def written(folder, filters, pad_value):
    """Signs that FakeQuantize makes, of which alone the plugin packs bits, and their convolution."""
    raw = np.packbits(filters).tobytes()
    stored = {"element_type": "u1", "shape": ",".join(map(str, filters.shape)), "offset": raw, "size": len(raw)}
    channels = np.zeros((1, filters.shape[1], 1, 1))
    window = {name: ",".join(map(str, numbers)) for name, numbers in WINDOW.items()}
    layers = [
        parameter("x", f"2,{filters.shape[1]},5,6"),
        *(constant(name, channels, "float32") for name in ("low", "high")),
        *(constant(name, np.full((1, 1, 1, 1), number), "float32") for name, number in (("no", 0), ("yes", 1))),
        Layer("w", "opset1.Const", stored),
        Layer("signs", "opset1.FakeQuantize", {"levels": 2}, ["x", "low", "high", "no", "yes"]),
        Layer(
            "y",
            "opset1.BinaryConvolution",
            {"mode": "xnor-popcount", "pad_value": pad_value, "auto_pad": "explicit", **window},
            ["signs", "w"],
        ),
    ]
    return write_ir(folder, layers, ["y"])


@at_once("pad_value", [pad_value for pad_value, _ in EDGES])
def test_plugin_counts_the_same_signs(pad_value, tmp_path):
    path = written(tmp_path, FILTERS, pad_value)
    judge = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = gp.run(gp.load(path), {"x": X}, backend="onnxruntime")["y"]
    np.testing.assert_array_equal(found, judge([X])[0])


def test_filters_that_end_within_a_byte_stay_what_they_are(tmp_path):
    filters = np.ones((1, 4, 3, 3), np.uint8)
    findings = gp.check(written(tmp_path, filters, 0.0))
    assert not [finding for finding in findings if finding.is_error]
    assert any("36 bits" in finding.message for finding in findings)

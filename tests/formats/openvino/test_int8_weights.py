"""Weights of eight bits: each within half a step of its channel, in the form that the runtime keeps compressed."""

import numpy as np
import pytest

import graphport as gp
from graphport.core.dtypes import DType
from graphport.core.storage import ArrayStorage, storage_of
from graphport.formats.openvino import read
from graphport.formats.openvino.container import int8_weights as module
from graphport.formats.openvino.container.int8_weights import Int8Weights
from tests.formats.openvino.documents import Constant, Layer, constant, parameter, write_ir

RANDOM = np.random.default_rng(0)
WINDOW = {"strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}


def numbers(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def product(folder, weights, data=None, shape="2,16"):
    transposes = {"transpose_a": "false", "transpose_b": "false"} | (data or {})
    layers = [parameter("x", shape), Constant("w", weights), Layer("y", "opset1.MatMul", transposes, ["x", "w"])]
    return write_ir(folder, layers, ["y"])


def reduced(path, folder):
    """The raw graph of the file that is written with weights of eight bits."""
    gp.convert(path, folder / "out.xml", weights="int8", verify=False)
    return read(folder / "out.xml")[0]


def stored(graph, name):
    return next(value.storage for value in graph.constants if value.name.startswith(name)).numpy()


@pytest.mark.parametrize(
    ("op_type", "data", "shape", "weights", "channels"),
    [
        pytest.param("opset1.MatMul", {"transpose_b": "false"}, "2,16", (16, 8), (1, 8), id="columns"),
        pytest.param("opset1.MatMul", {"transpose_b": "true"}, "2,16", (8, 16), (8, 1), id="rows"),
        pytest.param("opset1.MatMul", {}, "3,2,16", (3, 16, 8), (1, 1, 8), id="a batch of products"),
        pytest.param("opset1.Convolution", WINDOW, "1,4,8,8", (6, 4, 3, 3), (6, 1, 1, 1), id="convolution"),
        pytest.param("opset1.GroupConvolution", WINDOW, "1,4,8,8", (2, 6, 2, 3, 3), (2, 6, 1, 1, 1), id="groups"),
        pytest.param("opset1.ConvolutionBackpropData", WINDOW, "1,4,8,8", (4, 6, 3, 3), (1, 6, 1, 1), id="transposed"),
    ],
)
def test_every_channel_has_steps_of_its_own(op_type, data, shape, weights, channels, tmp_path):
    w = numbers(*weights)
    layers = [parameter("x", shape), Constant("w", w), Layer("y", op_type, data, ["x", "w"])]
    graph = reduced(write_ir(tmp_path, layers, ["y"]), tmp_path)
    codes, scale, zero = (stored(graph, f"w_{name}") for name in ("compressed", "scale", "zero"))
    assert (codes.dtype, zero.dtype, scale.dtype) == (np.uint8, np.uint8, np.float32)
    assert scale.shape == zero.shape == channels
    again = (codes.astype(np.float32) - zero) * scale
    assert (np.abs(again - w) <= scale / 2 * 1.001).all()
    words = [node.op_type for node in graph]
    assert words == ["opset1.Convert", "opset1.Convert", "opset1.Subtract", "opset1.Multiply", op_type]


def test_zero_stays_zero(tmp_path):
    w = numbers(16, 8) + 3
    w[::2] = 0
    graph = reduced(product(tmp_path, w), tmp_path)
    codes, zero = stored(graph, "w_compressed"), stored(graph, "w_zero")
    assert (codes[::2] == zero).all()


@pytest.mark.parametrize(
    "column",
    [
        pytest.param([0.0] * 8, id="nothing but 0"),
        pytest.param([2.5] * 8, id="one number"),
        pytest.param([-1e-42] * 8, id="numbers that are not normal"),
        pytest.param([3e38, *[-1.0] * 7], id="the largest numbers"),
    ],
)
def test_steps_are_sound_at_the_ends_of_the_range(column, tmp_path):
    w = np.tile(np.array(column, np.float32)[:, None], (2, 8))
    graph = reduced(product(tmp_path, w), tmp_path)
    codes, scale, zero = (stored(graph, f"w_{name}") for name in ("compressed", "scale", "zero"))
    assert (np.abs((codes.astype(np.float64) - zero) * scale - w) <= scale.astype(np.float64) / 2 * 1.001).all()


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param(numbers(16, 2), id="few numbers"),
        pytest.param(np.where(np.arange(128).reshape(16, 8) == 5, np.nan, 1).astype(np.float32), id="NaN"),
        pytest.param(np.tile(np.array([[3e38], [-3e38]], np.float32), (8, 8)), id="a range past the largest number"),
        pytest.param(numbers(16), id="a vector"),
    ],
)
def test_weights_that_are_left_as_they_are(weights, tmp_path):
    path = product(tmp_path, weights)
    graph = reduced(path, tmp_path)
    assert [node.op_type for node in graph] == ["opset1.MatMul"]
    assert (tmp_path / "out.bin").read_bytes() == weights.tobytes()


def test_weights_of_half_the_bytes_are_reduced_too(tmp_path):
    layers = [
        parameter("x", "2,16"),
        Constant("w", numbers(16, 8).astype(np.float16)),
        Layer("wide", "opset1.Convert", {"destination_type": "f32"}, ["w"]),
        Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "wide"]),
    ]
    graph = reduced(write_ir(tmp_path, layers, ["y"]), tmp_path)
    assert sorted(str(value.storage.dtype) for value in graph.constants) == ["float32", "uint8", "uint8"]


def test_weights_that_two_layers_read_are_split_once(tmp_path):
    data = {"transpose_a": "false", "transpose_b": "false"}
    layers = [
        parameter("x", "2,16"),
        Constant("w", numbers(16, 16)),
        Layer("h", "opset1.MatMul", data, ["x", "w"]),
        Layer("y", "opset1.MatMul", data, ["h", "w"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    assert sum(node.op_type == "opset1.Multiply" for node in reduced(path, tmp_path)) == 1
    assert gp.compare(gp.load(path), gp.load(tmp_path / "out.xml")).snr_db > 35


def test_they_are_read_as_one_operator(tmp_path):
    reduced(product(tmp_path, numbers(16, 8)), tmp_path)
    assert [node.op for node in gp.load(tmp_path / "out.xml").graph] == ["DequantizeLinear", "MatMul"]


def test_the_runtime_keeps_them_compressed(tmp_path):
    import openvino

    path = product(tmp_path, numbers(64, 64), shape="1,64")
    reduced(path, tmp_path)
    # Beside compressed weights some processors would round what is multiplied with them to eight bits.
    options = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    compiled = openvino.Core().compile_model(str(tmp_path / "out.xml"), "CPU", options)
    kinds = {
        (node.get_rt_info()["layerType"].value, node.get_rt_info()["outputPrecisions"].value)
        for node in compiled.get_runtime_model().get_ops()
    }
    assert ("FullyConnected", "f32") in kinds
    assert ("Const", "u8") in kinds
    assert not any(kind in ("Subtract", "Multiply", "Eltwise", "Convert") for kind, _ in kinds)
    x = numbers(1, 64)
    expected = gp.run(gp.load(tmp_path / "out.xml"), {"x": x}, backend="reference")["y"]
    np.testing.assert_allclose(compiled([x])[0], expected, rtol=1e-4, atol=1e-4)


def test_the_conversion_passes_within_what_rounding_costs(tmp_path):
    report = gp.convert(product(tmp_path, numbers(16, 8)), tmp_path / "out.xml", weights="int8")
    assert report.passed
    assert 20 < report.verification.snr_db < 60
    assert report.verification.notes == ("tolerance for quantized weights: SNR >= 20 dB",)


def test_the_conversion_fails_where_rounding_costs_too_much(tmp_path):
    w = numbers(16, 8)
    w[0] = 1e4
    x = numbers(2, 16)
    x[:, 0] = 0
    report = gp.convert(product(tmp_path, w), tmp_path / "out.xml", weights="int8", inputs={"x": x})
    assert not report.passed


@pytest.mark.parametrize("bytes_at_once", [4, 64, 1 << 20])
def test_large_weights_are_rounded_piece_by_piece(bytes_at_once, monkeypatch):
    w = numbers(33, 5)
    grid = module._channel_parameters(storage_of(w), (0,))
    whole = np.rint(w / grid.scale) + grid.zero
    monkeypatch.setattr(module, "CHUNK", bytes_at_once)
    storage = Int8Weights(ArrayStorage(w), grid)
    assert storage.dtype is DType.UINT8
    np.testing.assert_array_equal(storage.numpy(), whole)
    assert b"".join(map(bytes, storage.chunks(7))) == whole.astype(np.uint8).tobytes()


def test_other_ways_to_store_weights_are_refused(tmp_path):
    path = product(tmp_path, numbers(16, 8))
    with pytest.raises(gp.DiagnosticError, match="OV0506"):
        gp.convert(path, tmp_path / "out.xml", weights="int4")
    assert not (tmp_path / "out.xml").exists()


def test_tables_of_four_bits_do_not_grow(tmp_path):
    raw = bytes(range(64))
    layers = [
        parameter("x", "2,16"),
        Layer("w", "opset1.Const", {"element_type": "nf4", "shape": "16,8", "offset": raw, "size": 0}),
        Layer("wide", "opset1.Convert", {"destination_type": "f32"}, ["w"]),
        Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "wide"]),
    ]
    path = write_ir(tmp_path, layers, ["y"])
    for weights in ("f16", "int8"):
        gp.convert(path, tmp_path / "out.xml", weights=weights, verify=False)
        assert (tmp_path / "out.bin").read_bytes() == raw


@pytest.mark.parametrize(
    ("size", "stored"),
    [
        pytest.param(1.0, 2, id="ordinary"),
        pytest.param(1e-9, 4, id="all would become zero"),
        pytest.param(2e-5, 4, id="all would lose bits"),
        pytest.param(1e5, 4, id="beyond the largest"),
        pytest.param(0.0, 2, id="zeros"),
    ],
)
def test_half_precision_is_for_numbers_that_it_reaches(size, stored, tmp_path):
    w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8) * np.float32(size)
    layers = [parameter("x", "2,8"), constant("w", w, "float32")]
    layers.append(Layer("y", "opset1.MatMul", {"transpose_a": "false", "transpose_b": "false"}, ["x", "w"]))
    gp.convert(write_ir(tmp_path, layers, ["y"]), tmp_path / "out.xml", weights="f16", verify=False)
    assert (tmp_path / "out.bin").stat().st_size == 64 * stored

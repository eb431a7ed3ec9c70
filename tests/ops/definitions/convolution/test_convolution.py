"""Convolutions against ONNX Runtime, and what their shape rules refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.convolution import Conv, ConvInteger, ConvTranspose, DeformConv, QLinearConv, channels
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator


def random(*shape, dtype: Any = np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


@st.composite
def windows(draw, ranks=(1, 2, 3)):
    """Extents, kernel and the attributes of a window that fits."""
    rank = draw(st.sampled_from(ranks))
    dims = tuple(draw(st.integers(5, 7)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["strides"] = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    padding = draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID", "none"]))
    if padding == "pads":
        attributes["pads"] = tuple(draw(st.integers(0, 2)) for _ in range(2 * rank))
        attributes["dilations"] = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    elif padding != "none":
        attributes["auto_pad"] = padding
    return dims, kernel, attributes


@given(windows(), st.sampled_from([1, 2]), st.booleans())
def test_convolution_is_that_of_onnx_runtime(window, group, biased):
    dims, kernel, attributes = window
    x, w = random(2, 2 * group, *dims), random(3 * group, 2, *kernel, seed=1)
    check_operator(
        Conv, [x, w, random(3 * group, seed=2) if biased else None], group=group, tolerance=1e-4, **attributes
    )


@given(windows(), st.sampled_from([1, 2]), st.booleans(), st.data())
def test_transposed_convolution_is_that_of_onnx_runtime(window, group, biased, data):
    dims, kernel, attributes = window
    if "pads" in attributes:
        attributes["pads"] = tuple(min(pad, 1) for pad in attributes["pads"])
    if "strides" in attributes and data.draw(st.booleans()):
        attributes["output_padding"] = tuple(data.draw(st.integers(0, s - 1)) for s in attributes["strides"])
    x, w = random(2, 2 * group, *dims), random(2 * group, 3, *kernel, seed=1)
    bias = random(3 * group, seed=2) if biased else None
    check_operator(ConvTranspose, [x, w, bias], group=group, tolerance=1e-4, **attributes)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("output_shape", [(9, 12), (10, 11)])
def test_transposed_convolution_cuts_to_the_output_shape(auto_pad, output_shape):
    x, w = random(1, 2, 4, 5), random(2, 3, 3, 3, seed=1)
    check_operator(ConvTranspose, [x, w], auto_pad=auto_pad, output_shape=output_shape, strides=(3, 3), tolerance=1e-4)


def test_convolution_of_float16_values_is_that_of_onnx_runtime():
    x, w = random(1, 2, 5, 5, dtype=np.float16), random(3, 2, 3, 3, dtype=np.float16, seed=1)
    check_operator(Conv, [x, w], pads=(1, 1, 1, 1), tolerance=5e-3)


def test_convolution_of_doubles_keeps_their_precision():
    x, w = random(1, 2, 5, dtype=np.float64), random(3, 2, 3, dtype=np.float64, seed=1)
    expected = [np.sum(x[0, :, place : place + 3] * w[m]) for m in range(3) for place in range(3)]
    compare(run_operator(Conv, [x, w])[0], np.reshape(expected, (1, 3, 3)), tolerance=1e-14)


def test_half_precision_sums_in_single_precision():
    # 2049 ones: the sum of halves would stop at 2048.
    x = np.ones((1, 2049, 1), DType.FLOAT16.numpy)
    w = np.ones((1, 2049, 1), DType.FLOAT16.numpy)
    assert Conv(x, w).astype(np.float32) == np.float16(2049)
    y = Conv(x.astype(DType.BFLOAT16.numpy), w.astype(DType.BFLOAT16.numpy))
    assert y.dtype == DType.BFLOAT16.numpy
    assert y.astype(np.float32) == 2048.0


@given(st.integers(1, 2), st.integers(1, 2), st.booleans(), st.booleans(), st.integers(1, 2), st.integers(0, 1))
def test_deformable_convolution_is_that_of_onnx_runtime(group, offset_group, masked, biased, stride, pad):
    c, k = 2 * group * offset_group, 2 * 2
    x, w = random(2, c, 5, 6), random(2 * group, c // group, 2, 2, seed=1)
    out = [(n + 2 * pad - 2) // stride + 1 for n in (5, 6)]
    offset = random(2, offset_group * 2 * k, *out, seed=2)
    mask = np.abs(random(2, offset_group * k, *out, seed=3)) if masked else None
    bias = random(2 * group, seed=4) if biased else None
    attributes: dict[str, Any] = {
        "group": group,
        "offset_group": offset_group,
        "strides": (stride, stride),
        "pads": (pad,) * 4,
    }
    check_operator(DeformConv, [x, w, offset, bias, mask], tolerance=1e-4, **attributes)


def test_deformable_convolution_without_offsets_is_a_convolution():
    x, w = random(1, 2, 4, 4, 3), random(3, 2, 2, 2, 2, seed=1)
    offset = np.zeros((1, 3 * 8, 3, 3, 2), np.float32)
    compare(run_operator(DeformConv, [x, w, offset])[0], run_operator(Conv, [x, w])[0], tolerance=1e-5)


@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8)])
def test_integer_convolution_is_that_of_onnx_runtime(types):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (2, 4, 5, 5)).astype(types[0])
    w = rng.integers(0, 60, (6, 2, 3, 3)).astype(types[1])
    zeros = [np.asarray(7, types[0]), np.asarray(3, types[1])]
    check_operator(ConvInteger, [x, w, *zeros], group=2, pads=(1, 1, 1, 1))
    check_operator(ConvInteger, [x, w], group=2, auto_pad="SAME_UPPER", strides=(2, 2))


def test_convinteger_accepts_per_channel_zero_points():
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (1, 2, 4)).astype(np.uint8), rng.integers(0, 256, (3, 2, 2)).astype(np.uint8)
    zeros = rng.integers(0, 256, 3).astype(np.uint8)
    found = run_operator(ConvInteger, [x, w, None, zeros])[0]
    for number, zero in enumerate(zeros):
        alone = run_operator(ConvInteger, [x, w[number : number + 1], None, np.asarray(zero)])[0]
        np.testing.assert_array_equal(found[:, number : number + 1], alone)


@given(st.booleans(), st.booleans(), st.integers(0, 255))
def test_quantized_convolution_is_that_of_onnx_runtime(biased, per_map, zero):
    rng = np.random.default_rng(zero)
    x = rng.integers(0, 256, (1, 4, 5, 5)).astype(np.uint8)
    # Seven bits: kernels for old processors saturate the sum of two products of eight bits.
    w = rng.integers(-63, 64, (6, 2, 3, 3)).astype(np.int8)
    scale = rng.uniform(0.01, 0.02, 6 if per_map else 1).astype(np.float32)
    inputs = [
        *(x, np.float32(0.02), np.uint8(zero)),
        *(w, scale if per_map else scale[0], np.zeros(6 if per_map else (), np.int8)),
        *(np.float32(0.25), np.uint8(120)),
        *([rng.integers(-500, 500, 6).astype(np.int32)] if biased else []),
    ]
    check_operator(QLinearConv, [np.asarray(value) for value in inputs], group=2, pads=(1, 1, 1, 1))


@pytest.mark.parametrize("opset", [1, 11])
@pytest.mark.parametrize("op_def", [Conv, ConvTranspose], ids=lambda op_def: op_def.name)
def test_old_opsets_are_equivalent(op_def, opset):
    old_opset(op_def.name, opset, [random(1, 2, 5, 5), random(2, 2, 3, 3)], pads=(1, 1, 1, 1), tolerance=1e-4)


def fact(*shape, dtype=DType.FLOAT32):
    return TensorFact(dtype, shape)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        pytest.param([fact(1, 4), fact(2, 4)], {}, "x has rank 2", id="no spatial axis"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3, 3)], {}, "w has rank 4", id="ranks differ"),
        pytest.param([fact(1, 4, 5), fact(2, 3, 3)], {}, "x has 4 channels, expected 1 groups of 3", id="channels"),
        pytest.param([fact(1, 4, 5), fact(3, 2, 3)], {"group": 2}, "3 feature maps", id="maps do not split"),
        pytest.param([fact(1, 4, 5), fact(3, 2, 3)], {"group": 0}, "group is 0", id="no group"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3)], {"kernel_shape": (2,)}, "kernel_shape", id="kernel differs"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3)], {"kernel_shape": (3, 1)}, "kernel_shape", id="kernel's rank"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3), fact(3)], {}, "bias", id="bias length"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3), fact(1, 2)], {}, "rank 2", id="bias rank"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 6)], {}, "reaches over 6", id="window too large"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3)], {"strides": (0,)}, "must be positive", id="stride 0"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3)], {"strides": (1, 1)}, "2 entries", id="strides too long"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3)], {"pads": (1,)}, "1 entries", id="pads too short"),
        pytest.param([fact(1, 4, 5), fact(2, 4, 3)], {"auto_pad": "SAME"}, "'SAME'", id="unknown auto_pad"),
    ],
)
def test_convolution_refuses(operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(Conv, operands, attributes, 1)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        pytest.param([fact(1, 4, 5), fact(4, 2)], {}, "w has rank 2", id="ranks differ"),
        pytest.param([fact(1, 4, 5), fact(3, 2, 3)], {}, "channels of x", id="channels"),
        pytest.param([fact(1, 3, 5), fact(3, 2, 3)], {"group": 2}, "do not split", id="groups"),
        pytest.param([fact(1, 4, 5), fact(4, 2, 3), fact(4)], {}, "bias", id="bias"),
        pytest.param([fact(1, 4, 1), fact(4, 2, 3)], {"pads": (2, 2)}, "removes all 3 elements", id="all cut off"),
        pytest.param([fact(1, 4, 5), fact(4, 2, 3)], {"pads": (2,)}, "1 entries", id="pads too short"),
        pytest.param([fact(1, 4, 5), fact(4, 2, 3)], {"output_padding": (1, 1)}, "2 entries", id="output_padding"),
    ],
)
def test_transposed_convolution_refuses(operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(ConvTranspose, operands, attributes, 1)


@pytest.mark.parametrize(
    ("offset", "mask", "attributes", "message"),
    [
        pytest.param(fact(1, 3, 4), None, {}, "axis 1 of offset", id="offsets"),
        pytest.param(fact(1, 2, 5), None, {}, "axis 2 of offset", id="places"),
        pytest.param(fact(1, 2, 4, 1), None, {}, "offset has rank 4", id="rank"),
        pytest.param(fact(1, 2, 4), fact(1, 3, 4), {}, "axis 1 of mask", id="mask"),
        pytest.param(fact(1, 2, 4), None, {"offset_group": 3}, "offset groups", id="groups"),
    ],
)
def test_deformable_convolution_refuses(offset, mask, attributes, message):
    operands = [fact(1, 4, 5), fact(2, 4, 2), offset, None, mask]
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(DeformConv, operands, attributes, 1)


def test_quantized_convolution_refuses_scales_that_fit_no_feature_map():
    byte, real = DType.UINT8, DType.FLOAT32
    operands = [
        *(fact(1, 2, 5, dtype=byte), fact(), fact(dtype=byte)),
        *(fact(3, 2, 2, dtype=byte), fact(2), fact(dtype=byte)),
        *(fact(dtype=real), fact(dtype=byte)),
    ]
    with pytest.raises(ShapeError, match="w_scale and feature maps"):
        Inference().infer_operator(QLinearConv, operands, {}, 1)
    operands[4], operands[1] = fact(), fact(2)
    with pytest.raises(ShapeError, match="x_scale has 2 elements"):
        Inference().infer_operator(QLinearConv, operands, {}, 1)


def test_an_empty_batch_has_an_empty_result():
    x, w = random(0, 2, 5), random(3, 2, 3)
    found = run_operator(Conv, [x, w])
    assert found[0].shape == (0, 3, 3)
    check_shapes(Conv, [x, w], found)


def test_samples_are_computed_a_part_at_a_time(monkeypatch):
    """With room for the windows of two of five samples the sums are the same, and no more are held at once."""
    r = np.random.default_rng(3)
    x, w = r.normal(size=(5, 4, 6, 7)), r.normal(size=(8, 2, 3, 3))
    whole = Conv(x, w, group=2, pads=(1, 1, 1, 1))
    monkeypatch.setattr(channels, "_ROOM", 2 * 4 * 9 * 42 * 8)
    counts = []
    matmul = np.matmul
    monkeypatch.setattr(channels.np, "matmul", lambda a, b: counts.append(len(b)) or matmul(a, b))
    assert np.array_equal(Conv(x, w, group=2, pads=(1, 1, 1, 1)), whole)
    assert counts == [2, 2, 1]
    assert Conv(x[:0], w, group=2).shape == (0, 8, 4, 5)

"""Layers one by one: against OpenCV where it has them, else against their definition in NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalize import is_canonical
from graphport.ir.verify import verify
from graphport.ops import registry
from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES
from tests.every import every
from tests.formats.caffe.networks import Network
from tests.formats.caffe.opencv import assert_agrees, inputs_for, outputs_of_opencv

X = (2, 6, 7, 9)
_RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def one_layer(type: str, shape=X, other=None, tops=1, blobs=(), **parameters: str) -> Network:
    net = Network("net")
    bottoms = [net.input("x", *shape)]
    if other is not None:
        bottoms.append(net.input("other", *other))
    top = "y" if tops == 1 else [f"y{index}" for index in range(tops)]
    net.layer(type, "y", *bottoms, top=top, blobs=blobs, **parameters)
    return net


def conv(text: str, *shape: int, bias: int = 0) -> dict:
    return {"convolution_param": text, "blobs": [normal(*shape), *([normal(bias)] if bias else [])]}


AGREEING = {
    "relu": ("ReLU", {}),
    "leaky relu": ("ReLU", {"relu_param": "negative_slope: 0.1"}),
    "relu6": ("ReLU6", {}),
    "prelu": ("PReLU", {"blobs": [normal(6)]}),
    "one slope": ("PReLU", {"blobs": [normal(1)], "prelu_param": "channel_shared: true"}),
    "elu": ("ELU", {"elu_param": "alpha: 1"}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("TanH", {"tanh_param": "engine: CAFFE"}),
    "absolute": ("AbsVal", {}),
    "softplus": ("BNLL", {}),
    "mish": ("Mish", {}),
    "swish": ("Swish", {}),
    "hard swish": ("HardSwish", {}),
    "dropout": ("Dropout", {"dropout_param": "dropout_ratio: 0.4"}),
    "power": ("Power", {"power_param": "power: 2 scale: 0.5 shift: 3"}),
    "linear": ("Power", {"power_param": "scale: -0.5 shift: 3"}),
    "exponential": ("Exp", {"exp_param": "base: 2 scale: 0.5 shift: 0.1"}),
    "natural exponential": ("Exp", {}),
    "softmax": ("Softmax", {}),
    "softmax of the last axis": ("Softmax", {"softmax_param": "axis: -1"}),
    "normalized across channels": ("LRN", {"lrn_param": "local_size: 5 alpha: 0.1 beta: 0.75"}),
    "normalized within a channel": ("LRN", {"lrn_param": "local_size: 3 alpha: 0.1 norm_region: WITHIN_CHANNEL"}),
    "mean and variance": ("MVN", {}),
    "mean alone, across channels": ("MVN", {"mvn_param": "across_channels: true normalize_variance: false"}),
    "statistics": ("BatchNorm", {"blobs": [normal(6), np.abs(normal(6)) + 0.5, [1.0]]}),
    "statistics with a factor": (
        "BatchNorm",
        {"blobs": [normal(6), np.abs(normal(6)) + 0.5, [999.0]], "batch_norm_param": "eps: 0.001"},
    ),
    "scale": ("Scale", {"blobs": [normal(6)]}),
    "scale and bias": ("Scale", {"blobs": [normal(6), normal(6)], "scale_param": "bias_term: true"}),
    "scale by a blob": ("Scale", {"other": (2, 6), "scale_param": "axis: 0"}),
    "normalized by channels": (
        "Normalize",
        {"blobs": [normal(6)], "norm_param": "across_spatial: false channel_shared: false"},
    ),
    "normalized by pictures": (
        "Normalize",
        {"blobs": [normal(1)], "norm_param": "across_spatial: true channel_shared: true"},
    ),
    "convolution": ("Convolution", conv("num_output: 4 kernel_size: 3", 4, 6, 3, 3, bias=4)),
    "groups, holes, steps": (
        "Convolution",
        conv(
            "num_output: 4 group: 2 kernel_h: 3 kernel_w: 5 pad_h: 1 pad_w: 2 stride: 2 dilation: 2", 4, 3, 3, 5, bias=4
        ),
    ),
    "no bias": ("Convolution", conv("num_output: 3 kernel_size: 1 bias_term: false", 3, 6, 1, 1)),
    "each channel by itself": (
        "ConvolutionDepthwise",
        conv("num_output: 6 kernel_size: 3 pad: 1 group: 6", 6, 1, 3, 3, bias=6),
    ),
    "transposed": ("Deconvolution", conv("num_output: 4 kernel_size: 4 stride: 2 pad: 1", 6, 4, 4, 4, bias=4)),
    "transposed, groups": (
        "Deconvolution",
        conv("num_output: 6 group: 6 kernel_size: 4 stride: 2 pad: 1 bias_term: false", 6, 1, 4, 4),
    ),
    "matrix": ("InnerProduct", {"blobs": [normal(5, 378), normal(5)], "inner_product_param": "num_output: 5"}),
    "matrix on the last axes": (
        "InnerProduct",
        {"blobs": [normal(5, 63), normal(5)], "inner_product_param": "num_output: 5 axis: 2"},
    ),
    "flattened": ("Flatten", {}),
    "flattened from axis 2": ("Flatten", {"flatten_param": "axis: 2"}),
    "flattened in the middle": ("Flatten", {"flatten_param": "axis: 1 end_axis: 2"}),
    "reshaped": ("Reshape", {"reshape_param": "shape { dim: 0 dim: 3 dim: -1 }"}),
    "reshaped in part": ("Reshape", {"reshape_param": "shape { dim: 2 dim: 3 } axis: 1 num_axes: 1"}),
    "permuted": ("Permute", {"permute_param": "order: 0 order: 2 order: 3 order: 1"}),
    "sum": ("Eltwise", {"other": X}),
    "difference": ("Eltwise", {"other": X, "eltwise_param": "coeff: 1 coeff: -0.5"}),
    "largest": ("Eltwise", {"other": X, "eltwise_param": "operation: MAX"}),
    "product": ("Eltwise", {"other": X, "eltwise_param": "operation: PROD"}),
    "concatenated": ("Concat", {"other": (2, 3, 7, 9)}),
    "concatenated on another axis": ("Concat", {"other": (2, 6, 7, 2), "concat_param": "axis: -1"}),
    "cropped": ("Crop", {"other": (2, 6, 4, 5), "crop_param": "axis: 2 offset: 1 offset: 2"}),
    "cropped at the corner": ("Crop", {"other": (2, 6, 4, 5)}),
    "interpolated": ("Interp", {"interp_param": "height: 13 width: 17"}),
    "zoomed": ("Interp", {"interp_param": "zoom_factor: 3"}),
    "shuffled": ("ShuffleChannel", {"shuffle_channel_param": "group: 3"}),
    "boxes": (
        "PriorBox",
        {
            "other": (2, 3, 40, 50),
            "prior_box_param": "min_size: 10 max_size: 15 aspect_ratio: 2 aspect_ratio: 3 flip: true clip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2",
        },
    ),
    "boxes within the picture": (
        "PriorBox",
        {
            "other": (2, 3, 40, 50),
            "prior_box_param": "min_size: 10 min_size: 20 flip: false clip: true step: 5 offset: 0.4 variance: 0.1",
        },
    ),
}


@every("case", AGREEING)
def test_a_layer_agrees_with_opencv(tmp_path, case):
    type, options = AGREEING[case]
    model = assert_agrees(one_layer(type, **options).save(tmp_path))
    verify(model.graph)
    assert is_canonical(model.graph)


WINDOWS = {
    "rounded up": "kernel_size: 3 stride: 2",
    "padded": "kernel_size: 3 stride: 2 pad: 1",
    "not square": "kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3 pad_h: 0 pad_w: 1",
    "exact": "kernel_size: 2 stride: 1",
    "steps as long as the kernel": "kernel_size: 3 stride: 3 pad: 1",
    "all": "global_pooling: true",
    "a last window in the padding is left out": "kernel_size: 2 stride: 2 pad: 1",
}


@pytest.mark.parametrize("pool", ["MAX", "AVE"])
@pytest.mark.parametrize("window", WINDOWS)
def test_pooling_agrees_with_opencv(tmp_path, pool, window):
    assert_agrees(one_layer("Pooling", pooling_param=f"pool: {pool} {WINDOWS[window]}").save(tmp_path))


@pytest.mark.parametrize("points", ["", "slice_point: 2", "axis: 3 slice_point: 4"])
def test_slice_outputs_cover_the_operand(tmp_path, points):
    model = gp.load(one_layer("Slice", tops=2, slice_param=points).save(tmp_path))
    inputs = inputs_for(model)
    pieces = gp.run(model, inputs)
    axis = 3 if "axis" in points else 1
    np.testing.assert_array_equal(np.concatenate(list(pieces.values()), axis), inputs["x"])


def x_of(shape=X) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


DEFINED = {
    "hard swish by its other name": ("HSwish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "each channel by itself": (
        "DepthwiseConvolution",
        {
            "blobs": [np.arange(6).reshape(6, 1, 1, 1)],
            "convolution_param": "num_output: 6 kernel_size: 1 bias_term: false",
        },
        lambda x: x * np.arange(6).reshape(6, 1, 1),
    ),
    "bias": ("Bias", {"blobs": [[1, 2, 3, 4, 5, 6]]}, lambda x: x + np.arange(1, 7).reshape(6, 1, 1)),
    "bias on two axes": (
        "Bias",
        {"blobs": [np.arange(63).reshape(7, 9)], "bias_param": "axis: -2 num_axes: 2"},
        lambda x: x + np.arange(63).reshape(7, 9),
    ),
    "one factor": ("Scale", {"blobs": [np.float32(3)], "scale_param": "num_axes: 0"}, lambda x: 3 * x),
    "threshold": ("Threshold", {"threshold_param": "threshold: 0.3"}, lambda x: x > 0.3),
    "clipped": ("Clip", {"clip_param": "min: -0.5 max: 0.25"}, lambda x: np.clip(x, -0.5, 0.25)),
    "logarithm": ("Log", {"log_param": "base: 2 shift: 10 scale: 0.5"}, lambda x: np.log2(10 + 0.5 * x)),
    "swish with a factor": ("Swish", {"swish_param": "beta: 2"}, lambda x: x / (1 + np.exp(-2 * x))),
    "hard sigmoid": ("HardSigmoid", {}, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "dropout that inference scales": (
        "Dropout",
        {"dropout_param": "dropout_ratio: 0.4 scale_train: false"},
        lambda x: 0.6 * x,
    ),
    "tiled": ("Tile", {"tile_param": "axis: 2 tiles: 3"}, lambda x: np.tile(x, (1, 1, 3, 1))),
    "repeated": ("Upsample", {"upsample_param": "scale: 2"}, lambda x: x.repeat(2, 2).repeat(2, 3)),
    "mean": ("Reduction", {"reduction_param": "operation: MEAN axis: 1"}, lambda x: x.mean((1, 2, 3))),
    "sum of squares": (
        "Reduction",
        {"reduction_param": "operation: SUMSQ axis: 2 coeff: 2"},
        lambda x: 2 * (x * x).sum((2, 3)),
    ),
    "sum of magnitudes of all": ("Reduction", {"reduction_param": "operation: ASUM"}, lambda x: np.abs(x).sum()),
    "place of the largest": ("ArgMax", {}, lambda x: x.reshape(2, -1).argmax(1).reshape(2, 1, 1, 1)),
    "places and the largest": (
        "ArgMax",
        {"argmax_param": "out_max_val: true"},
        lambda x: np.stack([x.reshape(2, -1).argmax(1), x.reshape(2, -1).max(1)], 1)[..., None, None],
    ),
    "places on an axis": ("ArgMax", {"argmax_param": "axis: 1"}, lambda x: x.argmax(1)[:, None]),
    "several of the largest": (
        "ArgMax",
        {"argmax_param": "axis: 1 top_k: 2 out_max_val: true"},
        lambda x: -np.sort(-x, 1)[:, :2],
    ),
    "transposed weights": (
        "InnerProduct",
        {"blobs": [np.eye(378, 4)], "inner_product_param": "num_output: 4 transpose: true bias_term: false"},
        lambda x: x.reshape(2, -1)[:, :4],
    ),
    "repeated interpolation": ("Interp", {"interp_param": "shrink_factor: 2"}, lambda x: x[:, :, ::2, ::2]),
    "constant for inference": (
        "BN",
        {"blobs": [np.full((1, 6, 1, 1), 2.0), np.full((1, 6, 1, 1), 1.0)], "bn_param": "bn_mode: INFERENCE"},
        lambda x: 2 * x + 1,
    ),
    "statistics of the batch": (
        "BatchNorm",
        {"batch_norm_param": "use_global_stats: false"},
        lambda x: (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5),
    ),
    "shifted window": ("LRN", {"lrn_param": "local_size: 1 alpha: 0.5 beta: 1 k: 3"}, lambda x: x / (3 + 0.5 * x * x)),
    "reshaped behind the end": (
        "Reshape",
        {"reshape_param": "shape { dim: 1 } axis: -1 num_axes: 0"},
        lambda x: x[..., None],
    ),
    "pyramid of one": ("SPP", {"spp_param": "pyramid_height: 1 pool: AVE"}, lambda x: x.mean((2, 3))),
}


@every("case", DEFINED)
def test_layer_matches_its_definition(tmp_path, case):
    type, options, expected = DEFINED[case]
    model = gp.load(one_layer(type, **options).save(tmp_path))
    x = x_of()
    wanted = np.asarray(expected(x), np.float32)
    for backend in ("onnxruntime", "reference"):
        found = gp.run(model, {"x": x}, backend=backend)["y"]
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_spp_has_all_pyramid_levels(tmp_path):
    model = gp.load(one_layer("SPP", (1, 2, 8, 8), spp_param="pyramid_height: 3").save(tmp_path))
    x = x_of((1, 2, 8, 8))
    levels = [x.reshape(1, 2, n, 8 // n, n, 8 // n).max((3, 5)).reshape(1, -1) for n in (1, 2, 4)]
    np.testing.assert_array_equal(gp.run(model, {"x": x})["y"], np.concatenate(levels, 1))


def test_axpy_scales_and_adds(tmp_path):
    net = Network("net")
    names = [net.input("a", 2, 6, 1, 1), net.input("x", *X), net.input("z", *X)]
    net.layer("Axpy", "y", *names)
    a, x, z = normal(2, 6, 1, 1), normal(*X), normal(*X)
    found = gp.run(gp.load(net.save(tmp_path)), {"a": a, "x": x, "z": z})["y"]
    np.testing.assert_allclose(found, a * x + z, rtol=1e-5, atol=1e-6)


def test_crop_supports_dynamic_dims(tmp_path):
    net = Network("net")
    net.input("x", 1, 2, 0, 0)
    net.input("other", 1, 2, 0, 0)
    net.layer("Crop", "y", "x", "other", crop_param="offset: 1")
    model = gp.load(net.save(tmp_path))
    x, other = x_of((1, 2, 9, 8)), x_of((1, 2, 4, 5))
    np.testing.assert_array_equal(gp.run(model, {"x": x, "other": other})["y"], x[:, :, 1:5, 1:6])


def test_upsample_restores_pooled_positions(tmp_path):
    net = Network("net")
    net.input("x", 1, 2, 4, 6)
    net.layer("Pooling", "pool", "x", top=["small", "places"], pooling_param="pool: MAX kernel_size: 2 stride: 2")
    net.layer("Upsample", "y", "small", "places", upsample_param="scale: 2")
    x = x_of((1, 2, 4, 6))
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x}, backend="reference")["y"]
    largest = x.reshape(1, 2, 2, 2, 3, 2).max((3, 5)).repeat(2, 2).repeat(2, 3)
    np.testing.assert_array_equal(found, np.where(x == largest, x, 0))


def test_rows_of_a_table(tmp_path):
    net = Network("net")
    net.input("x", 2, 3)
    net.layer("Embed", "y", "x", blobs=[net.normal(5, 4), net.normal(4)], embed_param="num_output: 4 input_dim: 5")
    rows = np.array([[0, 1, 4], [3, 3, 2]], np.float32)
    table, bias = net.weights["y"]
    found = gp.run(gp.load(net.save(tmp_path)), {"x": rows})["y"]
    np.testing.assert_allclose(found, table[rows.astype(int)] + bias, rtol=1e-6)


def test_entries_of_the_batch_are_chosen(tmp_path):
    net = Network("net")
    names = [net.input("x", 4, 3), net.input("other", 4)]
    net.layer("BatchReindex", "y", *names)
    net.layer("Filter", "z", *names)
    x, other = x_of((4, 3)), np.array([1, 0, 0, 3], np.float32)
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x, "other": other})
    np.testing.assert_array_equal(found["y"], x[[1, 0, 0, 3]])
    np.testing.assert_array_equal(found["z"], x[[0, 3]])


def test_roipooling_matches_opencv(tmp_path):
    path = one_layer(
        "ROIPooling", (1, 3, 8, 8), (2, 5), roi_pooling_param="pooled_h: 2 pooled_w: 2 spatial_scale: 1"
    ).save(tmp_path)
    inputs = {"x": x_of((1, 3, 8, 8)), "other": np.array([[0, 0, 0, 7, 7], [0, 2, 1, 5, 6]], np.float32)}
    found = gp.run(gp.load(path), inputs, backend="reference")["y"]
    np.testing.assert_allclose(found, outputs_of_opencv(path, inputs, ["y"])["y"], rtol=1e-6)


@every(
    ("type", "options", "match"),
    [
        pytest.param("InnerProduct", {}, "missing num_output", id="a parameter that must be there"),
        pytest.param("ReLU", {"tops": 2}, "2 tops, but the layer computes 1", id="more tops than it makes"),
        pytest.param(
            "PriorBox",
            {"other": X, "prior_box_param": "min_size: 3 aspect_ratio: inf"},
            "aspect_ratio is inf",
            id="a ratio without end",
        ),
        pytest.param("Convolution", {"convolution_param": "num_output: 4"}, "missing kernel_size", id="no kernel"),
        pytest.param("Convolution", {"convolution_param": "kernel_size: 3"}, "num_output is 0", id="no outputs"),
        pytest.param(
            "Convolution",
            {"convolution_param": "num_output: 4 group: 4 kernel_size: 3"},
            "into 4 equal groups",
            id="groups that do not fit",
        ),
        pytest.param(
            "Convolution",
            {"convolution_param": "num_output: 4 kernel_size: 3 kernel_size: 3 kernel_size: 3"},
            "3 values for 2 axes",
            id="too many entries",
        ),
        pytest.param(
            "Convolution",
            {"convolution_param": "num_output: 4 kernel_size: 0"},
            "must be positive",
            id="an empty kernel",
        ),
        pytest.param(
            "Convolution",
            {"convolution_param": "num_output: 4 kernel_size: 3 kernel_h: 3"},
            "set it in one way",
            id="a kernel said twice",
        ),
        pytest.param(
            "Convolution",
            {"convolution_param": "num_output: 4 kernel_size: 30"},
            "smaller kernel",
            id="a kernel that does not fit",
        ),
        pytest.param(
            "Pooling",
            {"pooling_param": "kernel_size: 2 pad: 2"},
            "less than the kernel",
            id="padding of at least the kernel size",
        ),
        pytest.param(
            "Pooling",
            {"pooling_param": "global_pooling: true kernel_size: 2"},
            "global_pooling with kernel_size",
            id="global with a kernel",
        ),
        pytest.param("LRN", {"lrn_param": "local_size: 4"}, "local_size is 4", id="a window without middle"),
        pytest.param(
            "Softmax", {"softmax_param": "axis: 4"}, "axis 4 is out of range for a blob of rank 4", id="no such axis"
        ),
        pytest.param(
            "Reshape", {"reshape_param": "shape { dim: -1 dim: -1 }"}, "at most one -1", id="two extents left open"
        ),
        pytest.param("Reshape", {"reshape_param": "shape { dim: 5 dim: 5 }"}, "", id="another number of entries"),
        pytest.param("Slice", {"tops": 4}, "into 4 equal parts", id="pieces that are not equal"),
        pytest.param("Slice", {"tops": 2, "slice_param": "slice_point: 9"}, "increasing", id="a point behind the end"),
        pytest.param("Permute", {"permute_param": "order: 1 order: 1"}, "write each axis once", id="an axis twice"),
        pytest.param("Eltwise", {"other": X, "eltwise_param": "coeff: 1"}, "1 coefficients", id="too few coefficients"),
        pytest.param("Eltwise", {"other": (2, 6, 1, 1)}, "use equal shapes", id="another shape"),
        pytest.param("Crop", {"other": (2, 6, 8, 5)}, "too small for a crop", id="more than there is"),
        pytest.param("Crop", {}, "1 bottoms, expected 2", id="a bottom missing"),
        pytest.param("Tile", {"tile_param": "tiles: 0"}, "tiles is 0", id="no copies"),
        pytest.param(
            "SPP", {"spp_param": "pyramid_height: 4000000000"}, "not less than the kernel", id="a pyramid without end"
        ),
        pytest.param("PriorBox", {"other": X}, "at least one min_size", id="boxes of no size"),
    ],
)
def test_a_wrong_layer_is_an_error(tmp_path, type, options, match):
    findings = [finding for finding in gp.check(one_layer(type, **options).save(tmp_path)) if finding.is_error]
    assert [finding.code for finding in findings] == ["SHAPE0001"]
    assert match in f"{findings[0].message} {findings[0].help}"
    assert findings[0].span.line == 2 + 1 + ("other" in options)


@pytest.mark.parametrize(
    ("type", "options"),
    [
        ("BatchNorm", {"shape": (1, 4_000_000_000, 1, 1)}),
        ("Im2col", {"shape": (1, 4_000_000_000, 9, 9), "convolution_param": "kernel_size: 3"}),
        ("PriorBox", {"shape": (1, 1, 90_000, 90_000), "other": (1, 3, 9, 9), "prior_box_param": "min_size: 3"}),
        ("Pooling", {"pooling_param": "pool: STOCHASTIC kernel_size: 2"}),
        ("Pooling", {"pooling_param": "kernel_size: 1 stride: 3", "shape": (1, 1, 5, 5)}),
        ("Eltwise", {"other": X, "eltwise_param": "operation: DIV"}),
        ("Convolution", {"convolution_param": "num_output: 4 kernel_size: 3 axis: 2"}),
        ("Accuracy", {"other": (2, 7, 9), "tops": 2}),
    ],
)
def test_op_types_without_canonical_form_are_unchanged(tmp_path, type, options):
    model = gp.load(one_layer(type, **options).save(tmp_path))
    assert [node.op for node in model.graph] == [f"caffe.{type}"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.25),
        ("accuracy_param { top_k: 2 }", 0.75),
        ("accuracy_param { ignore_label: 0 }", 1 / 3),
        ("accuracy_param { top_k: 3 }", 1.0),
    ],
)
def test_how_many_labels_are_among_the_first(tmp_path, text, expected):
    net = Network("net")
    names = [net.input("x", 4, 3), net.input("label", 4)]
    net.layer("Accuracy", "y", *names)
    net.lines[-1] = net.lines[-1][:-1] + text + "}"
    x = np.array([[3, 2, 1], [1, 2, 3], [2, 3, 1], [1, 1, 0]], np.float32)
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x, "label": np.array([2, 2, 0, 1], np.float32)})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_losses(tmp_path):
    net = Network("net")
    x, t, label = (
        net.normal(4, 3),
        net.random.uniform(0, 1, (4, 3)).astype(np.float32),
        np.array([0, 2, 1, 2], np.float32),
    )
    inputs = {"x": x, "t": t, "label": label}
    for name, array in inputs.items():
        net.input(name, *array.shape)
    net.layer("SigmoidCrossEntropyLoss", "sigmoid", "x", "t")
    net.layer("MultinomialLogisticLoss", "log", "t", "label")
    net.layer("HingeLoss", "hinge", "x", "label", hinge_loss_param="norm: L2")
    net.layer("ContrastiveLoss", "pairs", "x", "t", "label", contrastive_loss_param="margin: 2")
    found = gp.run(gp.load(net.save(tmp_path)), inputs)
    p, rows = 1 / (1 + np.exp(-x)), np.arange(4)
    signs = np.where(np.arange(3) == label[:, None], -1, 1)
    distance = np.sqrt(((x - t) ** 2).sum(1))
    expected = {
        "sigmoid": -(t * np.log(p) + (1 - t) * np.log(1 - p)).sum() / 4,
        "log": -np.log(t[rows, label.astype(int)]).sum() / 4,
        "hinge": (np.maximum(1 + signs * x, 0) ** 2).sum() / 4,
        "pairs": np.where(label != 0, distance**2, np.maximum(2 - distance, 0) ** 2).sum() / 8,
    }
    for name, number in expected.items():
        np.testing.assert_allclose(found[name], number, rtol=1e-4)


def test_windows_become_channels(tmp_path):
    model = gp.load(
        one_layer("Im2col", (2, 3, 5, 6), convolution_param="kernel_size: 2 stride: 2 pad: 1").save(tmp_path)
    )
    x = x_of((2, 3, 5, 6))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (2, 3))[:, :, ::2, ::2]
    expected = windows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 12, 3, 4)
    np.testing.assert_array_equal(gp.run(model, {"x": x})["y"], expected)


def test_every_rule_has_a_case():
    registry.load("caffe")
    cases = "".join(path.read_text() for path in sorted(Path(__file__).parent.glob("test_*.py"))).replace("'", '"')
    words = [op_type for dialect, op_type in (*IMPORT_RULES, *EXPORT_RULES) if dialect == "caffe"]
    assert [op_type for op_type in words if f'"{op_type}"' not in cases] == []

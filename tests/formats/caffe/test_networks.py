"""Whole networks with the parameters of well-known ones, narrow and small, against OpenCV and through other formats."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.formats.caffe import read
from tests.formats.caffe.networks import Network
from tests.formats.caffe.opencv import assert_agrees, inputs_for, outputs_of_opencv


def resnet() -> Network:
    net = Network("resnet")
    net.input("data", 1, 3, 64, 64)
    net.conv("conv1", "data", 3, 16, 7, more="pad: 3 stride: 2")
    net.batch_norm("conv1", "conv1", 16, factor=999.98)
    net.relu("conv1", "conv1")
    x = net.layer("Pooling", "pool1", "conv1", pooling_param="kernel_size: 3 stride: 2 pool: MAX")
    channels = 16
    for stage, (width, stride) in enumerate([(8, 1), (16, 2)]):
        for block in range(2):
            name = f"res{stage}{'ab'[block]}"
            step = f"stride: {stride if block == 0 else 1}"
            shortcut = x
            if block == 0:
                shortcut = net.conv(f"{name}_branch1", x, channels, width * 4, 1, bias=False, more=step)
                net.batch_norm(f"{name}_branch1", shortcut, width * 4)
            y = net.conv(f"{name}_branch2a", x, channels, width, 1, bias=False, more=step)
            net.batch_norm(y, y, width)
            net.relu(y, y)
            y = net.conv(f"{name}_branch2b", y, width, width, 3, bias=False, more="pad: 1")
            net.batch_norm(y, y, width)
            net.relu(y, y)
            y = net.conv(f"{name}_branch2c", y, width, width * 4, 1, bias=False)
            net.batch_norm(y, y, width * 4)
            x = net.layer("Eltwise", name, shortcut, y)
            net.relu(name, x)
            channels = width * 4
    net.layer("Pooling", "pool5", x, pooling_param="kernel_size: 8 stride: 1 pool: AVE")
    net.layer(
        "InnerProduct", "fc", "pool5", blobs=[net.normal(10, 64), net.normal(10)], inner_product_param="num_output: 10"
    )
    net.layer("Softmax", "prob", "fc")
    return net


def mobilenet() -> Network:
    net = Network("mobilenet")
    net.input("data", 1, 3, 32, 32)
    x = net.conv("conv1", "data", 3, 8, 3, bias=False, more="pad: 1 stride: 2")
    net.batch_norm("conv1", x, 8)
    net.relu("conv1", x)
    channels = 8
    for index, (width, stride) in enumerate([(16, 1), (24, 2), (24, 1)]):
        more = f"pad: 1 stride: {stride} engine: CAFFE"
        type = "ConvolutionDepthwise" if index % 2 else "Convolution"
        x = net.conv(f"conv{index}/dw", x, channels, channels, 3, bias=False, group=channels, more=more, type=type)
        net.batch_norm(x, x, channels)
        net.layer("ReLU6", f"relu_{x}", x, top=x)
        y = net.conv(f"conv{index}/sep", x, channels, width, 1, bias=False)
        net.batch_norm(y, y, width)
        net.relu(y, y)
        x, channels = y, width
    net.layer("Pooling", "pool6", x, pooling_param="pool: AVE global_pooling: true")
    net.conv("fc7", "pool6", channels, 10, 1)
    net.layer("Softmax", "prob", "fc7")
    return net


def googlenet() -> Network:
    net = Network("googlenet")
    net.input("data", 1, 3, 56, 56)
    x = net.conv("conv1/7x7_s2", "data", 3, 8, 7, more="pad: 3 stride: 2")
    net.relu("conv1", x)
    x = net.layer("Pooling", "pool1/3x3_s2", x, pooling_param="pool: MAX kernel_size: 3 stride: 2")
    x = net.layer("LRN", "pool1/norm1", x, lrn_param="local_size: 5 alpha: 0.0001 beta: 0.75")
    channels = 8
    for index in (1, 2):
        name = f"inception_{index}"
        one = net.conv(f"{name}/1x1", x, channels, 6, 1)
        three = net.conv(f"{name}/3x3", net.conv(f"{name}/3x3_reduce", x, channels, 4, 1), 4, 8, 3, more="pad: 1")
        five = net.conv(f"{name}/5x5", net.conv(f"{name}/5x5_reduce", x, channels, 2, 1), 2, 4, 5, more="pad: 2")
        pooled = net.layer("Pooling", f"{name}/pool", x, pooling_param="pool: MAX kernel_size: 3 stride: 1 pad: 1")
        four = net.conv(f"{name}/pool_proj", pooled, channels, 4, 1)
        for branch in (one, three, five, four):
            net.relu(branch, branch)
        x = net.layer("Concat", f"{name}/output", one, three, five, four)
        channels = 22
    x = net.layer("Pooling", "pool5", x, pooling_param="pool: AVE kernel_size: 7 stride: 1")
    net.layer("Dropout", "pool5/drop", x, top=x, dropout_param="dropout_ratio: 0.4")
    net.layer(
        "InnerProduct",
        "loss3/classifier",
        x,
        blobs=[net.normal(10, 22 * 64), net.normal(10)],
        inner_product_param="num_output: 10",
    )
    net.layer("Softmax", "prob", "loss3/classifier")
    return net


def unet() -> Network:
    net = Network("unet")
    net.input("data", 1, 1, 44, 44)
    left = net.conv("d0b", net.relu("d0a", net.conv("d0a", "data", 1, 8, 3)), 8, 8, 3)
    net.relu("d0b", left)
    x = net.layer("Pooling", "pool0", left, pooling_param="pool: MAX kernel_size: 2 stride: 2")
    x = net.conv("d1", x, 8, 16, 3)
    net.layer("PReLU", "slope", x, top=x, blobs=[np.full(16, 0.25)])
    x = net.conv("up", x, 16, 8, 2, more="stride: 2", type="Deconvolution")
    net.layer("Crop", "crop", left, x, crop_param="axis: 2 offset: 2")
    x = net.layer("Concat", "both", x, "crop", concat_param="axis: 1")
    x = net.conv("u0", x, 16, 8, 3)
    net.relu("u0", x)
    net.conv("score", x, 8, 2, 1)
    net.layer("Softmax", "prob", "score")
    return net


def detector(**options: object) -> Network:
    """SSD's heads on two maps; `options` change the last layer."""
    said = {
        "share_location": "true",
        "code_type": "CENTER_SIZE",
        "keep_top_k": 20,
        "confidence_threshold": 0.2,
        "top_k": 100,
        "batch": 1,
    } | options
    net, classes, priors = Network("ssd"), 4, 3
    net.input("data", said["batch"], 3, 32, 32)
    maps = {"f1": net.conv("f1", "data", 3, 8, 3, more="pad: 1 stride: 4")}
    maps["f2"] = net.conv("f2", net.relu("f1", "f1"), 8, 8, 3, more="pad: 1 stride: 2")
    locations = 1 if said["share_location"] == "true" else classes
    heads: dict[str, list[str]] = {"loc": [], "conf": [], "priorbox": []}
    for name, x in maps.items():
        scaled = net.layer(
            "Normalize",
            f"{name}_norm",
            x,
            blobs=[np.full(8, 5.0)],
            norm_param="across_spatial: false channel_shared: false",
        )
        for head, count in (("loc", 4 * locations), ("conf", classes)):
            y = net.conv(f"{name}_{head}", scaled, 8, priors * count, 3, more="pad: 1")
            y = net.layer("Permute", f"{y}_perm", y, permute_param="order: 0 order: 2 order: 3 order: 1")
            heads[head].append(net.layer("Flatten", f"{y}_flat", y, flatten_param="axis: 1"))
        size = 8 if name == "f1" else 16
        parameters = f"min_size: {size} aspect_ratio: 2 flip: true clip: false variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"
        heads["priorbox"].append(net.layer("PriorBox", f"{name}_priorbox", x, "data", prior_box_param=parameters))
    for head, parts in heads.items():
        net.layer("Concat", head, *parts, concat_param=f"axis: {2 if head == 'priorbox' else 1}")
    net.layer("Reshape", "conf_reshape", "conf", reshape_param=f"shape {{ dim: 0 dim: -1 dim: {classes} }}")
    net.layer("Softmax", "conf_softmax", "conf_reshape", softmax_param="axis: 2")
    net.layer("Flatten", "conf_flatten", "conf_softmax", flatten_param="axis: 1")
    text = f"num_classes: {classes} background_label_id: 0 nms_param {{ nms_threshold: 0.45 top_k: {said['top_k']} }}"
    text += "".join(
        f" {name}: {said[name]}" for name in ("share_location", "code_type", "keep_top_k", "confidence_threshold")
    )
    net.layer("DetectionOutput", "found", "loc", "conf_flatten", "priorbox", detection_output_param=text)
    return net


NETWORKS = {"resnet": resnet, "mobilenet": mobilenet, "googlenet": googlenet, "unet": unet}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_agrees_with_opencv(tmp_path, name):
    assert_agrees(NETWORKS[name]().save(tmp_path))


@pytest.mark.parametrize("name", NETWORKS)
def test_network_converts_to_onnx_and_back(tmp_path, name):
    path = NETWORKS[name]().save(tmp_path)
    assert gp.convert(path, tmp_path / "there.onnx").passed
    report = gp.convert(tmp_path / "there.onnx", tmp_path / "back.prototxt")
    assert report.passed
    assert report.verification is not None
    model = gp.load(path)
    inputs = inputs_for(model)
    ours, theirs = (
        gp.run(model, inputs)["prob"],
        outputs_of_opencv(tmp_path / "back.prototxt", inputs, ["prob"])["prob"],
    )
    np.testing.assert_allclose(ours, theirs, atol=2e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_network_round_trips(tmp_path, name):
    path = NETWORKS[name]().save(tmp_path)
    gp.convert(path, tmp_path / "same.prototxt")
    (first, _), (second, _) = read(path), read(tmp_path / "same.prototxt")
    for one, other in zip(first, second, strict=True):
        assert (one.op, one.name, one.attributes) == (other.op, other.name, other.attributes)
        assert [value.name for value in one.operands] == [value.name for value in other.operands]
        assert [value.name for value in one.results] == [value.name for value in other.results]
    for one, other in zip(first.constants, second.constants, strict=True):
        np.testing.assert_array_equal(one.storage.numpy(), other.storage.numpy())
    assert_agrees(tmp_path / "same.prototxt")


def rows(found: np.ndarray) -> np.ndarray:
    """Detections in an order of their own, without blank rows."""
    kept = found.reshape(-1, 7)
    kept = kept[kept[:, 2] > 0]
    return kept[np.lexsort(kept.round(3).T)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="centre and size"),
        pytest.param({"code_type": "CORNER"}, id="corners"),
        pytest.param({"batch": 2}, id="two pictures"),
        pytest.param({"share_location": "false"}, id="boxes for each class"),
        pytest.param({"keep_top_k": 3}, id="the best three"),
        pytest.param({"top_k": 5}, id="five candidates a class"),
        pytest.param({"confidence_threshold": 0.9999}, id="nothing found"),
    ],
)
def test_detections_agree_with_opencv(tmp_path, options):
    path = detector(**options).save(tmp_path)
    model = gp.load(path)
    inputs = inputs_for(model)
    theirs = rows(outputs_of_opencv(path, inputs, ["found"])["found"])
    for backend in ("onnxruntime", "reference"):
        ours = rows(gp.run(model, inputs, backend=backend)["found"])
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=2e-4)


def test_detector_without_detections_returns_placeholder_rows(tmp_path):
    model = gp.load(detector(confidence_threshold=0.9999, batch=2).save(tmp_path))
    found = gp.run(model, inputs_for(model))["found"]
    np.testing.assert_array_equal(found[0, 0], [[0, *[-1] * 6], [1, *[-1] * 6]])


def test_detector_round_trips(tmp_path):
    path = detector().save(tmp_path)
    assert gp.convert(path, tmp_path / "same.prototxt").passed
    (first, _), (second, _) = read(path), read(tmp_path / "same.prototxt")
    assert first.last_node.attributes == second.last_node.attributes

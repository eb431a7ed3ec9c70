"""Networks as they were published, layer by layer and at full width, with random weights.

ResNet-50 (He et al. 2015), MobileNet 1.0 (Howard et al. 2017), GoogLeNet (Szegedy et al. 2014), SSD300 on VGG-16 (Liu et
al. 2016) and U-Net (Ronneberger et al. 2015), in the parameters of their files for Caffe.
"""

from __future__ import annotations

import numpy as np

from tests.formats.caffe.networks import Network


def dense(net: Network, name: str, bottom: str, count: int, outputs: int) -> str:
    blobs = [net.normal(outputs, count) / np.sqrt(count), net.normal(outputs)]
    return net.layer("InnerProduct", name, bottom, blobs=blobs, inner_product_param=f"num_output: {outputs}")


def pool(net: Network, name: str, bottom: str, said: str) -> str:
    return net.layer("Pooling", name, bottom, pooling_param=said)


def normed(net: Network, name: str, bottom: str, c: int, n: int, k: int, more: str = "", *, group: int = 1) -> str:
    x = net.conv(name, bottom, c, n, k, bias=False, group=group, more=more)
    return net.batch_norm(name, x, n, factor=999.98)


def resnet50() -> Network:
    net = Network("resnet50")
    net.input("data", 1, 3, 224, 224)
    x = net.relu("conv1", normed(net, "conv1", "data", 3, 64, 7, "pad: 3 stride: 2"))
    x = pool(net, "pool1", x, "kernel_size: 3 stride: 2 pool: MAX")
    channels = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 2):
        for block in range(blocks):
            name = f"res{stage}{'abcdef'[block]}"
            stride = f"stride: {2 if stage > 2 and block == 0 else 1}"
            side = x if block else normed(net, f"{name}_branch1", x, channels, 4 * width, 1, stride)
            y = net.relu(f"{name}_2a", normed(net, f"{name}_branch2a", x, channels, width, 1, stride))
            y = net.relu(f"{name}_2b", normed(net, f"{name}_branch2b", y, width, width, 3, "pad: 1"))
            y = normed(net, f"{name}_branch2c", y, width, 4 * width, 1)
            x = net.relu(name, net.layer("Eltwise", name, side, y))
            channels = 4 * width
    x = pool(net, "pool5", x, "kernel_size: 7 stride: 1 pool: AVE")
    net.layer("Softmax", "prob", dense(net, "fc1000", x, 2048, 1000))
    return net


def mobilenet() -> Network:
    net = Network("mobilenet")
    net.input("data", 1, 3, 224, 224)
    x = net.relu("conv1", normed(net, "conv1", "data", 3, 32, 3, "pad: 1 stride: 2"))
    channels = 32
    widths = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for index, (width, stride) in enumerate(widths):
        said = f"pad: 1 engine: CAFFE stride: {stride}"
        x = net.relu(f"{index}/dw", normed(net, f"conv{index}/dw", x, channels, channels, 3, said, group=channels))
        x = net.relu(f"{index}/sep", normed(net, f"conv{index}/sep", x, channels, width, 1))
        channels = width
    x = pool(net, "pool6", x, "pool: AVE global_pooling: true")
    net.layer("Softmax", "prob", net.conv("fc7", x, channels, 1000, 1))
    return net


INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Outputs of a block's 1x1, 3x3_reduce, 3x3, 5x5_reduce, 5x5 and pool_proj."""


def googlenet() -> Network:
    net = Network("googlenet")
    net.input("data", 1, 3, 224, 224)
    norm = {"lrn_param": "local_size: 5 alpha: 0.0001 beta: 0.75"}
    x = net.relu("1", net.conv("conv1/7x7_s2", "data", 3, 64, 7, more="pad: 3 stride: 2"))
    x = net.layer("LRN", "pool1/norm1", pool(net, "pool1", x, "pool: MAX kernel_size: 3 stride: 2"), **norm)
    x = net.relu("2a", net.conv("conv2/3x3_reduce", x, 64, 64, 1))
    x = net.relu("2b", net.conv("conv2/3x3", x, 64, 192, 3, more="pad: 1"))
    x = pool(net, "pool2", net.layer("LRN", "conv2/norm2", x, **norm), "pool: MAX kernel_size: 3 stride: 2")
    channels = 192
    for block, (one, three_in, three, five_in, five, projected) in INCEPTIONS.items():
        name = f"inception_{block}"
        branches = [net.conv(f"{name}/1x1", x, channels, one, 1)]
        for k, inner, outer in ((3, three_in, three), (5, five_in, five)):
            y = net.relu(f"{name}/{k}r", net.conv(f"{name}/{k}x{k}_reduce", x, channels, inner, 1))
            branches.append(net.conv(f"{name}/{k}x{k}", y, inner, outer, k, more=f"pad: {k // 2}"))
        y = pool(net, f"{name}/pool", x, "pool: MAX kernel_size: 3 stride: 1 pad: 1")
        branches.append(net.conv(f"{name}/pool_proj", y, channels, projected, 1))
        x = net.layer("Concat", f"{name}/output", *(net.relu(branch, branch) for branch in branches))
        channels = one + three + five + projected
        if block in ("3b", "4e"):
            x = pool(net, f"{name}/down", x, "pool: MAX kernel_size: 3 stride: 2")
    x = pool(net, "pool5/7x7_s1", x, "pool: AVE kernel_size: 7 stride: 1")
    x = net.layer("Dropout", "pool5/drop", x, top=x, dropout_param="dropout_ratio: 0.4")
    net.layer("Softmax", "prob", dense(net, "loss3/classifier", x, 1024, 1000))
    return net


def unet() -> Network:
    net = Network("unet")
    net.input("data", 1, 1, 188, 188)
    x, channels, sides = "data", 1, list[tuple[str, int]]()
    for level in range(5):
        width = 64 << level
        for part in "ab":
            x = net.relu(f"d{level}{part}", net.conv(f"d{level}{part}", x, channels, width, 3))
            channels = width
        if level < 4:
            sides.append((x, width))
            x = pool(net, f"pool{level}", x, "pool: MAX kernel_size: 2 stride: 2")
    for level in reversed(range(4)):
        side, width = sides[level]
        x = net.conv(f"up{level}", x, channels, width, 2, more="stride: 2", type="Deconvolution")
        x = net.relu(f"up{level}", x)
        cut = net.layer("Crop", f"crop{level}", side, x, crop_param=f"axis: 2 offset: {(4, 16, 40, 88)[3 - level]}")
        x = net.layer("Concat", f"both{level}", x, cut)
        channels = 2 * width
        for part in "ab":
            x = net.relu(f"u{level}{part}", net.conv(f"u{level}{part}", x, channels, width, 3))
            channels = width
    net.layer("Softmax", "prob", net.conv("score", x, 64, 2, 1))
    return net


VGG = (("1", 2, 64), ("2", 2, 128), ("3", 3, 256), ("4", 3, 512), ("5", 3, 512))
HEADS = {
    "conv4_3_norm": (512, "min_size: 30 max_size: 60 aspect_ratio: 2 step: 8", 4),
    "fc7": (1024, "min_size: 60 max_size: 111 aspect_ratio: 2 aspect_ratio: 3 step: 16", 6),
    "conv6_2": (512, "min_size: 111 max_size: 162 aspect_ratio: 2 aspect_ratio: 3 step: 32", 6),
    "conv7_2": (256, "min_size: 162 max_size: 213 aspect_ratio: 2 aspect_ratio: 3 step: 64", 6),
    "conv8_2": (256, "min_size: 213 max_size: 264 aspect_ratio: 2 step: 100", 4),
    "conv9_2": (256, "min_size: 264 max_size: 315 aspect_ratio: 2 step: 300", 4),
}


def ssd300() -> Network:
    net, classes = Network("ssd300"), 21
    net.input("data", 1, 3, 300, 300)
    x, channels = "data", 3
    for stage, count, width in VGG:
        for index in range(1, count + 1):
            x = net.relu(f"{stage}_{index}", net.conv(f"conv{stage}_{index}", x, channels, width, 3, more="pad: 1"))
            channels = width
        last = "kernel_size: 3 stride: 1 pad: 1" if stage == "5" else "kernel_size: 2 stride: 2"
        x = pool(net, f"pool{stage}", x, f"pool: MAX {last}")
    scales = {"blobs": [np.full(512, 20)], "norm_param": "across_spatial: false channel_shared: false"}
    net.layer("Normalize", "conv4_3_norm", "conv4_3", **scales)
    x = net.relu("fc6", net.conv("fc6", x, 512, 1024, 3, more="pad: 6 dilation: 6"))
    x = net.relu("fc7", net.conv("fc7", x, 1024, 1024, 1))
    channels = 1024
    for index, (narrow, wide, more) in enumerate(
        [(256, 512, "pad: 1 stride: 2"), (128, 256, "pad: 1 stride: 2"), (128, 256, ""), (128, 256, "")], 6
    ):
        x = net.relu(f"{index}_1", net.conv(f"conv{index}_1", x, channels, narrow, 1))
        x = net.relu(f"{index}_2", net.conv(f"conv{index}_2", x, narrow, wide, 3, more=more))
        channels = wide
    heads: dict[str, list[str]] = {"loc": [], "conf": [], "priorbox": []}
    for name, (width, sizes, boxes) in HEADS.items():
        for head, outputs in (("loc", 4), ("conf", classes)):
            y = net.conv(f"{name}_mbox_{head}", name, width, boxes * outputs, 3, more="pad: 1")
            y = net.layer("Permute", f"{y}_perm", y, permute_param="order: 0 order: 2 order: 3 order: 1")
            heads[head].append(net.layer("Flatten", f"{y}_flat", y, flatten_param="axis: 1"))
        variance = "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2"
        said = f"{sizes} flip: true clip: false offset: 0.5 {variance}"
        heads["priorbox"].append(net.layer("PriorBox", f"{name}_mbox_priorbox", name, "data", prior_box_param=said))
    for head, parts in heads.items():
        net.layer("Concat", f"mbox_{head}", *parts, concat_param=f"axis: {2 if head == 'priorbox' else 1}")
    x = net.layer("Reshape", "reshaped", "mbox_conf", reshape_param=f"shape {{ dim: 0 dim: -1 dim: {classes} }}")
    x = net.layer("Flatten", "flat", net.layer("Softmax", "soft", x, softmax_param="axis: 2"), flatten_param="axis: 1")
    said = f"num_classes: {classes} share_location: true background_label_id: 0 code_type: CENTER_SIZE keep_top_k: 200"
    said += " nms_param { nms_threshold: 0.45 top_k: 400 } confidence_threshold: 0.3"
    net.layer("DetectionOutput", "found", "mbox_loc", x, "mbox_priorbox", detection_output_param=said)
    return net

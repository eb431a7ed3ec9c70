"""Windows of any kind against OpenCV."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.draws import times
from tests.formats.caffe.networks import Network
from tests.formats.caffe.opencv import assert_agrees

extents = st.integers(5, 12)


@st.composite
def windows(draw):
    """Kernel, stride and padding by height and width; padding is less than the kernel, and no place covers nothing."""
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    stride = [draw(st.integers(1, k)) for k in kernel]
    pad = [draw(st.integers(0, k - 1)) for k in kernel]
    return kernel, stride, pad


def said(kernel, stride, pad) -> str:
    entries = {"kernel": kernel, "stride": stride, "pad": pad}
    return " ".join(f"{name}_h: {h} {name}_w: {w}" for name, (h, w) in entries.items())


@settings(max_examples=times(60))
@given(windows(), extents, extents, st.sampled_from(["MAX", "AVE"]))
def test_pooling(tmp_path_factory, window, height, width, pool):
    net = Network("net")
    net.input("x", 1, 2, height, width)
    net.layer("Pooling", "y", "x", pooling_param=f"pool: {pool} {said(*window)}")
    assert_agrees(net.save(tmp_path_factory.mktemp("net")))


@settings(max_examples=times(40))
@given(windows(), extents, extents, st.sampled_from([1, 2]), st.integers(1, 2), st.booleans())
def test_convolutions(tmp_path_factory, window, height, width, group, dilation, is_transposed):
    kernel, stride, pad = window
    # OpenCV does not dilate what it transposes.
    dilation = 1 if is_transposed else dilation
    net = Network("net")
    net.input("x", 1, 4, height, width)
    assume(all(n + 2 * p >= (k - 1) * dilation + 1 for n, k, p in zip((height, width), kernel, pad, strict=True)))
    text = f"num_output: 6 group: {group} dilation: {dilation} {said(kernel, stride, pad)}"
    shape = (4, 6 // group, *kernel) if is_transposed else (6, 4 // group, *kernel)
    blobs = [net.normal(*shape), np.arange(6)]
    net.layer("Deconvolution" if is_transposed else "Convolution", "y", "x", blobs=blobs, convolution_param=text)
    assert_agrees(net.save(tmp_path_factory.mktemp("net")))

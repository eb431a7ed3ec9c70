"""Convolutions of integers with the rounding of LiteRT's reference kernels, and extraction of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.tflite.rules.integer_kernels import KernelOperands, integer_kernel
from graphport.ops.declare import ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.formats.tflite.rules.integer_kernels import KernelOperands


def _filters(given: KernelOperands, axis: int) -> Numbers:
    """Return filters minus their zero points as floats: products with 8-bit activations are exact."""
    zeros = np.asarray(given.quantization(1)[3], np.int64)
    shape = [1] * 4
    if len(zeros) > 1:
        shape[axis] = len(zeros)
    return (given.stored(1) - zeros.reshape(shape)).astype(np.float64)


def _rounded(given: KernelOperands, sums: Numbers, x: int, bias: int) -> Numbers:
    whole = np.rint(sums).astype(np.int64)
    if given.has(bias):
        whole = whole + given.stored(bias)
    return given.clamped(given.rescale_sums(whole, given.factor(x, 1), bias))


@integer_kernel("CONV_2D")
def conv_2d(given: KernelOperands) -> Numbers:
    """CONV_2D of stored integers: sums over windows, rescaled with two roundings."""
    x, w = given.centred(0).astype(np.float64), _filters(given, 0)
    maps, own = w.shape[0], w.shape[3]
    if own == 0 or x.shape[3] % own:
        message = f"{x.shape[3]} channels cannot be split into groups of {own}"
        raise ShapeError(message)
    seen = patches(given, x, w.shape[1:3])
    groups = x.shape[3] // own
    parts = np.split(seen, groups, axis=3) if groups > 1 else [seen]
    each = [
        np.tensordot(part, one, axes=((3, 4, 5), (3, 1, 2)))
        for part, one in zip(parts, w.reshape(groups, maps // groups, *w.shape[1:]), strict=True)
    ]
    return _rounded(given, np.concatenate(each, axis=3), 0, 2)


@integer_kernel("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(given: KernelOperands) -> Numbers:
    """DEPTHWISE_CONV_2D of stored integers: sums over windows per channel, rescaled with two roundings."""
    x, w = given.centred(0).astype(np.float64), _filters(given, 3)
    kernel, channels = w.shape[1:3], x.shape[3]
    seen = patches(given, x, kernel)
    sums = np.einsum("nhwckl,klcm->nhwcm", seen, w[0].reshape(*kernel, channels, -1))
    return _rounded(given, sums.reshape(*sums.shape[:3], -1), 0, 2)


@integer_kernel("TRANSPOSE_CONV", numbers=(2,))
def transpose_conv(given: KernelOperands) -> Numbers:
    """TRANSPOSE_CONV of stored integers: sums of contributions, rescaled with two roundings."""
    x, w = given.centred(2).astype(np.float64), _filters(given, 0)
    strides = given.option("stride_h", 1), given.option("stride_w", 1)
    wanted = [int(n) for n in given.stored(0)[1:3]]
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[1:3], strides, w.shape[1:3], strict=True)]
    room = [max(f, out + max(0, f - out) // 2) for f, out in zip(full, wanted, strict=True)]
    sums = np.zeros((x.shape[0], *room, w.shape[0]))
    for row in range(w.shape[1]):
        for column in range(w.shape[2]):
            spread = np.tensordot(x, w[:, row, column], axes=((3,), (1,)))
            ends = [(n - 1) * s + 1 for n, s in zip(x.shape[1:3], strides, strict=True)]
            sums[:, row : row + ends[0] : strides[0], column : column + ends[1] : strides[1]] += spread
    begins = [max(0, f - out) // 2 for f, out in zip(full, wanted, strict=True)]
    cut = sums[:, begins[0] : begins[0] + wanted[0], begins[1] : begins[1] + wanted[1]]
    return _rounded(given, cut, 2, 3)


def patches(given: KernelOperands, x: Numbers, kernel: Sequence[int]) -> Numbers:
    """Extract the patch of each window: [batch, rows, columns, channels, rows of the window, its columns]."""
    strides = [int(given.option(f"stride_{axis}", 1)) for axis in "hw"]
    gaps = [int(given.option(f"dilation_{axis}_factor", 1)) or 1 for axis in "hw"]
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    if given.option("padding") == 0:
        more = [max(0, (-(-n // s) - 1) * s + r - n) for n, s, r in zip(x.shape[1:3], strides, reach, strict=True)]
        x = np.pad(x, ((0, 0), *((m // 2, m - m // 2) for m in more), (0, 0)))
    if any(n < r for n, r in zip(x.shape[1:3], reach, strict=True)):
        message = f"a window of size {reach} exceeds the input {list(x.shape[1:3])}"
        raise ShapeError(message)
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(1, 2))  # type: ignore[call-overload]
    return seen[:, :: strides[0], :: strides[1], :, :: gaps[0], :: gaps[1]]

"""Pooling with indices, and sampling by indices, in NNEF.

An index is a position inside the window, with the last axis fastest.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.nnef.rules.convolution_borders import Pairs, Slide, bordered, fact_of, static_dims
from graphport.formats.nnef.rules.padding_borders import MOST_ELEMENTS, padded
from graphport.formats.nnef.rules.pooling.arrangement import Pooling, Shaped, arranged
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mod, Mul, Sub
from graphport.ops.definitions.convolution.window import Window, integer_pads, window
from graphport.ops.definitions.generate import ConstantOfShape
from graphport.ops.definitions.indexing import Gather, ScatterElements
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import MaxPool
from graphport.ops.definitions.reshape import Reshape

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Pooling.lower("nnef", "max_pool_with_index")
def max_pool_with_index(b: Builder, stated: Pooling, input: Value) -> tuple[Value, Value]:
    """Max pooling; return also the index of the first maximum within its window."""
    found = arranged(b, input, stated)
    x, slide = bordered(b, found.x, found.slide, stated.border, native="ignore")
    dims = static_dims(b.dims(x))
    kernel = static_dims(slide.kernel)
    attributes = slide.attributes(dims[2:])
    y, indices = b.results(MaxPool, 2, x, kernel_shape=kernel, **attributes)
    slid = window(dims[2:], kernel, **attributes)
    index = _within_window(b, indices, dims[2:], slid)
    return found.restored(b, y), found.restored(b, index)


@Pooling.lower("nnef", "argmax_pool")
def argmax_pool(b: Builder, stated: Pooling, input: Value) -> Value:
    """Return the index of the first maximum within each window."""
    return max_pool_with_index(b, stated, input)[1]


Integers = np.ndarray[Any, np.dtype[np.int64]]


def _beginnings(b: Builder, count: int, stride: int, offset: int, axis: int, rank: int) -> Value:
    """Return the start indices of `count` windows along one of `rank` axes.

    Raises:
        UnsupportedError: there are too many for a constant.
    """
    if count > MOST_ELEMENTS:
        message = f"an axis of {count} windows"
        raise UnsupportedError(message)
    first: Integers = np.arange(count, dtype=np.int64) * stride + offset
    return b.constant(first.reshape([-1 if i == axis else 1 for i in range(rank)]))


def _within_window(b: Builder, indices: Value, dims: tuple[int, ...], slid: Window) -> Value:
    """Convert indices into the flattened tensor with trailing axes `dims` to positions in the window."""
    kernel = static_dims(slid.kernel)
    rank = len(dims)
    total: Value | None = None
    for axis, (begin, _) in enumerate(integer_pads(slid.pads)):
        at = b(Div, indices, prod(dims[axis + 1 :]))
        at = b(Mod, at, dims[axis])
        first = _beginnings(b, static_dims(slid.lengths)[axis], slid.strides[axis], -begin, axis, rank)
        step = b(Div, b(Sub, at, first), slid.dilations[axis])
        part = b(Mul, step, prod(kernel[axis + 1 :]))
        total = part if total is None else b(Add, total, part)
    if total is None:
        message = "a window without axes"
        raise ShapeError(message)
    return total


@Pooling.lower("nnef", "sample")
def sample(b: Builder, stated: Pooling, input: Value, index: Value) -> Value:
    """Gather the element of each window at the position `index` within the window."""
    slide = _slide(b, input, stated)
    amounts = slide.amounts(static_dims(b.dims(input)))
    x = input
    if amounts is not None and any(any(pair) for pair in amounts):
        x = padded(b, input, amounts, "constant" if stated.border == "ignore" else stated.border)
    wide, windows = static_dims(b.dims(x)), static_dims(b.dims(index))
    expected = _windows(slide, wide)
    if windows != expected:
        message = f"an index of shape {list(windows)} for {list(expected)} windows"
        raise ShapeError(message, "pass one index per window")
    indices = _flat_indices(b, index, slide, wide, windows)
    return b(Gather, b(Reshape, x, b.constant([-1])), indices, axis=0)


def _windows(slide: Slide, wide: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of windows along each axis of a padded tensor of shape `wide`."""
    steps = zip(wide, static_dims(slide.kernel), slide.stride, slide.dilation, strict=True)
    return tuple((extent - (size - 1) * dilation - 1) // stride + 1 for extent, size, stride, dilation in steps)


def _slide(b: Builder, input: Value, stated: Pooling) -> Slide:
    rank, size = len(b.dims(input)), stated.size
    if len(size) != rank or any(k < 1 for k in size):
        message = f"size {list(size)} for a tensor of rank {rank}"
        raise ShapeError(message, "write one positive value per axis")
    return Slide.of(size, stated)


def _flat_indices(b: Builder, index: Value, slide: Slide, wide: tuple[int, ...], lengths: tuple[int, ...]) -> Value:
    """Convert positions in windows to indices into the flattened padded tensor of shape `wide`."""
    kernel = static_dims(slide.kernel)
    total: Value | None = None
    for axis in range(len(wide)):
        volume = prod(wide[axis + 1 :])
        parts = [_beginnings(b, lengths[axis], slide.stride[axis] * volume, 0, axis, len(wide))]
        if kernel[axis] > 1:
            step = b(Mod, b(Div, index, prod(kernel[axis + 1 :])), kernel[axis])
            parts.append(b(Mul, step, slide.dilation[axis] * volume))
        for part in parts:
            total = part if total is None else b(Add, total, part)
    if total is None:
        message = "a window without axes"
        raise ShapeError(message)
    # With a kernel of one element the position is 0, but the shape of the indices is needed.
    return total if any(k > 1 for k in kernel) else b(Add, total, b(Mul, index, 0))


@Pooling.lower("nnef", "desample")
def desample(b: Builder, stated: Pooling, input: Value, index: Value, *, output_shape: Shaped = ()) -> Value:
    """Scatter elements into zeros at the position `index` within their windows; duplicates are added."""
    if stated.border not in ("constant", "ignore"):
        message = f"border {stated.border!r} of an unpooling operation"
        raise UnsupportedError(message)
    slide = _slide(b, input, stated)
    dims = static_dims(b.dims(input))
    out, amounts = _conv_transpose(slide, dims, output_shape)
    canvas = tuple(n + begin + end for n, (begin, end) in zip(out, amounts, strict=True))
    indices = _flat_indices(b, index, slide, canvas, dims)
    dtype = fact_of(input).dtype or DType.FLOAT32
    zeros = b(ConstantOfShape, [prod(canvas)], value=storage_of(np.zeros(1), dtype))
    flat = b(
        ScatterElements,
        zeros,
        b(Reshape, indices, b.constant([-1])),
        b(Reshape, input, b.constant([-1])),
        axis=0,
        reduction="add",
    )
    y = b(Reshape, flat, canvas)
    if not any(any(pair) for pair in amounts):
        return y
    return b(Pad, y, [-begin for begin, _ in amounts] + [-end for _, end in amounts])


def _conv_transpose(slide: Slide, dims: tuple[int, ...], output_shape: Shaped) -> tuple[Shaped, Pairs]:
    """Return the output dims of the transposed convolution, and the cropping."""
    axes = list(zip(dims, static_dims(slide.kernel), slide.stride, slide.dilation, strict=True))
    full = tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in axes)
    if output_shape and len(output_shape) != len(dims):
        message = f"output_shape {list(output_shape)} for a tensor of rank {len(dims)}"
        raise ShapeError(message, "write one positive value per axis")
    if slide.padding:
        out = output_shape or tuple(n - p - q for n, (p, q) in zip(full, slide.padding, strict=True))
        return out, slide.padding
    out = output_shape or tuple(n * s for n, _, s, _ in axes)
    totals = [max(n - wanted, 0) for n, wanted in zip(full, out, strict=True)]
    return out, tuple((total // 2, total - total // 2) for total in totals)

"""Backward operators of the Core ATen set in exported programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.formats.pytorch.rules.binding import integers, length, scalar_of
from graphport.formats.pytorch.rules.functions.convolution import conv, conv_transpose
from graphport.formats.pytorch.rules.overloads import aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Div, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.indexing import Gather, ScatterElements, ScatterND, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.operands import as_int64, dtype_of, vector

Gradients = tuple[Value | None, ...]


def _requested_gradients(mask: Any) -> list[bool]:
    return [bool(scalar_of(each)) for each in mask]


@aten("aten.embedding_dense_backward", by_position=False)
def embedding_gradient(
    b: Builder, grad_output: Value, indices: Value, num_weights: Any, padding_idx: Any, scale_grad_by_freq: Any
) -> Value:
    """Gradient of an embedding table: sum the rows by index, except those of the padding index."""
    count, padding = int(scalar_of(num_weights)), int(scalar_of(padding_idx))
    reserve(count)
    width = b(Shape, grad_output, start=-1)
    rows = b(Reshape, grad_output, b(Concat, [-1], width, axis=0))
    positions = b(Reshape, as_int64(b, indices), [-1, 1])
    rows = b(Where, b(Equal, positions, b.like(positions, padding)), 0, rows)
    zero = b.like(rows, 0)
    if scalar_of(scale_grad_by_freq):
        ones = b(Expand, b.like(rows, 1), b(Shape, positions, start=0, end=1))
        counts = b(ScatterND, b(Expand, zero, [count]), positions, ones, reduction="add")
        rows = b(Div, rows, b(Gather, counts, positions))
    table = b(Expand, zero, b(Concat, [count], width, axis=0))
    return b(ScatterND, table, positions, rows, reduction="add")


@aten(
    "aten.max_pool2d_with_indices_backward",
    ignores=("kernel_size", "stride", "padding", "dilation", "ceil_mode"),
    by_position=False,
)
def max_pool_gradient(b: Builder, grad_output: Value, self: Value, indices: Value) -> Value:
    """Gradient of max pooling: scatter the gradients to the indices of the maxima."""
    rank, shape = len(b.dims(self)), b(Shape, self)
    flat = b(Concat, b(Shape, self, end=rank - 2), [-1], axis=0)
    planes = b(Reshape, b(Expand, b.like(self, 0), shape), flat)
    given, positions = b(Reshape, grad_output, flat), b(Reshape, indices, flat)
    return b(Reshape, b(ScatterElements, planes, positions, given, axis=rank - 2, reduction="add"), shape)


def _transpose_window_means(b: Builder, grad: Value, x: Value, shares: Sequence[np.ndarray[Any, Any]]) -> Value:
    """Transpose of a separable mean over windows; `shares` are matrices [windows, elements] by axis."""
    dtype = dtype_of(x)
    rows, columns = (b.constant(each.astype(dtype.numpy), dtype) for each in (shares[0].T, shares[1]))
    return b(MatMul, b(MatMul, rows, grad), columns)


@aten("aten._adaptive_avg_pool2d_backward", by_position=False)
def adaptive_avg_pool_gradient(b: Builder, grad_output: Value, self: Value) -> Value:
    shares: list[np.ndarray[Any, Any]] = []
    for axis in (-2, -1):
        count, windows = length(b.dims(self), axis), length(b.dims(grad_output), axis)
        reserve(count, windows)
        found = np.zeros((windows, count))
        for place in range(windows):
            start, stop = place * count // windows, -(-(place + 1) * count // windows)
            found[place, start:stop] = 1 / (stop - start)
        shares.append(found)
    return _transpose_window_means(b, grad_output, self, shares)


@aten("aten.avg_pool2d_backward", ignores=("ceil_mode",), by_position=False)
def avg_pool_gradient(
    b: Builder,
    grad_output: Value,
    self: Value,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    count_include_pad: Any,
    divisor_override: Any,
) -> Value:
    kernel, pads = integers(kernel_size, 2), integers(padding, 2)
    strides = integers(stride, 2) if stride else kernel
    divisor = scalar_of(divisor_override)
    shares: list[np.ndarray[Any, Any]] = []
    for axis, k, step, pad in zip((-2, -1), kernel, strides, pads, strict=True):
        count, windows = length(b.dims(self), axis), length(b.dims(grad_output), axis)
        reserve(count, windows)
        found = np.zeros((windows, count))
        for place in range(windows):
            begin = place * step - pad
            end = min(begin + k, count + pad)
            start, stop = max(begin, 0), min(end, count)
            size = end - begin if scalar_of(count_include_pad) else stop - start
            found[place, start:stop] = 1 if divisor is not None else 1 / size
        shares.append(found)
    found = _transpose_window_means(b, grad_output, self, shares)
    return found if divisor is None else b(Div, found, b.like(found, divisor))


@aten("aten.convolution_backward", ignores=("bias_sizes", "output_padding"), by_position=False)
def convolution_gradient(
    b: Builder,
    grad_output: Value,
    input: Value,
    weight: Value,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    groups: Any,
    output_mask: Any,
) -> Gradients:
    """Gradients of a convolution: input by the transposed convolution, weight by a convolution, bias by a sum."""
    rank = len(b.dims(weight))
    kernel = [length(b.dims(weight), axis) for axis in range(2, rank)]
    strides, pads, gaps = (integers(each, rank - 2) for each in (stride, padding, dilation))
    of_input, of_weight, of_bias = _requested_gradients(output_mask)
    sizes = zip(range(2, rank), kernel, strides, pads, gaps, strict=True)
    found: list[Value | None] = [None, None, None]
    if of_input and scalar_of(transposed):
        found[0] = conv(b, grad_output, weight, None, strides, pads, gaps, groups)
    elif of_input:
        rest = [
            length(b.dims(input), axis) - (length(b.dims(grad_output), axis) - 1) * s + 2 * p - g * (k - 1) - 1
            for axis, k, s, p, g in sizes
        ]
        found[0] = conv_transpose(b, grad_output, weight, None, strides, pads, rest, groups, gaps)
    if of_weight:
        large, small = (grad_output, input) if scalar_of(transposed) else (input, grad_output)
        found[1] = _kernel(b, large, small, kernel, strides, pads, gaps, int(scalar_of(groups)))
    if of_bias:
        found[2] = b(ReduceSum, grad_output, [0, *range(2, rank)], keepdims=0)
    return tuple(found)


def _kernel(
    b: Builder,
    large: Value,
    small: Value,
    kernel: Sequence[int],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    gaps: tuple[int, ...],
    groups: int,
) -> Value:
    """Gradient of the kernel: a convolution with batch and channels transposed, strides and dilations swapped."""
    dims, rank = b.dims(large), len(b.dims(large))
    spatial = [length(dims, axis) for axis in range(2, rank)]
    each = length(dims, 1) // groups
    split = b(Reshape, large, [0, groups, each, *spatial])
    transposed = b(Transpose, split, perm=(2, 1, 0, *range(3, rank + 1)))
    x = b(Reshape, transposed, [each, -1, *spatial])
    w = b(Transpose, small, perm=(1, 0, *range(2, rank)))
    y = b(Conv, x, w, strides=gaps, dilations=strides, pads=pads * 2, group=groups)
    axes = list(range(2, rank))
    kept = b(Slice, y, [0] * len(axes), list(kernel), axes)
    return b(Transpose, kept, perm=(1, 0, *range(2, rank)))


def _centered(b: Builder, grad: Value, scaled: Value, inverse: Value, axes: Value) -> Value:
    """Gradient of x̂ = (x - mean) * inverse: inverse * (grad - mean(grad) - x̂ * mean(grad * x̂))."""
    along = b(Mul, scaled, b(ReduceMean, b(Mul, grad, scaled), axes))
    return b(Mul, inverse, b(Sub, b(Sub, grad, b(ReduceMean, grad, axes)), along))


@aten("aten.native_layer_norm_backward", by_position=False)
def layer_norm_gradient(
    b: Builder,
    grad_out: Value,
    input: Value,
    normalized_shape: Any,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Any,
) -> Gradients:
    del bias
    rank, count = len(b.dims(input)), len(integers(normalized_shape))
    inner, outer = vector(b, list(range(rank - count, rank))), vector(b, list(range(rank - count)))
    scaled = b(Mul, b(Sub, input, mean), rstd)
    grad = grad_out if weight is None else b(Mul, grad_out, weight)
    of_input, of_weight, of_bias = _requested_gradients(output_mask)
    return (
        _centered(b, grad, scaled, rstd, inner) if of_input else None,
        b(ReduceSum, b(Mul, grad_out, scaled), outer, keepdims=0) if of_weight else None,
        b(ReduceSum, grad_out, outer, keepdims=0) if of_bias else None,
    )


@aten("aten.native_group_norm_backward", ignores=("N", "C", "HxW"), by_position=False)
def group_norm_gradient(
    b: Builder,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    group: Any,
    output_mask: Any,
) -> Gradients:
    rank, groups = len(b.dims(input)), int(scalar_of(group))
    shape = b(Shape, input)
    split = b(Concat, b(Shape, input, end=1), [groups, -1], axis=0)
    behind = vector(b, [2])
    inverse = b(Unsqueeze, rstd, behind)
    scaled = b(Mul, b(Sub, b(Reshape, input, split), b(Unsqueeze, mean, behind)), inverse)
    grad = grad_out
    if weight is not None:
        grad = b(Mul, grad_out, b(Reshape, weight, [-1, *[1] * (rank - 2)]))
    of_input, of_weight, of_bias = _requested_gradients(output_mask)
    others = vector(b, [0, *range(2, rank)])
    found: list[Value | None] = [None, None, None]
    if of_input:
        found[0] = b(Reshape, _centered(b, b(Reshape, grad, split), scaled, inverse, behind), shape)
    if of_weight:
        found[1] = b(ReduceSum, b(Mul, grad_out, b(Reshape, scaled, shape)), others, keepdims=0)
    if of_bias:
        found[2] = b(ReduceSum, grad_out, others, keepdims=0)
    return tuple(found)

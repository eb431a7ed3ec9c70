"""Export rules of pooling to ATen."""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, EXPORT, aten, aten_results
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Div
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import GlobalLpPool
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, sizes, vector
from graphport.ops.lowering.windows import window_of
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView, MaxUnpoolView

_MAX_AXES = 3
_MAX_KERNEL_ELEMENTS = 1 << 22


def _spatial(b: Builder, x: Value) -> tuple[int, ...]:
    return tuple(range(2, len(b.dims(x))))


EXPORT.having(spatial=_spatial).export_rules("""
GlobalAveragePool -> rank(x) > 2: aten.mean.dim(x, spatial(x), keepdim=True)
GlobalMaxPool -> rank(x) > 2: aten.amax(x, spatial(x), keepdim=True)
""")


def _window(b: Builder, op: MaxPoolView | AveragePoolView | LpPoolView) -> tuple[Any, list[tuple[int, int]]]:
    count = len(op.kernel_shape)
    if not 1 <= count <= _MAX_AXES:
        message = f"PyTorch has no pooling over {count} spatial axes"
        raise UnsupportedError(message)
    slid = window_of(op)
    begins, ends = (sizes(side, "padding") for side in zip(*slid.pads, strict=True))
    return slid, list(zip(begins, ends, strict=True))


@MaxPoolView.export_rule(DIALECT)
def export_max_pool(b: Builder, op: MaxPoolView) -> tuple[Value, ...]:
    """Export MaxPool; padding that torch does not support is a separate Pad."""
    slid, pairs = _window(b, op)
    own = dtype_of(op.x)
    x = op.x if own.is_floating else cast(b, op.x, DType.FLOAT32)
    name = f"max_pool{len(pairs)}d"
    pairs = _with_ceil(b, op.x, slid, pairs) if op.ceil_mode else pairs
    is_even = all(p == q and 2 * p <= k for (p, q), k in zip(pairs, op.kernel_shape, strict=True))
    padding = tuple(p for p, _ in pairs)
    rest = (op.kernel_shape, slid.strides, padding if is_even else (0,) * len(pairs), slid.dilations, False)
    if b.wants(1):
        return _max_pool_with_indices(b, op, x, pairs, rest)
    if not is_even:
        x = _bordered(b, x, pairs, -math.inf)
    return (cast(b, aten(b, name, x, *rest), own),)


def _with_ceil(b: Builder, x: Value, slid: Any, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extend the padding at the ends for the partial windows of `ceil_mode`."""
    found: list[tuple[int, int]] = []
    for place, (p, q) in enumerate(pairs):
        n, m = b.dims(x)[2 + place], slid.lengths[place]
        if isinstance(n, Symbolic) or isinstance(m, Symbolic):
            message = "ceil_mode=1 requires constant spatial sizes"
            raise UnsupportedError(message)
        reach = (m - 1) * slid.strides[place] + (slid.kernel[place] - 1) * slid.dilations[place] + 1
        found.append((p, max(q, reach - n - p)))
    return found


def _bordered(b: Builder, x: Value, pairs: list[tuple[int, int]], number: float) -> Value:
    begins, ends = zip(*pairs, strict=True)
    pads = vector(b, [0, 0, *begins, 0, 0, *ends])
    return b(Pad, x, pads, number)


def _max_pool_with_indices(
    b: Builder, op: MaxPoolView, x: Value, pairs: list[tuple[int, int]], rest: tuple[Any, ...]
) -> tuple[Value, ...]:
    """Export MaxPool with indices, which torch counts per channel and ONNX over the tensor."""
    dims = sizes(b.dims(op.x), "the shape of a pooled tensor with indices")
    is_even = rest[2] == tuple(p for p, _ in pairs) and all(p == q for p, q in pairs)
    if not is_even:
        x = _bordered(b, x, pairs, -math.inf)
    name = f"max_pool{len(pairs)}d_with_indices"
    y, index = (
        aten_results(b, name, 2, x, *rest)
        if len(pairs) > 1
        else aten_results(b, "max_pool1d_with_indices", 2, x, *rest)
    )
    coordinates: list[Value] = []
    own = list(dims[2:]) if is_even else [n + p + q for n, (p, q) in zip(dims[2:], pairs, strict=True)]
    left = index
    for place in reversed(range(len(own))):
        at = aten(b, "remainder.Scalar", left, own[place])
        left = aten(b, "div.Tensor_mode", left, b.constant(own[place]), rounding_mode="floor")
        coordinates.insert(0, at if is_even else aten(b, "sub.Scalar", at, pairs[place][0]))
    steps = _steps(dims[2:], is_row_major=not op.storage_order)
    flat = None
    for at, step in zip(coordinates, steps, strict=True):
        part = aten(b, "mul.Scalar", at, step)
        flat = part if flat is None else aten(b, "add.Tensor", flat, part)
    size = math.prod(dims[2:])
    offsets = np.arange(dims[0] * dims[1]).reshape(dims[0], dims[1], *[1] * len(own)) * size
    if flat is None:
        raise UnsupportedError
    return cast(b, y, dtype_of(op.x)), aten(b, "add.Tensor", flat, b.constant(offsets.astype(np.int64)))


def _steps(dims: tuple[int, ...], *, is_row_major: bool) -> list[int]:
    order = dims if is_row_major else dims[::-1]
    steps = [math.prod(order[place + 1 :]) for place in range(len(order))]
    return steps if is_row_major else steps[::-1]


@AveragePoolView.export_rule(DIALECT)
def export_average_pool(b: Builder, op: AveragePoolView) -> Value:
    """Export AveragePool; windows that torch does not support are convolutions divided by the element counts."""
    slid, pairs = _window(b, op)
    is_even = all(p == q and 2 * p <= k for (p, q), k in zip(pairs, op.kernel_shape, strict=True))
    is_plain = is_even and all(d == 1 for d in slid.dilations) and not op.ceil_mode
    own = dtype_of(op.x)
    if is_plain and own.is_floating:
        padding = tuple(p for p, _ in pairs)
        counts_padding = bool(op.count_include_pad)
        arguments = (op.kernel_shape, slid.strides, padding, False, counts_padding)
        return aten(b, f"avg_pool{len(pairs)}d", op.x, *arguments)
    return _mean_by_convolution(b, op, slid, pairs)


def _ones(b: Builder, op: AveragePoolView | LpPoolView, channels: int) -> Value:
    """Return a convolution kernel that sums windows of each channel.

    Raises:
        UnsupportedError: the kernel of a corrupt file exceeds the memory limit.
    """
    if channels * prod(op.kernel_shape) > _MAX_KERNEL_ELEMENTS:
        message = (
            f"pooling as a convolution: the kernel {list(op.kernel_shape)} over {channels} channels exceeds "
            f"{_MAX_KERNEL_ELEMENTS} elements"
        )
        raise UnsupportedError(message)
    return b.constant(np.ones((channels, 1, *op.kernel_shape)), dtype_of(op.x))


def _mean_by_convolution(b: Builder, op: AveragePoolView, slid: Any, pairs: list[tuple[int, int]]) -> Value:
    """Window sums by a convolution, divided by the number of averaged elements."""
    dims = b.dims(op.x)
    channels = dims[1]
    if isinstance(channels, Symbolic):
        message = "the channel count is not constant"
        raise UnsupportedError(message)
    complete = _with_ceil(b, op.x, slid, pairs) if op.ceil_mode else pairs
    begins, ends = zip(*complete, strict=True)
    kernel = _ones(b, op, channels)
    one = _ones(b, op, 1)
    options: dict[str, Any] = {
        "dilations": slid.dilations,
        "strides": slid.strides,
        "pads": (*begins, *ends),
        "kernel_shape": op.kernel_shape,
    }
    total = b(Conv, op.x, kernel, group=channels, **options)
    spatial = sizes(dims[2:], "the sizes of the averaged axes")
    if op.count_include_pad:
        spatial = [n + p + q for n, (p, q) in zip(spatial, pairs, strict=True)]
        more = [e - q for (_, e), (_, q) in zip(complete, pairs, strict=True)]
        options |= {"pads": (*[0] * len(more), *more)}
    counted = np.ones((1, 1, *bounded(spatial)))
    count = b(Conv, b.constant(counted, dtype_of(op.x)), one, **options)
    return b(Div, total, count)


@LpPoolView.export_rule(DIALECT)
def export_lp_pool(b: Builder, op: LpPoolView) -> Value:
    """Export LpPool: (Σ |x|^p)^(1/p)."""
    channels = b.dims(op.x)[1]
    if isinstance(channels, Symbolic):
        message = "the channel count is not constant"
        raise UnsupportedError(message)
    slid, pairs = _window(b, op)
    complete = _with_ceil(b, op.x, slid, pairs) if op.ceil_mode else pairs
    begins, ends = zip(*complete, strict=True)
    powers = aten(b, "pow.Tensor_Scalar", aten(b, "abs", op.x), op.p)
    kernel = _ones(b, op, channels)
    total = b(
        Conv,
        powers,
        kernel,
        group=channels,
        kernel_shape=op.kernel_shape,
        dilations=slid.dilations,
        strides=slid.strides,
        pads=(*begins, *ends),
    )
    return aten(b, "pow.Tensor_Scalar", total, 1 / op.p)


@GlobalLpPool.export_rule(DIALECT)
def export_global_lp_pool(b: Builder, x: Value, *, p: int = 2) -> Value:
    return aten(b, "linalg_vector_norm", x, float(p), _spatial(b, x), True)


@MaxUnpoolView.export_rule(DIALECT)
def export_max_unpool(b: Builder, op: MaxUnpoolView) -> Value:
    """Export MaxUnpool: scatter by flat indices into zeros."""
    shape = b.outcome.shape
    if shape is None:
        message = "the result shape is not constant"
        raise UnsupportedError(message)
    known = sizes(shape, "the shape of an unpooled tensor")
    index = op.i
    if op.output_shape is not None:
        # Indices refer to the result without `output_shape`, which is its top-left corner.
        index = _in_larger(b, op, known)
    flat = aten(b, "full", (math.prod(known),), 0.0, dtype=dtype_of(op.x))
    written = aten(b, "scatter.src", flat, 0, reshaped(b, index, [-1]), reshaped(b, op.x, [-1]))
    return reshaped(b, written, known)


def _in_larger(b: Builder, op: MaxUnpoolView, known: tuple[int, ...]) -> Value:
    strides = op.strides or (1,) * len(op.kernel_shape)
    pads = op.pads or (0,) * (2 * len(op.kernel_shape))
    dims = sizes(b.dims(op.x), "the shape of a pooled tensor")
    count = len(op.kernel_shape)
    small = [
        (n - 1) * s - (pads[i] + pads[count + i]) + k
        for i, (n, s, k) in enumerate(zip(dims[2:], strides, op.kernel_shape, strict=True))
    ]
    before = [dims[0], dims[1], *small]
    left, found = op.i, None
    for place in reversed(range(len(before))):
        at = aten(b, "remainder.Scalar", left, before[place])
        left = aten(b, "div.Tensor_mode", left, b.constant(before[place]), rounding_mode="floor")
        part = aten(b, "mul.Scalar", at, math.prod(known[place + 1 :]))
        found = part if found is None else aten(b, "add.Tensor", found, part)
    return op.i if found is None else found

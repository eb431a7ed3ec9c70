"""Pooling of ncnn."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.formats.ncnn.rules.binding import NONE, Layer, layer
from graphport.formats.ncnn.rules.emitting import emitted, lengths_of
from graphport.formats.ncnn.rules.rule_table import RULES
from graphport.formats.ncnn.rules.windows import (
    ENDINGS,
    Axes,
    along,
    along_parameters,
    known_padding,
    padding_of,
    padding_parameters,
)
from graphport.formats.pytorch.rules.functions.pooling import adaptive_avg_pool, adaptive_max_pool
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Div, Max, Mul, Pow, Sqrt, Sub, Sum
from graphport.ops.definitions.convolution.window import Window
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import AveragePool, GlobalAveragePool, GlobalLpPool, GlobalMaxPool, MaxPool
from graphport.ops.definitions.reduction import ReduceMean, ReduceSum
from graphport.ops.definitions.reshape import Concat, Flatten, Squeeze
from graphport.ops.lowering.operands import sizes, vector
from graphport.ops.lowering.windows import window_of
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView

_MAXIMUM = 0
_FULL = 0
"""Padding mode that extends the end for the last window."""


def _pool(count: int, at: Layer) -> Value:
    b, x = at.b, at.x
    is_maximum = at.integer(0) == _MAXIMUM
    if at.integer(4):
        whole = b(GlobalMaxPool if is_maximum else GlobalAveragePool, x)
        return b(Squeeze, whole, list(range(2, 2 + count)))
    if at.integer(7):
        sizes = tuple(None if n in (0, NONE) else n for n in along(at, count, 8, 0))
        adaptive: Any = adaptive_max_pool if is_maximum else adaptive_avg_pool
        return adaptive(b, x, sizes)
    return _windows(at, count, is_maximum=is_maximum)


for _count, _ending in ENDINGS.items():
    layer(f"Pooling{_ending}")(partial(_pool, _count))


def _windows(at: Layer, count: int, *, is_maximum: bool) -> Value:
    kernel, strides, mode = along(at, count, 1, 0), along(at, count, 2), at.integer(5)
    match mode:
        case 0 | 1:
            begin, end = padding_of(at, count, 3)
            pads = (*begin, *end) if mode else _full(at, kernel, strides, begin, end)
        case 2 | 3:
            pads = _same_padding(at, kernel, strides)
        case _:
            message = f"unsupported pad_mode {mode}"
            raise UnsupportedError(message)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if is_maximum:
        return at.b(MaxPool, at.x, **attributes)
    # The extension at the end counts as elements in averages, regardless of the padding mode.
    counts = mode > 1 or bool(at.integer(6))
    return at.b(AveragePool, at.x, count_include_pad=1 if counts else None, **attributes)


def _full(at: Layer, kernel: Axes, strides: Axes, begin: Axes, end: Axes) -> Axes:
    """Return the explicit padding, extended at the end for the last window."""
    axes = zip(at.lengths(2), kernel, strides, begin, end, strict=True)
    return (*begin, *(q + (k - n - p - q) % s for n, k, s, p, q in axes))


def _same_padding(at: Layer, kernel: Axes, strides: Axes) -> Axes:
    """Return SAME padding; the larger half is at the end or at the start, but never at the start of the depth."""
    count = len(kernel)
    total = [k + (n - 1) // s * s - n for k, n, s in zip(kernel, at.lengths(2), strides, strict=True)]
    if any(n > 0 for n in total) and min(total) < 0:
        message = "negative padding on one axis and positive padding on another"
        raise UnsupportedError(message)
    small, large = ([max(n, 0) // 2 for n in total], [max(n, 0) - max(n, 0) // 2 for n in total])
    is_lower = [at.integer(5) == _LOWER and axis != count - _SPATIAL for axis in range(count)]
    front = [q if lower else p for p, q, lower in zip(small, large, is_lower, strict=True)]
    return (*front, *(p + q - f for p, q, f in zip(small, large, front, strict=True)))


_LOWER, _SPATIAL = 3, 3


@layer("StatisticsPooling")
def statistics(at: Layer) -> Value:
    """StatisticsPooling: the mean of each channel, and with parameter 0 also the standard deviations."""
    b, x = at.b, at.x
    axes = vector(b, list(range(2, at.rank + 1)))
    mean = b(ReduceMean, x, axes) if at.rank > 1 else x
    found = b(Flatten, mean)
    if not at.integer(0):
        return found
    center = b(Sub, x, mean)
    squares = b(Mul, center, center)
    spread = b(Flatten, b(ReduceMean, squares, axes) if at.rank > 1 else squares)
    return b(Concat, found, b(Sqrt, spread), axis=1)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _emitted(b: Builder, op: AveragePoolView | MaxPoolView, kind: int, *, counts_padding: bool = False) -> Value:
    """Emit a pooling layer, or its decomposition."""
    x = op.x
    count = len(lengths_of(b, x)) - 1
    if b.count > 1:
        message = "ncnn's pooling does not return the indices of the maxima"
        raise UnsupportedError(message)
    if count not in ENDINGS:
        message = f"pooling over {count} spatial axes"
        raise UnsupportedError(message)
    slid = window_of(op)
    pairs = known_padding(x, slid)
    if any(gap != 1 for gap in slid.dilations):
        return _decompose_dilated_pooling(b, x, slid, is_maximum=kind == _MAXIMUM, counts_padding=counts_padding)
    if op.ceil_mode and kind != _MAXIMUM and counts_padding:
        return _counted(b, x, slid, counts_padding=counts_padding)
    mode = 1
    if op.ceil_mode:
        ends = _ends(b, x, slid)
        mode = _FULL if ends is None else 1
        pairs = pairs if ends is None else [(p, max(end, 0)) for (p, _), end in zip(pairs, ends, strict=True)]
    begin, end = zip(*pairs, strict=True)
    parameters: dict[str, Any] = along_parameters(1, op.kernel_shape) | along_parameters(2, slid.strides)
    parameters |= padding_parameters(3, begin, end)
    type_ = f"Pooling{ENDINGS[count]}"
    return emitted(b, type_, x, p0=kind, **parameters, p5=mode, p6=1 if counts_padding else None)


def _ends(b: Builder, x: Value, slid: Window) -> list[int] | None:
    """Return the extension of each axis for the last window; `None` if the size is open, and the layer computes it.

    ONNX omits windows that begin in the end padding, the layer does not.

    Raises:
        UnsupportedError: the size is open, and such a window may exist.
    """
    dims, kernel = b.dims(x)[2:], sizes(slid.kernel)
    lengths = [n for n in (*dims, *slid.lengths) if isinstance(n, int)]
    if len(lengths) < 2 * len(dims):
        if any(q + stride > k for k, stride, (_, q) in zip(kernel, slid.strides, known_padding(x, slid), strict=True)):
            message = f"{x.name} is {x.fact}: with a dynamic size, the last window may start beyond the input"
            raise UnsupportedError(message, cause="ncnn requires constant sizes")
        return None
    return [
        (n - 1) * stride + (k - 1) * gap + 1 - extent - p
        for n, stride, k, gap, extent, (p, _) in zip(
            sizes(slid.lengths), slid.strides, kernel, slid.dilations, sizes(dims), known_padding(x, slid), strict=True
        )
    ]


def _padded(b: Builder, x: Value, slid: Window, filler: float) -> Value:
    """Return begin and end padding including the extension for the last window."""
    dims = sizes(b.dims(x), "an image")[2:]
    starts, ends = [p for p, _ in known_padding(x, slid)], _ends(b, x, slid) or []
    y = x
    if any([*starts, *ends]):
        axes = list(range(2, 2 + len(dims)))
        y = b(Pad, x, [*starts, *ends], filler, axes)
    return y


def _counted(b: Builder, x: Value, slid: Window, *, counts_padding: bool) -> Value:
    """Average pooling with partial windows at the end: zero-padded, rescaled to the number of counted elements."""
    kernel = sizes(slid.kernel)
    y = b(AveragePool, _padded(b, x, slid, 0.0), kernel_shape=kernel, strides=slid.strides)
    share = _count_window_elements(b, x, slid, counts_padding=counts_padding) / prod(kernel)
    return y if np.all(share == 1) else b(Div, y, b.like(x, share[None, None]))


def _count_window_elements(b: Builder, x: Value, slid: Window, *, counts_padding: bool) -> np.ndarray[Any, Any]:
    """Return the number of elements of each window that the average counts; padding counts with `counts_padding`."""
    dims = sizes(b.dims(x), "an image")[2:]
    found: np.ndarray[Any, Any] = np.ones(())
    for n, length_, kernel, stride, gap, (p, q) in zip(
        dims, sizes(slid.lengths), sizes(slid.kernel), slid.strides, slid.dilations, known_padding(x, slid), strict=True
    ):
        reserve(length_, kernel, what="positions of pooling windows")
        positions = np.arange(length_)[:, None] * stride + np.arange(kernel)[None] * gap
        low, high = (0, n + p + q) if counts_padding else (p, n + p)
        found = found[..., None] * ((positions >= low) & (positions < high)).sum(1)
    return found


_MOST_ENTRIES = 64
"""Maximum number of elements of a window that is decomposed into slices."""


def _decompose_dilated_pooling(b: Builder, x: Value, slid: Window, *, is_maximum: bool, counts_padding: bool) -> Value:
    """Dilated pooling: a strided slice for each window element."""
    kernel = sizes(slid.kernel)
    if prod(kernel) > _MOST_ENTRIES:
        message = f"dilated windows of {prod(kernel)} elements"
        raise UnsupportedError(message)
    extended = _padded(b, x, slid, float(np.finfo(np.float32).min) if is_maximum else 0.0)
    axes = vector(b, list(range(2, 2 + len(kernel))))
    parts: list[Value] = []
    for entry in np.ndindex(kernel):
        starts = [each * gap for each, gap in zip(entry, slid.dilations, strict=True)]
        stops = [
            start + (n - 1) * step + 1 for start, n, step in zip(starts, sizes(slid.lengths), slid.strides, strict=True)
        ]
        parts.append(b(Slice, extended, starts, stops, axes, slid.strides))
    if is_maximum:
        return b(Max, *parts)
    share = _count_window_elements(b, x, slid, counts_padding=counts_padding)
    return b(Div, b(Sum, *parts), b.like(x, share[None, None]))


def _powered(b: Builder, x: Value, p: float) -> Value:
    size = b(Abs, x)
    return size if p == 1 else b(Mul, x, x) if p == 2 else b(Pow, size, b.like(x, p))


def _root(b: Builder, x: Value, p: float) -> Value:
    return x if p == 1 else b(Sqrt, x) if p == 2 else b(Pow, x, 1 / p)


@LpPoolView.export_rule("ncnn")
def export_lp_pool(b: Builder, op: LpPoolView) -> Value:
    """Export LpPool: (mean(|x|^p) * window size)^(1/p) by average pooling."""
    if op.ceil_mode:
        message = "LpPool with ceil_mode=1"
        raise UnsupportedError(message)
    stated = {name: value for name, value in op.non_defaults().items() if name != "p"}
    size = b(AveragePool, _powered(b, op.x, op.p), count_include_pad=1, **stated)
    return _root(b, b(Mul, size, float(prod(op.kernel_shape))), op.p)


@GlobalLpPool.export_rule("ncnn")
def export_global_lp_pool(b: Builder, x: Value, *, p: int = 2) -> Value:
    axes = vector(b, list(range(2, len(b.dims(x)))))
    return _root(b, b(ReduceSum, _powered(b, x, p), axes), p)


@MaxPoolView.export_rule("ncnn")
def export_max_pool(b: Builder, op: MaxPoolView) -> Value:
    return _emitted(b, op, _MAXIMUM)


@AveragePoolView.export_rule("ncnn")
def export_average_pool(b: Builder, op: AveragePoolView) -> Value:
    return _emitted(b, op, 1, counts_padding=bool(op.count_include_pad))


def _spatial(b: Builder, x: Value) -> Axes:
    """Return the axes of a blob after the channels."""
    return tuple(range(1, len(lengths_of(b, x))))


RULES.having(spatial=_spatial).export_rules("""
GlobalAveragePool -> Reduction(x, p0=3, p1=0, p3=spatial(x), p4=1, p5=1)
GlobalMaxPool -> Reduction(x, p0=4, p1=0, p3=spatial(x), p4=1, p5=1)
""")

"""Pooling of ncnn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.ncnn.binding import Layer, emitted, layer, lengths_of
from graphport.ops.dialects.pnnx.pooling import adaptive_avg_pool, adaptive_max_pool
from graphport.ops.dialects.torch_functions import length, vector
from graphport.ops.dialects.windows import window_of
from graphport.ops.pages.arithmetic import Mul, Sqrt, Sub
from graphport.ops.pages.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from graphport.ops.pages.reduction import ReduceMean
from graphport.ops.pages.reshape import Concat, Flatten, Squeeze
from graphport.ops.views.pooling import AveragePoolView, MaxPoolView

Axes = tuple[int, ...]
_MAXIMUM = 0


def _along(at: Layer, count: int, key: int, default: int = 1) -> Axes:
    width = at.integer(key, default)
    return tuple(at.integer(key + 10 * place, width) for place in range(count))[::-1]


def _pads(at: Layer, count: int) -> Axes:
    left = at.integer(3)
    right = at.integer(14, left)
    top = at.integer(13, left)
    bottom = at.integer(15, top)
    front = at.integer(23, left)
    behind = at.integer(16, front)
    return (*(left, top, front)[:count][::-1], *(right, bottom, behind)[:count][::-1])


def _pool(count: int) -> Any:
    def pool(at: Layer) -> Value:
        b, x = at.b, at.x
        is_maximum = at.integer(0) == _MAXIMUM
        if at.integer(4):
            whole = b(GlobalMaxPool if is_maximum else GlobalAveragePool, x)
            return b(Squeeze, whole, vector(b, list(range(2, 2 + count))))
        if at.integer(7):
            sizes = tuple(None if n in (0, -233) else n for n in _along(at, count, 8, 0))
            adaptive: Any = adaptive_max_pool if is_maximum else adaptive_avg_pool
            return adaptive(b, x, sizes)
        return _windows(at, count, is_maximum=is_maximum)

    return pool


def _windows(at: Layer, count: int, *, is_maximum: bool) -> Value:
    kernel, strides = _along(at, count, 1, 0), _along(at, count, 2)
    mode = at.integer(5)
    if mode not in _BORDERS:
        message = f"there is no rule for the padding mode {mode}"
        raise UnsupportedError(message)
    pads = _BORDERS[mode](at, kernel, strides)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if is_maximum:
        return at.b(MaxPool, at.x, **attributes)
    # What is filled up to the length that windows need counts as elements, however padding does.
    counts = mode in _SAME or bool(at.integer(6))
    return at.b(AveragePool, at.x, count_include_pad=1 if counts else None, **attributes)


def _full(at: Layer, kernel: Axes, strides: Axes) -> Axes:
    """The padding that is given, and at the end what the last window needs more."""
    count, pads, dims = len(kernel), _pads(at, len(kernel)), at.b.dims(at.x)
    rest = [
        (length(dims, axis + 2) + pads[axis] + pads[axis + count] - kernel[axis]) % strides[axis]
        for axis in range(count)
    ]
    more = [stride - n if n else 0 for stride, n in zip(strides, rest, strict=True)]
    return (*pads[:count], *(p + q for p, q in zip(pads[count:], more, strict=True)))


def _valid(at: Layer, kernel: Axes, strides: Axes) -> Axes:
    del strides
    return _pads(at, len(kernel))


def _same(at: Layer, kernel: Axes, strides: Axes) -> Axes:
    """As much as there are steps; the larger half is at the end, or in front, but never in front of the depth."""
    count, dims = len(kernel), at.b.dims(at.x)
    lengths = [length(dims, axis + 2) for axis in range(count)]
    total = [k + (n - 1) // s * s - n for k, n, s in zip(kernel, lengths, strides, strict=True)]
    if any(n > 0 for n in total) and min(total) < 0:
        message = "padding that takes away along one axis and adds along another"
        raise UnsupportedError(message)
    small, large = ([max(n, 0) // 2 for n in total], [max(n, 0) - max(n, 0) // 2 for n in total])
    is_lower = [at.integer(5) == _LOWER and axis != count - _SPATIAL for axis in range(count)]
    front = [q if lower else p for p, q, lower in zip(small, large, is_lower, strict=True)]
    return (*front, *(p + q - f for p, q, f in zip(small, large, front, strict=True)))


_LOWER, _SPATIAL = 3, 3
_SAME = (2, _LOWER)
_BORDERS: Mapping[int, Callable[[Layer, Axes, Axes], Axes]] = MappingProxyType(
    {0: _full, 1: _valid, 2: _same, _LOWER: _same}
)
"""The padding before and behind each axis, by mode."""


layer("Pooling1D")(_pool(1))
layer("Pooling")(_pool(2))
layer("Pooling3D")(_pool(3))


@layer("StatisticsPooling")
def statistics(at: Layer) -> Value:
    """The mean of each channel, and behind them their deviations."""
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


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


_ENDINGS = {1: "1D", 2: "", 3: "3D"}
_KERNEL, _STRIDE = (1, 11, 21), (2, 12, 22)
_BEGIN, _END = (3, 13, 23), (14, 15, 16)


def _emitted(b: Builder, op: AveragePoolView | MaxPoolView, kind: int, *, counts_padding: bool = False) -> Value | None:
    count = len(lengths_of(b, op.x)) - 1
    if count not in _ENDINGS or any(d != 1 for d in op.dilations or ()) or b.count > 1:
        return None
    slid = window_of(op)
    pairs = [(p, q) for p, q in slid.pads if isinstance(p, int) and isinstance(q, int)]
    if len(pairs) < count or any(p < 0 or q < 0 for p, q in pairs):
        return None
    keyed: dict[str, Any] = {}
    for keys, numbers in (
        (_KERNEL, op.kernel_shape),
        (_STRIDE, slid.strides),
        (_BEGIN, [p for p, _ in pairs]),
        (_END, [q for _, q in pairs]),
    ):
        keyed |= {f"p{key}": number for key, number in zip(keys, reversed(numbers), strict=False)}
    mode = 0 if op.ceil_mode else 1
    return emitted(b, f"Pooling{_ENDINGS[count]}", op.x, p0=kind, **keyed, p5=mode, p6=1 if counts_padding else None)


@MaxPoolView.lift("ncnn")
def lift_max_pool(b: Builder, op: MaxPoolView) -> Value | None:
    return _emitted(b, op, 0)


@AveragePoolView.lift("ncnn")
def lift_average_pool(b: Builder, op: AveragePoolView) -> Value | None:
    if op.ceil_mode and op.count_include_pad:
        return None
    return _emitted(b, op, 1, counts_padding=bool(op.count_include_pad))


def _global(b: Builder, x: Value, operation: int) -> Value:
    """The axes stay, with a length of 1."""
    axes = tuple(range(1, len(lengths_of(b, x))))
    return emitted(b, "Reduction", x, p0=operation, p1=0, p3=axes, p4=1, p5=1)


@GlobalAveragePool.lift("ncnn")
def lift_global_average_pool(b: Builder, x: Value) -> Value:
    return _global(b, x, 3)


@GlobalMaxPool.lift("ncnn")
def lift_global_max_pool(b: Builder, x: Value) -> Value:
    return _global(b, x, 4)

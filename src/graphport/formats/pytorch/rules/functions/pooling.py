"""Pooling of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.pytorch.rules.binding import DIALECT, called, emits, integers, scalar_of
from graphport.formats.pytorch.rules.functions.convolution import batched, unbatched
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.decompositions.adaptive_pooling import largest, pooled, static_regions
from graphport.ops.definitions.arithmetic import Max, Mod, Mul, Pow
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool, MaxRoiPool
from graphport.ops.definitions.reduction import ReduceMax, ReduceMean, ReduceProd
from graphport.ops.definitions.reshape import Concat, Shape
from graphport.ops.lowering.operands import vector
from graphport.ops.lowering.windows import window_of
from graphport.ops.views.pooling import AveragePoolView, MaxPoolView

Answer = Value | tuple[Value, ...]


def _op_types(name: str) -> list[str]:
    snake = name.replace("Pool", "_pool").replace("Adaptive", "adaptive_").lower()
    return [f"{op_type}{n}d" for n in (1, 2, 3) for op_type in (f"nn.{name}", f"F.{snake}", f"aten::{snake}")]


def _spatial(b: Builder, kernel_size: Any, x: Value) -> int:
    """Return the number of spatial axes; for a scalar kernel size, all except batch and channels."""
    numbers = integers(kernel_size)
    return len(numbers) if len(numbers) > 1 or len(b.dims(x)) < 3 else len(b.dims(x)) - 2


def _steps(stride: Any, kernel: tuple[int, ...]) -> tuple[int, ...]:
    given = stride is not None and stride != ()
    return integers(stride, len(kernel)) if given else kernel


@emits(*_op_types("MaxPool"))
def max_pool(
    b: Builder,
    input: Value,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: Any = False,
    return_indices: Any = False,
) -> Answer:
    count = _spatial(b, kernel_size, input)
    kernel = integers(kernel_size, count)
    x, is_added = batched(b, input, count + 2)
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": _steps(stride, kernel),
        "pads": integers(padding, count) * 2,
        "dilations": integers(dilation, count),
        "ceil_mode": int(bool(scalar_of(ceil_mode))) or None,
    }
    if b.count == 1 and not scalar_of(return_indices):
        return unbatched(b, b(MaxPool, x, **attributes), is_added=is_added)
    y, indices = b.results(MaxPool, 2, x, **attributes)
    # PyTorch's indices refer to the plane of a channel, ONNX's to the whole tensor.
    return unbatched(b, y, is_added=is_added), unbatched(b, _within_planes(b, x, indices), is_added=is_added)


def _within_planes(b: Builder, x: Value, indices: Value) -> Value:
    dims = b.dims(x)[2:]
    if any(isinstance(dim, Symbolic) for dim in dims):
        return b(Mod, indices, b(ReduceProd, b(Shape, x, start=2), keepdims=0))
    return b(Mod, indices, b.like(indices, prod(dims)))


@emits(*_op_types("AvgPool"))
def avg_pool(
    b: Builder,
    input: Value,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: Any = False,
    count_include_pad: Any = True,
    divisor_override: Any = None,
) -> Value:
    count = _spatial(b, kernel_size, input)
    kernel = integers(kernel_size, count)
    pads = integers(padding, count)
    x, is_added = batched(b, input, count + 2)
    divisor = scalar_of(divisor_override)
    counts_padding = bool(scalar_of(count_include_pad)) or divisor is not None
    if divisor is not None and scalar_of(ceil_mode):
        message = "divisor_override together with ceil_mode=True"
        raise UnsupportedError(message)
    y = b(
        AveragePool,
        x,
        kernel_shape=kernel,
        strides=_steps(stride, kernel),
        pads=pads * 2 if any(pads) else None,
        ceil_mode=int(bool(scalar_of(ceil_mode))) or None,
        count_include_pad=1 if counts_padding and any(pads) else None,
    )
    if divisor is not None:
        area = 1
        for k in kernel:
            area *= k
        y = b(Mul, y, b.like(y, area / divisor))
    return unbatched(b, y, is_added=is_added)


@emits("nn.LPPool1d", "nn.LPPool2d", "nn.LPPool3d", "F.lp_pool1d", "F.lp_pool2d", "F.lp_pool3d")
def lp_pool(
    b: Builder, input: Value, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: Any = False
) -> Value:
    """Lp pooling: sum(x ** p) ** (1 / p). PyTorch uses signed powers, and drops negative sums."""
    count = _spatial(b, kernel_size, input)
    kernel = integers(kernel_size, count)
    power = float(scalar_of(norm_type))
    x, is_added = batched(b, input, count + 2)
    area = 1
    for k in kernel:
        area *= k
    powers = b(Pow, x, b.like(x, power))
    mean = b(
        AveragePool,
        powers,
        kernel_shape=kernel,
        strides=_steps(stride, kernel),
        ceil_mode=int(bool(scalar_of(ceil_mode))) or None,
    )
    total = b(Mul, mean, b.like(x, area))
    positive = b(Max, total, 0)
    return unbatched(b, b(Pow, positive, b.like(x, 1 / power)), is_added=is_added)


# ── adaptive: windows whose lengths differ ────────────────────────────────────────────────────────────────────────────


@emits(*_op_types("AdaptiveAvgPool"))
def adaptive_avg_pool(b: Builder, input: Value, output_size: Any) -> Value:
    return _adaptive(b, input, output_size, AveragePool)


@emits(*_op_types("AdaptiveMaxPool"))
def adaptive_max_pool(b: Builder, input: Value, output_size: Any, return_indices: Any = False) -> Answer:
    if b.count == 1 and not scalar_of(return_indices):
        return _adaptive(b, input, output_size, MaxPool)
    lengths, x, is_added = _targets(b, input, output_size)
    extents = b.dims(x)[2:]
    pairs = list(zip(extents, lengths, strict=True))
    if any(not isinstance(n, int) or n % m for n, m in pairs):
        if b.count == 1:
            return _adaptive(b, input, output_size, MaxPool)
        if 0 in lengths:
            message = "indices of adaptive max pooling with an output size of None over a dynamic dim"
            raise UnsupportedError(message)
        y, indices = largest(b, x, dict(enumerate(lengths, 2)))
        return unbatched(b, y, is_added=is_added), unbatched(b, indices, is_added=is_added)
    kernel = tuple(int(n) // m for n, m in pairs if isinstance(n, int))
    y = max_pool(b, x, kernel, kernel, return_indices=True)
    return tuple(unbatched(b, each, is_added=is_added) for each in y) if isinstance(y, tuple) else y


def _targets(b: Builder, input: Value, output_size: Any) -> tuple[list[int], Value, bool]:
    """Return the output size of each spatial axis, the operand with a batch axis, and whether that axis was added.

    A size of 0 keeps a dynamic size.
    """
    rank = len(b.dims(input))
    sizes = output_size if isinstance(output_size, tuple) else integers(output_size)
    count = len(sizes) if len(sizes) > 1 or rank < 3 else rank - 2
    sizes = tuple(sizes) * count if len(sizes) == 1 else tuple(sizes)
    x, is_added = batched(b, input, count + 2)
    dims = b.dims(x)[2:]
    lengths: list[int] = []
    for size, dim in zip(sizes, dims, strict=True):
        # PNNX writes 0 for a kept size.
        kept = 0 if isinstance(dim, Symbolic) else dim
        lengths.append(int(scalar_of(size)) if size else kept)
    return lengths, x, is_added


_MOST_WINDOWS = 1024
"""Maximum number of windows along an axis that are sliced individually."""


def _adaptive(b: Builder, input: Value, output_size: Any, op_def: Any) -> Value:
    lengths, x, is_added = _targets(b, input, output_size)
    if all(n == 1 for n in lengths):
        return unbatched(b, b(GlobalAveragePool if op_def is AveragePool else GlobalMaxPool, x), is_added=is_added)
    extents = b.dims(x)[2:]
    numbers = [n for n in extents if isinstance(n, int)]
    if any(not 1 <= m <= _MOST_WINDOWS for n, m in zip(extents, lengths, strict=True) if m or isinstance(n, int)):
        message = f"adaptive pooling to {', '.join(map(str, lengths))} windows, expected 1 to {_MOST_WINDOWS} per axis"
        raise UnsupportedError(message)
    if len(numbers) < len(extents):
        y = x
        for axis, (n, m) in enumerate(zip(extents, lengths, strict=True), 2):
            if m not in (0, n):
                y = pooled(b, y, axis, m, ReduceMean if op_def is AveragePool else ReduceMax)
        return unbatched(b, y, is_added=is_added)
    if all(n % m == 0 for n, m in zip(numbers, lengths, strict=True)):
        kernel = tuple(n // m for n, m in zip(numbers, lengths, strict=True))
        y = b(op_def, x, kernel_shape=kernel, strides=kernel)
        return unbatched(b, y, is_added=is_added)
    y = x
    for axis, (n, m) in enumerate(zip(numbers, lengths, strict=True)):
        y = _along(b, y, axis, len(numbers), static_regions(n, m), op_def)
    return unbatched(b, y, is_added=is_added)


def _along(b: Builder, x: Value, axis: int, count: int, windows: Sequence[tuple[int, int]], op_def: Any) -> Value:
    """Pool along one axis; adaptive windows are products of windows per axis."""
    starts = [start for start, _ in windows]
    widths = {stop - start for start, stop in windows}
    steps = {after - before for before, after in pairwise(starts)}
    # With more windows than elements, several windows start at one index.
    if len(widths) == 1 and len(steps) <= 1 and 0 not in steps:
        width, step = widths.pop(), steps.pop() if steps else 1
        return b(op_def, x, kernel_shape=_only(axis, count, width), strides=_only(axis, count, step))
    parts: list[Value] = []
    place = vector(b, [axis + 2])
    for start, stop in windows:
        part = b(Slice, x, [start], [stop], place)
        kernel = _only(axis, count, stop - start)
        parts.append(b(op_def, part, kernel_shape=kernel, strides=kernel))
    return b(Concat, *parts, axis=axis + 2)


def _only(axis: int, count: int, value: int) -> tuple[int, ...]:
    return tuple(value if place == axis else 1 for place in range(count))


@emits("torchvision.ops.roi_pool", "torchvision.ops.RoIPool")
def roi_pool(b: Builder, input: Value, boxes: Value, output_size: Any, spatial_scale: Any = 1.0) -> Value:
    return b(
        MaxRoiPool,
        input,
        boxes,
        pooled_shape=integers(output_size, 2),
        spatial_scale=float(scalar_of(spatial_scale)),
    )


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────

Axes = tuple[int, ...]


def _emitted(
    b: Builder, op_type: str, op: AveragePoolView | MaxPoolView, more: dict[str, Any]
) -> Value | tuple[Value, ...] | None:
    count, kernel = len(op.kernel_shape), op.kernel_shape
    if not 1 <= count <= 3:
        return None
    slid = window_of(op)
    pairs = slid.padding
    if pairs is None or any(p != q or not 0 <= 2 * p <= k for (p, q), k in zip(pairs, kernel, strict=True)):
        return None
    more |= {"stride": slid.strides, "padding": tuple(p for p, _ in pairs), "ceil_mode": bool(op.ceil_mode)}
    if b.count > 1:
        return _with_indices(b, f"F.{op_type}_pool{count}d", op.x, kernel, more)
    return called(b, f"F.{op_type}_pool{count}d", input=op.x, kernel_size=kernel, **more)


def _with_indices(b: Builder, op_type: str, x: Value, kernel: Axes, more: dict[str, Any]) -> tuple[Value, ...] | None:
    """Max pooling with indices, which PyTorch counts per plane and ONNX in the tensor."""
    dims = b.dims(x)
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) < len(dims):
        return None
    more |= {"kernel_size": kernel, "return_indices": True, "$": ("input",)}
    y, indices = b.emit(op_type, x, facts=[UNKNOWN, TensorFact(DType.INT64, None)], **more)
    planes = prod(numbers[:2])
    first = np.arange(planes).reshape(numbers[0], numbers[1], *[1] * len(kernel)) * prod(numbers[2:])
    return y, b.emit("Expression", indices, b.constant(first), expr="add(@0,@1)")[0]


@MaxPoolView.export_rule(DIALECT)
def export_max_pool(b: Builder, op: MaxPoolView) -> Value | tuple[Value, ...] | None:
    if op.storage_order and b.count > 1:
        return None
    return _emitted(b, "max", op, {"dilation": op.dilations or (1,) * len(op.kernel_shape), "return_indices": False})


@AveragePoolView.export_rule(DIALECT)
def export_average_pool(b: Builder, op: AveragePoolView) -> Value | tuple[Value, ...] | None:
    if any(d != 1 for d in op.dilations or ()):
        return None
    divisor: dict[str, Any] = {"divisor_override_": None} if len(op.kernel_shape) > 1 else {}
    return _emitted(b, "avg", op, {"count_include_pad": bool(op.count_include_pad)} | divisor)


def _global(b: Builder, x: Value, op_type: str) -> Value | None:
    count = len(b.dims(x)) - 2
    if not 1 <= count <= 3:
        return None
    return called(b, f"F.adaptive_{op_type}_pool{count}d", input=x, output_size=(1,) * count)


PNNX.having(pooled=_global).export_rules("""
GlobalAveragePool -> pooled(x, "avg")
GlobalMaxPool -> pooled(x, "max")
""")

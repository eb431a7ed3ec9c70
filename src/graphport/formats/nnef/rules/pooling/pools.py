"""Poolings and box filters in NNEF, whose windows may slide over batch and channels, too."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.facts import UNKNOWN
from graphport.formats.nnef.rules.convolution import deconv_attributes, steps
from graphport.formats.nnef.rules.convolution_borders import Pairs, bordered, emitted_padding, fact_of, static_dims
from graphport.formats.nnef.rules.padding_borders import MOST_ELEMENTS
from graphport.formats.nnef.rules.pooling.arrangement import Pooling, Shaped, arranged
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Mul, Sqrt
from graphport.ops.definitions.convolution import ConvTranspose
from graphport.ops.definitions.convolution.window import integer_pads
from graphport.ops.definitions.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from graphport.ops.lowering.windows import window_options
from graphport.ops.views.pooling import AveragePoolView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder
    from graphport.ops.definitions.convolution.window import Window


@Pooling.lower("nnef", "max_pool")
def max_pool(b: Builder, stated: Pooling, input: Value) -> Value:
    """Max pooling; a `constant` border pads with zeros, `ignore` excludes the padding."""
    found = arranged(b, input, stated)
    x, slide = bordered(b, found.x, found.slide, stated.border, native="ignore")
    y = b(MaxPool, x, kernel_shape=static_dims(slide.kernel), **slide.attributes(b.dims(x)[2:]))
    return found.restored(b, y)


@Pooling.lower("nnef", "avg_pool")
def avg_pool(b: Builder, stated: Pooling, input: Value) -> Value:
    """Average pooling; a `constant` border counts as zeros, `ignore` excludes the padding."""
    return box(b, stated, input, normalize=True)


@Pooling.lower("nnef", "box")
def box(b: Builder, stated: Pooling, input: Value, *, normalize: bool = False) -> Value:
    """Sum pooling, or average pooling with `normalize`."""
    found = arranged(b, input, stated)
    ignored = stated.border == "ignore"
    x, slide = bordered(b, found.x, found.slide, "constant" if ignored else stated.border)
    counts_padding = None if slide.is_trivial or (ignored and normalize) else 1
    y = b(
        AveragePool,
        x,
        kernel_shape=static_dims(slide.kernel),
        count_include_pad=counts_padding,
        **slide.attributes(b.dims(x)[2:]),
    )
    if not normalize and prod(stated.size) > 1:
        y = b(Mul, y, float(prod(stated.size)))
    return found.restored(b, y)


@Pooling.lower("nnef", "rms_pool")
def rms_pool(b: Builder, stated: Pooling, input: Value) -> Value:
    """Root mean square pooling: sqrt(avg_pool(x²))."""
    return b(Sqrt, avg_pool(b, stated, b(Mul, input, input)))


@Pooling.lower("nnef", "debox")
def debox(b: Builder, stated: Pooling, input: Value, *, output_shape: Shaped = (), normalize: bool = False) -> Value:
    """Debox: add each element, divided by the window size with `normalize`, to all positions of its window."""
    if stated.border not in ("constant", "ignore"):
        message = f"border {stated.border!r} of a transposed filter"
        raise UnsupportedError(message)
    found = arranged(b, input, stated)
    channels = b.dims(found.x, at_least=2)[1]
    if not isinstance(channels, int):
        message = "an unknown extent of a non-spatial axis"
        raise UnsupportedError(message)
    wanted = found.window_dims(output_shape)
    kernel = static_dims(found.slide.kernel)
    if channels * prod(kernel) > MOST_ELEMENTS:
        message = f"{channels} windows of {prod(kernel)} elements"
        raise UnsupportedError(message)
    share = 1 / prod(kernel) if normalize else 1
    weights = b.like(input, np.full((channels, 1, *kernel), share))
    shaped = deconv_attributes(found.slide, b.dims(found.x)[2:], wanted)
    y = b(ConvTranspose, found.x, weights, group=channels if channels != 1 else None, **shaped)
    return found.restored(b, y)


def has_padding(padding: Pairs) -> bool:
    """Whether a window may cover more than the tensor, as it may with automatic padding."""
    return not padding or any(begin or end for begin, end in padding)


def emitted_pool(
    b: Builder,
    op_type: str,
    x: Value,
    kernel: tuple[Dim, ...],
    padding: Pairs,
    border: str,
    strides: Shaped | None,
    dilations: Shaped | None,
    *,
    facts: Sequence[Fact] = (UNKNOWN,),
    **attributes: Attribute,
) -> tuple[Value, ...]:
    """Emit a pooling over all axes but the first two, with one result per fact in `facts`."""
    stride, dilation = steps(strides), steps(dilations)
    return b.emit(
        op_type,
        x,
        facts=facts,
        size=(1, 1, *(k for k in kernel if isinstance(k, int))),
        border=border,
        padding=((0, 0), (0, 0), *padding) if padding else (),
        stride=(1, 1, *stride) if stride else (),
        dilation=(1, 1, *dilation) if dilation else (),
        **attributes,
    )


def _counts(dims: Sequence[Dim], slid: Window) -> Any:
    """Count the elements and padding in each window; elements beyond the padding do not count."""
    found = np.ones([1] * (len(dims) + 2), np.float32)
    sides = zip(
        static_dims(dims), static_dims(slid.kernel), integer_pads(slid.pads), static_dims(slid.lengths), strict=True
    )
    for axis, (n, k, (begin, end), length) in enumerate(sides):
        first = np.arange(length) * slid.strides[axis] - begin
        covered = first[:, None] + np.arange(k) * slid.dilations[axis] < n + end
        found = found * covered.sum(1).reshape([-1 if place == axis + 2 else 1 for place in range(len(dims) + 2)])
    return found


@AveragePoolView.export_rule("nnef")
def export_average_pool(b: Builder, op: AveragePoolView) -> tuple[Value, ...] | None:
    """Export AveragePool: counted padding is a `constant` border, other padding is `ignore`."""
    if fact_of(op.x).shape is None:
        return None
    stated = emitted_padding(b.dims(op.x)[2:], op.kernel_shape, **window_options(op))
    if stated is None:
        return None
    padding, slid = stated
    overhangs = any(
        pair[1] > (end if isinstance(end, int) else 0) for pair, (_, end) in zip(padding, slid.pads, strict=False)
    )
    if op.count_include_pad and overhangs:
        (total,) = emitted_pool(
            b, "box", op.x, op.kernel_shape, padding, "constant", op.strides, op.dilations, normalize=False
        )
        return b.emit("div", total, b.like(op.x, _counts(b.dims(op.x)[2:], slid)))
    border = "ignore" if has_padding(padding) and not op.count_include_pad else "constant"
    return emitted_pool(b, "avg_pool", op.x, op.kernel_shape, padding, border, op.strides, op.dilations)


@GlobalAveragePool.export_rule("nnef")
def export_global_average_pool(b: Builder, x: Value) -> tuple[Value, ...] | None:
    """Export GlobalAveragePool as a mean over all spatial axes."""
    return b.emit("mean_reduce", x, axes=tuple(range(2, len(b.dims(x)))))


@GlobalMaxPool.export_rule("nnef")
def export_global_max_pool(b: Builder, x: Value) -> tuple[Value, ...] | None:
    """Export GlobalMaxPool as a maximum over all spatial axes."""
    return b.emit("max_reduce", x, axes=tuple(range(2, len(b.dims(x)))))

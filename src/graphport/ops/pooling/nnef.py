"""Poolings and box filters in NNEF, whose windows may slide over batch and channels, too."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from graphport.ops.arithmetic import Mul
from graphport.ops.convolution.borders import Pairs, Slide, bordered, fact_of, said_padding
from graphport.ops.convolution.nnef import steps
from graphport.ops.declare import ShapeError, lower
from graphport.ops.pooling import AveragePool, GlobalAveragePool, GlobalMaxPool, MaxPool
from graphport.ops.reshape import Squeeze, Transpose, Unsqueeze

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Shaped = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arranged:
    """A tensor whose first two axes no window slides over, and how to bring its axes back."""

    x: Value
    slide: Slide
    order: tuple[int, ...]
    added: int

    def restored(self, b: Builder, y: Value) -> Value:
        """`y`, arranged like `x`, with its axes in NNEF's order again."""
        if self.order != tuple(range(len(self.order))):
            y = b(Transpose, y, perm=tuple(self.order.index(axis) for axis in range(len(self.order))))
        return b(Squeeze, y, b.constant(list(range(self.added)))) if self.added else y


def arranged(
    b: Builder, input: Value, size: Shaped, padding: Pairs, stride: Shaped, dilation: Shaped
) -> Arranged:
    """`input` with two axes in front that stay as they are, as ONNX's poolings want it; axes are added if need be.

    Raises:
        ShapeError: an attribute does not have one entry for each dimension, or one that is not positive.
    """
    rank = len(b.dims(input))
    if len(size) != rank or any(k < 1 for k in size):
        message = f"size {list(size)} for a tensor of rank {rank}"
        raise ShapeError(message, "one positive entry for each dimension")
    slide = Slide.of(size, padding, stride, dilation)
    pairs = slide.padding or ((0, 0),) * rank
    slid = [axis for axis in range(rank) if size[axis] > 1 or slide.stride[axis] > 1 or any(pairs[axis])]
    still = [axis for axis in range(rank) if axis not in slid]
    added = max(2 - len(still), 3 - rank, 0)
    x = b(Unsqueeze, input, b.constant(list(range(added)))) if added else input
    front = [*range(added), *(axis + added for axis in still)][:2]
    order = (*front, *(axis for axis in range(rank + added) if axis not in front))
    if order != tuple(range(len(order))):
        x = b(Transpose, x, perm=order)
    places = [axis - added for axis in order[2:]]
    return Arranged(x, _chosen(slide, places), order, added)


def _chosen(slide: Slide, axes: list[int]) -> Slide:
    """The window over `axes` alone; a negative one is an axis that was added."""
    kernel = tuple(slide.kernel[axis] if axis >= 0 else 1 for axis in axes)
    padding = tuple(slide.padding[axis] if axis >= 0 else (0, 0) for axis in axes) if slide.padding else ()
    stride = tuple(slide.stride[axis] if axis >= 0 else 1 for axis in axes)
    return Slide(kernel, padding, stride, tuple(slide.dilation[axis] if axis >= 0 else 1 for axis in axes))


@lower("nnef", "max_pool")
def max_pool(
    b: Builder,
    input: Value,
    *,
    size: Shaped,
    border: str = "constant",
    padding: Pairs = (),
    stride: Shaped = (),
    dilation: Shaped = (),
) -> Value:
    """The largest entry; a `constant` border puts zeros into the choice, an ignored one nothing."""
    found = arranged(b, input, size, padding, stride, dilation)
    x, slide = bordered(b, found.x, found.slide, border, native="ignore")
    y = b(MaxPool, x, kernel_shape=slide.kernel, **slide.attributes(b.dims(x)[2:]))
    return found.restored(b, y)


@lower("nnef", "avg_pool")
def avg_pool(
    b: Builder,
    input: Value,
    *,
    size: Shaped,
    border: str = "constant",
    padding: Pairs = (),
    stride: Shaped = (),
    dilation: Shaped = (),
) -> Value:
    """The mean; a `constant` border counts as zeros, an ignored one not at all."""
    return box(
        b, input, size=size, border=border, padding=padding, stride=stride, dilation=dilation, normalize=True
    )


@lower("nnef", "box")
def box(
    b: Builder,
    input: Value,
    *,
    size: Shaped,
    border: str = "constant",
    padding: Pairs = (),
    stride: Shaped = (),
    dilation: Shaped = (),
    normalize: bool = False,
) -> Value:
    """The sum, or with `normalize` the mean."""
    found = arranged(b, input, size, padding, stride, dilation)
    ignored = border == "ignore"
    x, slide = bordered(b, found.x, found.slide, "constant" if ignored else border)
    counts_padding = None if slide.is_trivial or (ignored and normalize) else 1
    y = b(
        AveragePool,
        x,
        kernel_shape=slide.kernel,
        count_include_pad=counts_padding,
        **slide.attributes(b.dims(x)[2:]),
    )
    if not normalize and prod(size) > 1:
        y = b(Mul, y, b.like(y, float(prod(size))))
    return found.restored(b, y)


@MaxPool.lift("nnef")
def lift_max_pool(
    b: Builder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Shaped | None = None,
    kernel_shape: Shaped,
    pads: Shaped | None = None,
    storage_order: int = 0,
    strides: Shaped | None = None,
) -> tuple[Value, ...] | None:
    """Padding never wins: an ignored border."""
    del storage_order  # counts places, which NNEF counts otherwise
    if b.count > 1 or fact_of(x).shape is None:
        return None
    said = said_padding(
        b.dims(x)[2:],
        kernel_shape,
        auto_pad=auto_pad,
        dilations=dilations,
        pads=pads,
        strides=strides,
        ceil_mode=ceil_mode,
    )
    if said is None:
        return None
    border = "ignore" if _pads(said[0]) else "constant"
    return _said(b, "max_pool", x, kernel_shape, said[0], border, strides, dilations)


def _pads(padding: Pairs) -> bool:
    return not padding or any(begin or end for begin, end in padding)


def _said(
    b: Builder,
    word: str,
    x: Value,
    kernel: tuple[Dim, ...],
    padding: Pairs,
    border: str,
    strides: Shaped | None,
    dilations: Shaped | None,
) -> tuple[Value, ...]:
    stride, dilation = steps(strides), steps(dilations)
    return b.word(
        word,
        x,
        size=(1, 1, *(k for k in kernel if isinstance(k, int))),
        border=border,
        padding=((0, 0), (0, 0), *padding) if padding else (),
        stride=(1, 1, *stride) if stride else (),
        dilation=(1, 1, *dilation) if dilation else (),
    )


@AveragePool.lift("nnef")
def lift_average_pool(
    b: Builder,
    x: Value,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Shaped | None = None,
    kernel_shape: Shaped,
    pads: Shaped | None = None,
    strides: Shaped | None = None,
) -> tuple[Value, ...] | None:
    """Padding that counts is a `constant` border, else an ignored one."""
    if fact_of(x).shape is None:
        return None
    said = said_padding(
        b.dims(x)[2:],
        kernel_shape,
        auto_pad=auto_pad,
        dilations=dilations,
        pads=pads,
        strides=strides,
        ceil_mode=ceil_mode,
    )
    if said is None:
        return None
    padding, slid = said
    overhangs = any(pair[1] > (end if isinstance(end, int) else 0) for pair, (_, end) in zip(padding, slid.pads, strict=False))
    if count_include_pad and overhangs:
        return None  # what hangs over behind the padding does not count, and NNEF has no word for that
    border = "ignore" if _pads(padding) and not count_include_pad else "constant"
    return _said(b, "avg_pool", x, kernel_shape, padding, border, strides, dilations)


@GlobalAveragePool.lift("nnef")
def lift_global_average_pool(b: Builder, x: Value) -> tuple[Value, ...] | None:
    return b.word("mean_reduce", x, axes=tuple(range(2, len(b.dims(x)))))


@GlobalMaxPool.lift("nnef")
def lift_global_max_pool(b: Builder, x: Value) -> tuple[Value, ...] | None:
    return b.word("max_reduce", x, axes=tuple(range(2, len(b.dims(x)))))

"""Convolutions and images in TFLite: their channels are last there."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.operands import dtype_of, sizes, vector
from graphport.ops.dialects.tflite.emitting import (
    ints,
    lengths_of,
    lift_reals,
    shaped,
    transposed_constant,
    zeros,
)
from graphport.ops.dialects.windows import transposed_window_of, window_options
from graphport.ops.pages.convolution import ConvTranspose
from graphport.ops.pages.convolution.window import window
from graphport.ops.pages.indexing import Slice
from graphport.ops.pages.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.pages.reshape.pieces import Concat
from graphport.ops.views.convolution import ConvTransposeView, ConvView
from graphport.ops.views.normalization import LRNView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"
_IMAGE, _VOLUME = 4, 5
_MOST_GROUPS = 4096


def last(b: Builder, x: Value) -> Value:
    return transposed_constant(b, x, (0, *range(2, len(b.dims(x))), 1))


def first(b: Builder, x: Value) -> Value:
    rank = len(b.dims(x))
    return transposed_constant(b, x, (0, rank - 1, *range(1, rank - 1)))


def as_image(b: Builder, x: Value) -> tuple[Value, int]:
    """x [N, C, H, W] of a signal or an image, and how many spatial axes it has.

    Raises:
        UnsupportedError: it has others.
    """
    rank = len(b.dims(x))
    if rank == _IMAGE - 1:
        batch, channels, length = b.dims(x)
        return shaped(b, x, (batch, channels, 1, length)), 1
    if rank != _IMAGE:
        message = f"a window over {rank - 2} axes"
        raise UnsupportedError(message)
    return x, 2


def as_before(b: Builder, y: Value, count: int) -> Value:
    if count == 2:
        return y
    batch, channels, _, length = b.dims(y)
    return shaped(b, y, (batch, channels, length))


def pair_of(numbers: Sequence[int], count: int, default: int = 1) -> tuple[int, int]:
    return (default, int(numbers[0])) if count == 1 else (int(numbers[0]), int(numbers[1]))


def _same(dims: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Any:
    """The padding that SAME stands for; `None` where an extent is open."""
    found: list[tuple[int, int]] = []
    for n, k, s, d in zip(dims, kernel, strides, dilations, strict=True):
        reach = (k - 1) * d + 1
        if not isinstance(n, int) and s != 1:
            return None
        total = reach - 1 if not isinstance(n, int) else max(0, (-(-n // s) - 1) * s + reach - n)
        found.append((total // 2, total - total // 2))
    return found


def bordered(b: Builder, x: Value, kernel: Sequence[int], stated: dict[str, Any], filler: float) -> tuple[Value, int]:
    """x [N, H, W, C], padded where there is no word for that, and the word for the rest: 0 SAME, 1 VALID."""
    if stated.get("auto_pad") == "SAME_UPPER" and not stated.get("ceil_mode"):
        # These are the same words, whatever the extents are.
        return x, 0
    dims = b.dims(x)[1:-1]
    slid = window(dims, kernel, **stated)
    pads = [tuple(sizes(pair, "padding")) for pair in slid.pads]
    if stated.get("ceil_mode"):
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, slid.dilations, strict=True)]
        lengths, extents = sizes(slid.lengths, "the result"), sizes(dims, "the image")
        pads = [
            (begin, max(end, (out - 1) * s + r - n - begin))
            for (begin, end), out, s, r, n in zip(pads, lengths, slid.strides, reach, extents, strict=True)
        ]
    if not any(map(any, pads)):
        return x, 1
    same = _same(dims, kernel, slid.strides, slid.dilations)
    if same is not None and [tuple(pair) for pair in same] == pads:
        return x, 0
    if min(min(pair) for pair in pads) < 0:
        message = "padding takes away"
        raise UnsupportedError(message)
    table = ints(b, [[0, 0], *map(list, pads), [0, 0]])
    if filler:
        return emit(b, "PADV2", x, table, b.like(x, filler)), 1
    return emit(b, "PAD", x, table), 1


@lift_reals(ConvView)
def lift_conv(b: Builder, op: ConvView) -> Lifted:
    x, w, bias, pads = op.x, op.w, op.b, op.pads
    if dtype_of(x) is not DType.FLOAT32:
        return None
    if len(b.dims(x)) == _VOLUME and op.group == 1:
        return _in_volumes(b, x, w, bias, window_options(op))
    x, count = as_image(b, x)
    if count == 1:
        maps, own, length = b.dims(w)
        w = shaped(b, w, (maps, own, 1, length))
        pads = (0, pads[0], 0, pads[1]) if pads else None
    steps, gaps = pair_of(op.strides or (1, 1), count), pair_of(op.dilations or (1, 1), count)
    maps, own, *kernel = sizes(b.dims(w), "the filters")
    if not maps:
        message = "no kernel computes a layer without results"
        raise UnsupportedError(message)
    (channels,) = sizes(b.dims(x)[1:2], "the channels")
    stated = {"auto_pad": op.auto_pad, "dilations": gaps, "pads": pads, "strides": steps}
    image, border = bordered(b, last(b, x), kernel, stated, 0)
    bias = bias if bias is not None else zeros(b, maps)
    options: dict[str, Any] = {"padding": border, "stride_h": steps[0], "stride_w": steps[1]}
    options |= {"dilation_h_factor": gaps[0], "dilation_w_factor": gaps[1]}
    if op.group == channels and own == 1 and op.group > 1:
        filters = transposed_constant(b, w, (1, 2, 3, 0))
        y = emit(b, "DEPTHWISE_CONV_2D", image, filters, bias, depth_multiplier=maps // channels, **options)
    else:
        y = emit(b, "CONV_2D", image, transposed_constant(b, w, (0, 2, 3, 1)), bias, **options)
    return (as_before(b, first(b, y), count),)


def _in_volumes(b: Builder, x: Value, w: Value, bias: Value | None, stated: dict[str, Any]) -> Lifted:
    """Filters [depth, height, width, channels, maps]."""
    maps, _, *kernel = sizes(b.dims(w), "the filters")
    image, border = bordered(b, last(b, x), kernel, stated, 0)
    bias = bias if bias is not None else zeros(b, maps)
    options: dict[str, Any] = {"padding": border}
    for axis, step, gap in zip("dhw", stated["strides"] or (1,) * 3, stated["dilations"] or (1,) * 3, strict=True):
        options |= {f"stride_{axis}": step, f"dilation_{axis}_factor": gap}
    return (first(b, emit(b, "CONV_3D", image, transposed_constant(b, w, (2, 3, 4, 1, 0)), bias, **options)),)


@lift_reals(ConvTransposeView)
def lift_conv_transpose(b: Builder, op: ConvTransposeView) -> Lifted:
    """The whole result, of which the padding is cut off."""
    x, w, bias = op.x, op.w, op.b
    if op.group != 1:
        return (_in_groups(b, (x, w, bias), op.group, window_options(op)),)
    if any(d != 1 for d in op.dilations or ()):
        w = _with_gaps(b, w, op.dilations or ())
    if len(b.dims(x)) > _VOLUME or dtype_of(x) is not DType.FLOAT32:
        return None
    geometry = transposed_window_of(replace(op, w=w, dilations=None))
    given = b.dims(x)
    if len(given) == _IMAGE - 1:
        x, w = (shaped(b, each, (*b.dims(each)[:2], 1, *b.dims(each)[2:])) for each in (x, w))
    flat = len(b.dims(x)) - len(given)
    steps = (*[1] * flat, *geometry.strides)
    cut = [*[(0, 0)] * flat, *(tuple(sizes(pair, "padding")) for pair in geometry.pads)]
    _, maps, *kernel = sizes(b.dims(w), "the filters")
    batch, space = b.dims(x)[0], sizes(b.dims(x)[2:], "what a transposed convolution reads")
    lengths = [*[1] * flat, *sizes(geometry.lengths, "the result")]
    full = [(n - 1) * s + k for n, s, k in zip(space, steps, kernel, strict=True)]
    whole = [max(f, out + first + last) for f, out, (first, last) in zip(full, lengths, cut, strict=True)]
    bias = bias if bias is not None else zeros(b, maps)
    image = last(b, x)
    shape = ints(b, [batch, *whole, maps]) if isinstance(batch, int) else _behind_batch(b, image, [*whole, maps])
    if len(kernel) == 2:
        options = {"padding": 1, "stride_h": steps[0], "stride_w": steps[1]}
        y = emit(b, "TRANSPOSE_CONV", shape, transposed_constant(b, w, (1, 2, 3, 0)), image, bias, **options)
    else:
        options = {"padding": 1, "stride_d": steps[0], "stride_h": steps[1], "stride_w": steps[2]}
        options |= {f"dilation_{axis}_factor": 1 for axis in "dhw"}
        y = emit(b, "CONV_3D_TRANSPOSE", shape, transposed_constant(b, w, (2, 3, 4, 1, 0)), image, bias, **options)
    if whole != lengths:
        begins = [first for first, _ in cut]
        every = batch if isinstance(batch, int) else -1
        y = emit(b, "SLICE", y, ints(b, [0, *begins, 0]), ints(b, [every, *lengths, maps]))
    y = first(b, y)
    return (shaped(b, y, (*b.dims(y)[:2], *b.dims(y)[3:])) if flat else y,)


def _behind_batch(b: Builder, x: Value, extents: Sequence[int]) -> Value:
    """A shape of int32 that begins with the batch of `x`, which is open, and goes on with these extents.

    An input of the graph with the same batch is asked for it, if there is one: nobody reads the order of its axes.
    """
    batch = b.dims(x)[0]
    ports = [] if b.graph is None else [each for each in b.graph.inputs if _begins_with(each, batch)]
    b.looks_around = True
    told = emit(b, "GATHER", lengths_of(b, (ports or [x])[0]), ints(b, [0]), axis=0)
    return emit(b, "CONCATENATION", told, ints(b, extents), axis=0)


def _begins_with(value: Value, extent: Dim) -> bool:
    dims = value.fact.shape if isinstance(value.fact, TensorFact) else None
    return bool(dims) and dims[0] == extent


def _in_groups(b: Builder, operands: tuple[Value, Value, Value | None], group: int, stated: dict[str, Any]) -> Value:
    """Each group of channels with its own filters."""
    x, w, bias = operands
    (channels, own) = (*sizes(b.dims(w)[:1], "the filters"), *sizes(b.dims(w)[1:2], "the filters"))
    parts: list[Value] = []
    if group > _MOST_GROUPS:
        message = f"{group} groups, one by one"
        raise UnsupportedError(message)
    for place in range(group):
        rows = place * channels // group, (place + 1) * channels // group
        taken = [
            b(Slice, each, vector(b, rows[:1]), vector(b, rows[1:]), vector(b, [axis]))
            for each, axis in ((x, 1), (w, 0))
        ]
        if bias is not None:
            maps = vector(b, [place * own]), vector(b, [(place + 1) * own])
            taken.append(b(Slice, bias, *maps, vector(b, [0])))
        parts.append(b(ConvTranspose, *taken, **stated))
    return b(Concat, *parts, axis=1)


def _with_gaps(b: Builder, w: Value, gaps: Sequence[int]) -> Value:
    """Filters with zeros between their entries, one axis after the other: kernels pad few axes at once."""
    dims = list(sizes(b.dims(w), "the filters"))
    for axis, gap in enumerate(gaps, len(dims) - len(gaps)):
        before, n, behind = prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])
        padded = emit(b, "PAD", shaped(b, w, (before, n, 1, behind)), ints(b, [[0, 0], [0, 0], [0, gap - 1], [0, 0]]))
        dims[axis] = n * gap
        w = shaped(b, padded, dims)
    lengths = [*dims[: -len(gaps)], *(n - gap + 1 for n, gap in zip(dims[-len(gaps) :], gaps, strict=True))]
    return emit(b, "SLICE", w, ints(b, [0] * len(dims)), ints(b, lengths))


@lift_reals(DepthToSpace)
def lift_depth_to_space(b: Builder, input: Value, *, blocksize: int, mode: str = "DCR") -> Lifted:
    if mode != "DCR":
        batch, channels, height, width = sizes(b.dims(input), "the image")
        c = channels // blocksize**2
        parts = shaped(b, input, (batch, c, blocksize, blocksize, height, width))
        moved = transposed_constant(b, parts, (0, 1, 4, 2, 5, 3))
        return (shaped(b, moved, (batch, c, height * blocksize, width * blocksize)),)
    return (first(b, emit(b, "DEPTH_TO_SPACE", last(b, input), block_size=blocksize)),)


@lift_reals(SpaceToDepth)
def lift_space_to_depth(b: Builder, input: Value, *, blocksize: int) -> Lifted:
    return (first(b, emit(b, "SPACE_TO_DEPTH", last(b, input), block_size=blocksize)),)


@lift_reals(LRNView)
def lift_lrn(b: Builder, op: LRNView) -> Lifted:
    if op.size % 2 == 0 or len(b.dims(op.x)) != _IMAGE:
        return None
    stated = {"radius": op.size // 2, "alpha": op.alpha / op.size, "beta": op.beta, "bias": op.bias}
    return (first(b, emit(b, "LOCAL_RESPONSE_NORMALIZATION", last(b, op.x), **stated)),)

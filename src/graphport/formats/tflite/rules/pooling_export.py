"""Export rules of pooling to TFLite.

Image pooling without dilation has operators, other forms are built from slices.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.budget import bounded, reserve
from graphport.core.dims import maximum
from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.computed_sizes import size_table, size_vector
from graphport.formats.tflite.rules.convolution_export import (
    as_before,
    as_image_window,
    pad_window,
    pair_of,
    slides,
    to_channels_first,
    to_channels_last,
)
from graphport.formats.tflite.rules.emitting import NUMERIC_TYPES, cast_to, export_reals, ints, needed_array
from graphport.formats.tflite.rules.rule_table import FLOAT_RULES, RULES
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions import arithmetic
from graphport.ops.definitions.convolution.window import Window, window
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.indexing.scattering import ScatterElements
from graphport.ops.definitions.padding import Pad
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import dtype_of, finite_limits, reshaped, sizes
from graphport.ops.lowering.windows import window_of, window_options
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView, MaxUnpoolView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"
_IMAGE = 4
_MAX_WINDOW_ELEMENTS = 512
"""Maximum number of window elements in a decomposition into slices."""
_MAX_INDEX = 1 << 62


def _has_word(b: Builder, x: Value, stated: dict[str, Any]) -> bool:
    return len(b.dims(x)) <= _IMAGE and all(d == 1 for d in stated["dilations"] or ())


def _kernel(slid: Window) -> tuple[int, ...]:
    """Return the kernel shape of a pooling that is decomposed into one slice per window element.

    Raises:
        UnsupportedError: the window has too many elements.
    """
    kernel = tuple(sizes(slid.kernel, "the window"))
    if prod(kernel) > _MAX_WINDOW_ELEMENTS:
        message = f"a window of {prod(kernel)} elements without a TFLite operator"
        raise UnsupportedError(message)
    return kernel


def _cells(b: Builder, x: Value, slid: Window, filler: float) -> Iterator[tuple[tuple[int, ...], Value]]:
    """Yield each window offset and the elements at that offset in all windows: [N, C, *lengths]."""
    kernel, lengths, dims = _kernel(slid), slid.lengths, b.dims(x)
    begins = [before for before, _ in slid.pads]
    windows = list(zip(dims[2:], begins, kernel, slid.strides, slid.dilations, lengths, strict=True))
    ends = [maximum(0, (out - 1) * s + (k - 1) * d + 1 - n - p) for n, p, k, s, d, out in windows]
    pads = list(zip(begins, ends, strict=True))
    if any(pair != (0, 0) for pair in pads):
        x = emit(b, "PADV2", x, size_table(b, [(0, 0), (0, 0), *pads], x), b.like(x, filler))
    for cell in product(*map(range, kernel)):
        begin = [at * d for at, d in zip(cell, slid.dilations, strict=True)]
        end = [at + (out - 1) * s + 1 for at, out, s in zip(begin, lengths, slid.strides, strict=True)]
        rows = [0, 0, *begin], [*dims[:2], *end], [1, 1, *slid.strides]
        yield cell, emit(b, "STRIDED_SLICE", x, *(size_vector(b, row, x) for row in rows))


def _coordinates(slid: Window, cell: Sequence[int]) -> list[np.ndarray[Any, Any]]:
    """Return the input coordinate of window element `cell` in each window, one array per spatial axis."""
    begins = sizes([first for first, _ in slid.pads], "the padding")
    windows = list(zip(cell, sizes(slid.lengths, "the result"), slid.strides, slid.dilations, begins, strict=True))
    if any(out * s + at * d + abs(p) > _MAX_INDEX for at, out, s, d, p in windows):
        message = "indices beyond int64"
        raise UnsupportedError(message)
    return [np.arange(reserve(out)) * s + at * d - p for at, out, s, d, p in windows]


def _cell_index(b: Builder, slid: Window, cell: Sequence[int], weights: Sequence[int]) -> Value:
    """Return the flat input index of window element `cell` in each window; `weights` are the strides of the axes."""
    at = sum(
        w * along.reshape(-1, *[1] * (len(weights) - axis - 1))
        for axis, (w, along) in enumerate(zip(weights, _coordinates(slid, cell), strict=True))
    )
    return b.constant(np.asarray(at, np.int64))


def _largest(b: Builder, x: Value, slid: Window, storage_order: int) -> Exported:
    """Return the maximum over all offsets, and its index in x."""
    dtype = dtype_of(x)
    dims = sizes(b.dims(x), "the pooled tensor") if b.count > 1 else (1, 1, *[1] * len(slid.lengths))
    wide = x if dtype in NUMERIC_TYPES else cast_to(b, x, DType.INT32 if dtype.is_integer else DType.FLOAT32)
    least = finite_limits(DType.FLOAT32 if dtype.is_floating else dtype)[0]
    space = dims[2:]
    weights = [int(prod(space[:axis] if storage_order else space[axis + 1 :])) for axis in range(len(space))]
    best: Value | None = None
    place: Value | None = None
    for cell, found in _cells(b, wide, slid, float(least)):
        here = _cell_index(b, slid, cell, weights) if b.count > 1 else None
        if best is None:
            best, place = found, here
            continue
        if here is not None and place is not None:
            place = emit(b, "SELECT_V2", emit(b, "GREATER", found, best), here, place)
        best = emit(b, "MAXIMUM", best, found)
    if best is None:
        return None
    y = cast_to(b, best, dtype)
    if place is None:
        return (y,)
    reserve(*dims[:2])
    planes = np.arange(prod(dims[:2]), dtype=np.int64).reshape(*dims[:2], *[1] * len(space)) * prod(space)
    return y, emit(b, "ADD", place, b.constant(planes))


def _sum(b: Builder, x: Value, slid: Window) -> Value:
    cells = [found for _, found in _cells(b, x, slid, 0.0)]
    if not cells:
        message = "an empty window"
        raise UnsupportedError(message)
    return reduce(partial(emit, b, "ADD"), cells)


def _mean(b: Builder, x: Value, slid: Window, *, counts_padding: bool) -> Value:
    if not all(isinstance(n, int) for n in b.dims(x)[2:]):
        return emit(b, "DIV", _sum(b, x, slid), _count_elements(b, x, slid, counts_padding=counts_padding))
    space, kernel = sizes(b.dims(x)[2:], "the pooled tensor"), _kernel(slid)
    share = np.ones([1] * len(space))
    for axis, n in enumerate(space):
        before, behind = sizes(slid.pads[axis], "the padding") if counts_padding else (0, 0)
        cells = [_coordinates(slid, [at] * len(space))[axis] for at in range(kernel[axis])]
        inside = sum(((each >= -before) & (each < n + behind)).astype(np.float64) for each in cells)
        share = share * np.reshape(inside, (-1, *[1] * (len(space) - axis - 1)))
    return emit(b, "DIV", _sum(b, x, slid), b.constant(share.astype(np.float32)))


def _ones(b: Builder, x: Value) -> Value:
    """Return an image [1, 1, *d] of ones with the size of x."""
    return emit(b, "FILL", size_vector(b, [1, 1, *b.dims(x)[2:]], x), b.like(x, 1))


def _count_elements(b: Builder, x: Value, slid: Window, *, counts_padding: bool) -> Value:
    """Return the number of elements in each window over an image of open size."""
    image = _ones(b, x)
    if counts_padding:
        image = emit(b, "PADV2", image, size_table(b, [(0, 0), (0, 0), *slid.pads], x), b.like(x, 1))
        slid = replace(slid, pads=((0, 0),) * len(slid.pads))
    return _sum(b, image, slid)


def _pool(
    b: Builder, op_type: str, x: Value, kernel: Sequence[int], stated: dict[str, Any], filler: float
) -> tuple[Value, bool]:
    """Emit a pooling operator over an image; return also whether the image was padded before."""
    given = to_channels_last(b, x)
    image, border = pad_window(b, given, kernel, stated, filler)
    extents = {"filter_height": kernel[0], "filter_width": kernel[1]}
    return emit(b, op_type, image, padding=border, **slides(stated["strides"]), **extents), image is not given


@export_reals(MaxPoolView)
def export_max_pool(b: Builder, op: MaxPoolView) -> Exported:
    x = op.x
    stated = window_options(op)
    if b.count > 1 or dtype_of(x) is not DType.FLOAT32 or not _has_word(b, x, stated):
        return _largest(b, x, window(b.dims(x)[2:], op.kernel_shape, **stated), op.storage_order)
    x, count, stated = as_image_window(b, x, stated)
    kernel = pair_of(op.kernel_shape, count)
    y, _ = _pool(b, "MAX_POOL_2D", x, kernel, stated, float(np.finfo(np.float32).min))
    return (as_before(b, to_channels_first(b, y), count),)


@export_reals(AveragePoolView)
def export_average_pool(b: Builder, op: AveragePoolView) -> Exported:
    """Export AveragePool; excluded padding without an operator is divided by the fraction of the window inside."""
    x = op.x
    if dtype_of(x) is not DType.FLOAT32:
        return None
    stated = window_options(op)
    if not _has_word(b, x, stated) or (op.count_include_pad and (op.ceil_mode or op.auto_pad.startswith("SAME"))):
        slid = window(b.dims(x)[2:], op.kernel_shape, **stated)
        return (_mean(b, x, slid, counts_padding=bool(op.count_include_pad)),)
    x, count, stated = as_image_window(b, x, stated)
    kernel = pair_of(op.kernel_shape, count)
    if op.count_include_pad and any(stated["pads"] or ()):
        pads4 = stated["pads"]
        table = ints(b, [[0, 0], [0, 0], [pads4[0], pads4[2]], [pads4[1], pads4[3]]])
        x, stated = emit(b, "PAD", x, table), stated | {"pads": None}
    y, is_padded = _pool(b, "AVERAGE_POOL_2D", x, kernel, stated, 0)
    if is_padded and not op.count_include_pad:
        extents = [n for n in b.dims(x)[2:] if isinstance(n, int)]
        is_static = len(extents) == len(b.dims(x)) - 2
        ones = b.constant(np.ones((1, 1, *bounded(extents)), np.float32)) if is_static else _ones(b, x)
        share, _ = _pool(b, "AVERAGE_POOL_2D", ones, kernel, stated, 0)
        y = emit(b, "DIV", y, share)
    return (as_before(b, to_channels_first(b, y), count),)


FLOAT_RULES.having(space=lambda b, x: ints(b, list(range(2, len(b.dims(x)))))).export_rules("""
GlobalAveragePool -> MEAN(x, space(x), keep_dims=True)
GlobalMaxPool -> REDUCE_MAX(x, space(x), keep_dims=True)
""")


def _powered(b: Builder, x: Value, p: float) -> Value:
    size = b(arithmetic.Abs, x)
    return size if p == 1 else b(arithmetic.Mul, x, x) if p == 2 else b(arithmetic.Pow, size, b.like(x, p))


def _root(b: Builder, x: Value, p: float) -> Value:
    return x if p == 1 else b(arithmetic.Sqrt, x) if p == 2 else b(arithmetic.Pow, x, b.like(x, 1 / p))


@export_reals(LpPoolView)
def export_lp_pool(b: Builder, op: LpPoolView) -> Exported:
    if dtype_of(op.x) is not DType.FLOAT32:
        return None
    return (_root(b, _sum(b, _powered(b, op.x, op.p), window_of(op)), op.p),)


@MaxUnpoolView.export_rule("tflite")
def export_max_unpool(b: Builder, op: MaxUnpoolView) -> Exported:
    """Export MaxUnpool: place elements at the indices of a preceding MaxPool."""
    batch, channels, *extents = sizes(b.dims(op.x), "the unpooled tensor")
    count = len(extents)
    pads, steps = op.pads or (0,) * (2 * count), op.strides or (1,) * count
    windows = zip(extents, steps, op.kernel_shape, pads[:count], pads[count:], strict=True)
    shape = [batch, channels, *((n - 1) * s + k - before - after for n, s, k, before, after in windows)]
    wanted = None if op.output_shape is None else needed_array(op.output_shape, "the shape").reshape(-1).tolist()
    flat = [reshaped(b, each, (-1,)) for each in (op.i, op.x)]
    nothing = b.constant(np.zeros(bounded((prod(shape),)), dtype_of(op.x).numpy), dtype_of(op.x))
    y = reshaped(b, b(ScatterElements, nothing, *flat), shape)
    if wanted is None or wanted == shape:
        return (y,)
    kept = [min(pair) for pair in zip(shape, wanted, strict=True)]
    y = b(Slice, y, [0] * len(kept), kept)
    return (b(Pad, y, [*[0] * len(kept), *(n - k for n, k in zip(wanted, kept, strict=True))]),)


RULES.having(powered=_powered, root=_root, space=lambda b, x: b.constant(np.arange(2, len(b.dims(x))))).export_rules(
    "GlobalLpPool -> root(ReduceSum(powered(x, p), space(x)), p)"
)

"""Poolings in OpenVINO."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.dialects.adaptive_pooling import largest, pooled
from graphport.ops.dialects.emitting import emit, emits
from graphport.ops.dialects.openvino.emitting import emitted_reshape
from graphport.ops.dialects.openvino.pooling_roi import bilinear_roi_pooling
from graphport.ops.dialects.openvino.reduction_rows import reduced
from graphport.ops.dialects.operands import cast, dtype_of, index, needed, reshaped, sizes, transposed, vector
from graphport.ops.dialects.windows import window_of
from graphport.ops.pages.convolution.window import Window
from graphport.ops.pages.indexing import Gather, GatherElements
from graphport.ops.pages.matmul import MatMul
from graphport.ops.pages.pooling import GlobalAveragePool, GlobalLpPool, GlobalMaxPool, MaxRoiPool
from graphport.ops.pages.reduction import ArgMax, ReduceMax, ReduceMean
from graphport.ops.pages.reshape import Expand, Shape
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView, MaxUnpoolView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.emitting import Lifted


def _words(op: AveragePoolView | MaxPoolView) -> tuple[dict[str, Any], Window]:
    """ONNX's attributes of a window in OpenVINO's words."""
    slid = window_of(op)
    rank = len(slid.strides)
    if rank > 3:
        message = f"a window over {rank} axes; OpenVINO has them over 1 to 3"
        raise UnsupportedError(message)
    words: dict[str, Any] = {"kernel": slid.kernel, "strides": slid.strides}
    words |= {"pads_begin": (0,) * rank, "pads_end": (0,) * rank}
    if op.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return words | {"auto_pad": op.auto_pad.lower()}, slid
    begins, ends = (sizes(side, "padding") for side in zip(*slid.pads, strict=True))
    words |= {"pads_begin": begins, "pads_end": ends, "auto_pad": "explicit"}
    return (words | {"rounding_type": "ceil_torch"} if op.ceil_mode else words), slid


@MaxPoolView.lift("openvino")
def lift_max_pool(b: Builder, op: MaxPoolView) -> Lifted:
    if op.storage_order and b.count > 1:
        return None
    words, slid = _words(op)
    word = "opset14.MaxPool" if op.ceil_mode else "opset8.MaxPool"
    return emits(b, word, b.count, op.x, dilations=slid.dilations, **words)


@AveragePoolView.lift("openvino")
def lift_average_pool(b: Builder, op: AveragePoolView) -> Lifted:
    x = op.x
    words, slid = _words(op)
    words["exclude_pad"] = not op.count_include_pad
    if op.ceil_mode and op.count_include_pad and any(p for side in slid.pads for p in side if p != 0):
        x, words = _padded_before(b, x, slid, words)
    if any(gap != 1 for gap in slid.dilations):
        return b.word("opset16.AvgPool", x, dilations=slid.dilations, **words)
    return b.word("opset14.AvgPool" if op.ceil_mode else "opset1.AvgPool", x, **words)


def _padded_before(b: Builder, x: Value, slid: Window, words: dict[str, Any]) -> tuple[Value, dict[str, Any]]:
    """The operand with zeros around it if windows hang over the padding, which OpenVINO would count as padding.

    Raises:
        UnsupportedError: whether they do is not known.
    """
    dims = sizes(b.dims(x)[2:], "an extent that decides about the last window")
    pads = [sizes(side, "padding") for side in slid.pads]
    edges = _edges(dims, slid)
    if all(edge <= end for (_, edge), (_, end) in zip(edges, pads, strict=True)):
        return x, words
    # What is padded ends with the last window: none begins in what is left of the padding.
    ends = [min(edge, end) for (_, edge), (_, end) in zip(edges, pads, strict=True)]
    begins = [begin for begin, _ in pads]
    padded = emit(
        b, "opset12.Pad", x, vector(b, [0, 0, *begins]), vector(b, [0, 0, *ends]), b.like(x, 0), pad_mode="constant"
    )
    zeros = (0,) * len(dims)
    return padded, words | {"pads_begin": zeros, "pads_end": zeros, "exclude_pad": True}


@LpPoolView.lift("openvino")
def lift_lp_pool(b: Builder, op: LpPoolView) -> Lifted:
    """The mean of the powers under windows that hang over nothing, times their size."""
    slid = window_of(op)
    edges = _edges(b.dims(op.x)[2:], slid)
    rank = len(slid.strides)
    powers = emit(b, "opset1.Power", emit(b, "opset1.Abs", op.x), float(op.p))
    if any(begin or end for begin, end in edges):
        begins, ends = ([0, 0, *side] for side in zip(*edges, strict=True))
        powers = emit(
            b, "opset12.Pad", powers, vector(b, begins), vector(b, ends), b.like(op.x, 0), pad_mode="constant"
        )
    zeros = (0,) * rank
    words: dict[str, Any] = {"kernel": slid.kernel, "strides": slid.strides, "pads_begin": zeros, "pads_end": zeros}
    words |= {"exclude_pad": False}
    if any(gap != 1 for gap in slid.dilations):
        mean = emit(b, "opset16.AvgPool", powers, dilations=slid.dilations, **words)
    else:
        mean = emit(b, "opset1.AvgPool", powers, **words)
    total = emit(b, "opset1.Multiply", mean, float(prod(op.kernel_shape)))
    return b.word("opset1.Power", total, b.like(op.x, 1 / op.p))


def _edges(dims: Sequence[Dim], slid: Window) -> list[tuple[int, int]]:
    """How much has to be added at both ends for the windows to stand on something, or to be cut off."""
    axes = zip(
        sizes(dims, "an extent"),
        sizes(slid.kernel),
        slid.strides,
        slid.dilations,
        slid.pads,
        sizes(slid.lengths),
        strict=True,
    )
    found: list[tuple[int, int]] = []
    for n, k, s, d, pads, out in axes:
        begin, _ = sizes(pads, "padding")
        found.append((begin, max((out - 1) * s + (k - 1) * d + 1 - n - begin, 0)))
    return found


def _spatial(b: Builder, x: Value) -> Value:
    return vector(b, range(2, len(b.dims(x))))


@GlobalAveragePool.lift("openvino")
def lift_global_average_pool(b: Builder, x: Value) -> Lifted:
    return (reduced(b, "opset1.ReduceMean", x, _spatial(b, x), 1),)


@GlobalMaxPool.lift("openvino")
def lift_global_max_pool(b: Builder, x: Value) -> Lifted:
    return (reduced(b, "opset1.ReduceMax", x, _spatial(b, x), 1),)


@GlobalLpPool.lift("openvino")
def lift_global_lp_pool(b: Builder, x: Value, *, p: int = 2) -> Lifted:
    if p in (1, 2):
        return (reduced(b, f"opset4.ReduceL{p}", x, _spatial(b, x), 1),)
    powers = emit(b, "opset1.Power", emit(b, "opset1.Abs", x), float(p))
    total = reduced(b, "opset1.ReduceSum", powers, _spatial(b, x), 1)
    return b.word("opset1.Power", total, b.like(x, 1 / p))


# Adaptive poolings


@lower("openvino", "opset8.AdaptiveAvgPool")
def adaptive_avg_pool(b: Builder, x: Value, output_shape: Value) -> Value:
    """Means of regions that part each axis as evenly as can be, so many as are asked for."""
    wanted = needed(output_shape, "the shape of an adaptive pooling")
    rank = len(b.dims(x))
    if all(out == 1 for out in wanted):
        return b(ReduceMean, x, vector(b, range(rank - len(wanted), rank)))
    dims = b.dims(x)[-len(wanted) :]
    for number, (n, out) in enumerate(zip(dims, wanted, strict=True)):
        if decide_equal(n, out):
            continue
        axis = rank - len(wanted) + number
        x = _averaged(b, x, axis, n, out) if isinstance(n, int) else pooled(b, x, axis, out, ReduceMean)
    return x


def _regions(length: int, out: int) -> list[tuple[int, int]]:
    return [(i * length // out, -(-(i + 1) * length // out)) for i in range(out)]


def _averaged(b: Builder, x: Value, axis: int, length: int, out: int) -> Value:
    """One axis by the product with a matrix that holds each region's shares."""
    rank, dtype = len(b.dims(x)), dtype_of(x)
    order = [*(other for other in range(rank) if other != axis), axis]
    reserve(length, out)
    numbers = np.zeros((length, out))
    for i, (begin, end) in enumerate(_regions(length, out)):
        numbers[begin:end, i] = 1 / (end - begin)
    means = b(MatMul, transposed(b, x, order), b.constant(numbers.astype(dtype.numpy), dtype))
    return transposed(b, means, [int(place) for place in np.argsort(order)])


@lower("openvino", "opset8.AdaptiveMaxPool")
def adaptive_max_pool(
    b: Builder, x: Value, output_shape: Value, *, index_element_type: DType = DType.INT64
) -> tuple[Value, ...]:
    """The largest entry of each region, and its place in its map: every region's places, gathered."""
    wanted = needed(output_shape, "the shape of an adaptive pooling")
    lead = b.dims(x)[: -len(wanted)]
    extents = b.dims(x)[-len(wanted) :]
    dims = [n for n in extents if isinstance(n, int)]
    if len(dims) < len(extents):
        y, places = largest(b, x, dict(enumerate(wanted, len(lead))))
        return y, cast(b, places, index_element_type)
    reserve(max(wanted, default=0), what="regions")
    regions = [_regions(n, out) for n, out in zip(dims, wanted, strict=True)]
    most = prod(max(end - begin for begin, end in axis) for axis in regions)
    # Every region is found among the places of all.
    reserve(*wanted, prod(dims))
    table = np.zeros((prod(wanted), most), np.int64)
    for row, place in enumerate(product(*regions)):
        every = np.arange(prod(dims)).reshape(dims)[tuple(slice(*ends) for ends in place)].reshape(-1)
        # A smaller region reads its first entry more than once.
        table[row] = np.concatenate([every, np.repeat(every[:1], most - every.size)])
    flat = reshaped(b, x, [*(0 if not isinstance(n, int) else n for n in lead), prod(dims)])
    read = b(Gather, flat, b.constant(table), axis=-1)
    shape = [*(0 if not isinstance(n, int) else n for n in lead), *wanted]
    y = reshaped(b, b(ReduceMax, read, vector(b, [-1]), keepdims=0), shape)
    if b.count == 1:
        return (y,)
    first = b(ArgMax, read, axis=-1, keepdims=1)
    every = b.constant(table.reshape(*[1] * len(lead), *table.shape))
    places = b(GatherElements, _spread(b, every, read), first, axis=-1)
    return y, cast(b, reshaped(b, places, shape), index_element_type)


def _spread(b: Builder, table: Value, like: Value) -> Value:
    return b(Expand, table, b(Shape, like))


# Regions of interest


@lower("openvino", "opset2.ROIPooling")
def roi_pooling(
    b: Builder,
    x: Value,
    rois: Value,
    *,
    output_size: tuple[int, ...] = (),
    output_roi: tuple[int, ...] = (),
    pooled_h: int = 0,
    pooled_w: int = 0,
    spatial_scale: float,
    method: str = "max",
) -> Value:
    """The largest entry of each cell of a region, or what is between entries at corners of a grid."""
    del output_roi
    shape = (pooled_h, pooled_w) if pooled_h and pooled_w else output_size
    if method == "bilinear":
        return bilinear_roi_pooling(b, x, rois, shape)
    if method != "max":
        message = f"pooling of regions by {method}"
        raise UnsupportedError(message)
    return b(MaxRoiPool, x, rois, pooled_shape=shape, spatial_scale=spatial_scale)


@MaxRoiPool.lift("openvino")
def lift_max_roi_pool(
    b: Builder, x: Value, rois: Value, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0
) -> Lifted:
    height, width = pooled_shape
    stated: dict[str, Any] = {"output_roi": tuple(pooled_shape), "output_size": tuple(pooled_shape)}
    stated |= {"pooled_h": height, "pooled_w": width, "spatial_scale": spatial_scale}
    return b.word("opset2.ROIPooling", x, rois, method="max", **stated)


@MaxUnpoolView.lift("openvino")
def lift_max_unpool(b: Builder, op: MaxUnpoolView) -> Lifted:
    """Entries put at their places in zeros. Places count through the tensor that the windows were over."""
    rank = len(op.kernel_shape)
    steps, cut = op.strides or (1,) * rank, op.pads or (0,) * 2 * rank
    lead, spatial = sizes(b.dims(op.x)[:2], "the maps"), sizes(b.dims(op.x)[2:], "the shape of what is pooled back")
    axes = zip(spatial, op.kernel_shape, steps, cut[:rank], cut[rank:], strict=True)
    dims = [*lead, *((n - 1) * s + k - p - q for n, k, s, p, q in axes)]
    zeros = b.constant(np.zeros(reserve(*dims), dtype_of(op.x).numpy), dtype_of(op.x))
    flat, places = emitted_reshape(b, op.x, (-1,)), emitted_reshape(b, op.i, (-1,))
    at = index(b, 0)
    written = emitted_reshape(b, emit(b, "opset3.ScatterElementsUpdate", zeros, places, flat, at), dims)
    if op.output_shape is None:
        return (written,)
    wanted = needed(op.output_shape, "the shape of what is pooled back")
    more = vector(b, [out - n for out, n in zip(wanted, dims, strict=True)])
    none = vector(b, [0] * len(dims))
    return b.word("opset12.Pad", written, none, more, b.like(op.x, 0), pad_mode="constant")

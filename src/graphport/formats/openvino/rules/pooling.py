"""Poolings in OpenVINO."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.convolution_windows import window_words
from graphport.formats.openvino.rules.emitting import emitted_pad, emitted_reshape
from graphport.formats.openvino.rules.reduction_plugin import reduced
from graphport.ops.declare import ShapeError, lower
from graphport.ops.decompositions.adaptive_pooling import largest, pooled, static_regions
from graphport.ops.definitions.convolution.window import Window
from graphport.ops.definitions.indexing import Gather, GatherElements
from graphport.ops.definitions.pooling import MaxRoiPool
from graphport.ops.definitions.reduction import ArgMax, ReduceMax, ReduceMean
from graphport.ops.definitions.reshape import Expand, Shape
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.extents import mixed
from graphport.ops.lowering.operands import cast, dtype_of, index, needed, reshaped, sizes, vector
from graphport.ops.lowering.windows import padding_of, window_of
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView, MaxUnpoolView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


def _window_attributes(op: AveragePoolView | MaxPoolView) -> tuple[dict[str, Any], Window]:
    """Return the window attributes of OpenVINO for an ONNX pooling operator."""
    slid = window_of(op)
    words = {"kernel": slid.kernel, **window_words(slid, op.auto_pad)}
    if op.ceil_mode and words["auto_pad"] == "explicit":
        words["rounding_type"] = "ceil_torch"
    return words, slid


@MaxPoolView.export_rule("openvino")
def export_max_pool(b: Builder, op: MaxPoolView) -> Exported:
    if op.storage_order and b.count > 1:
        return None
    words, _ = _window_attributes(op)
    return emits(b, "opset14.MaxPool" if op.ceil_mode else "opset8.MaxPool", b.count, op.x, **words)


@AveragePoolView.export_rule("openvino")
def export_average_pool(b: Builder, op: AveragePoolView) -> Exported:
    x = op.x
    words, slid = _window_attributes(op)
    words["exclude_pad"] = not op.count_include_pad
    if op.ceil_mode and op.count_include_pad and any(p for side in slid.pads for p in side if p != 0):
        x, words = _padded_before(b, x, slid, words)
    return (_averaged(b, x, words, "opset14.AvgPool" if op.ceil_mode else "opset1.AvgPool"),)


def _averaged(b: Builder, x: Value, words: dict[str, Any], op_type: str = "opset1.AvgPool") -> Value:
    """Average pooling; only the newest op version has dilations."""
    dilations = words.pop("dilations")
    if any(gap != 1 for gap in dilations):
        return emit(b, "opset16.AvgPool", x, dilations=dilations, **words)
    return emit(b, op_type, x, **words)


def _padded_before(b: Builder, x: Value, slid: Window, words: dict[str, Any]) -> tuple[Value, dict[str, Any]]:
    """Pad with zeros before pooling if windows exceed the padding, because OpenVINO counts that excess as padding.

    Raises:
        UnsupportedError: whether they do is not known.
    """
    dims = sizes(b.dims(x)[2:], "a dim that determines the last window")
    pads = [sizes(side, "padding") for side in slid.pads]
    edges = _edges(dims, slid)
    if all(edge <= end for (_, edge), (_, end) in zip(edges, pads, strict=True)):
        return x, words
    # Padding is cropped at the end of the last window, so no window begins in the excess.
    ends = [min(edge, end) for (_, edge), (_, end) in zip(edges, pads, strict=True)]
    begins = [begin for begin, _ in pads]
    padded = emitted_pad(b, x, [0, 0, *begins], [0, 0, *ends])
    zeros = (0,) * len(dims)
    return padded, words | {"pads_begin": zeros, "pads_end": zeros, "exclude_pad": True}


@LpPoolView.export_rule("openvino")
def export_lp_pool(b: Builder, op: LpPoolView) -> Exported:
    """Export LpPool: (kernel size * average of |x|^p) ^ (1 / p), padded so that all windows are complete."""
    slid = window_of(op)
    edges = _edges(b.dims(op.x)[2:], slid)
    powers = emit(b, "opset1.Power", emit(b, "opset1.Abs", op.x), float(op.p))
    if any(begin or end for begin, end in edges):
        powers = emitted_pad(b, powers, *([0, 0, *side] for side in zip(*edges, strict=True)))
    zeros = (0,) * len(slid.strides)
    words: dict[str, Any] = {"kernel": slid.kernel, "strides": slid.strides, "dilations": slid.dilations}
    words |= {"pads_begin": zeros, "pads_end": zeros, "exclude_pad": False}
    total = emit(b, "opset1.Multiply", _averaged(b, powers, words), float(prod(op.kernel_shape)))
    return b.emit("opset1.Power", total, b.like(op.x, 1 / op.p))


def _edges(dims: Sequence[Dim], slid: Window) -> list[tuple[int, int]]:
    """Return the padding (begin, end) per axis up to the end of the last window."""
    begins, _ = padding_of(slid)
    extents, kernel, lengths = sizes(dims, "an extent"), sizes(slid.kernel), sizes(slid.lengths)
    axes = zip(extents, kernel, slid.strides, slid.dilations, begins, lengths, strict=True)
    return [(begin, max((out - 1) * s + (k - 1) * d + 1 - n - begin, 0)) for n, k, s, d, begin, out in axes]


RULES.having(reduced=reduced, spatial=lambda b, x: vector(b, range(2, len(b.dims(x))))).export_rules("""
GlobalAveragePool -> reduced("opset1.ReduceMean", x, spatial(x), 1)
GlobalMaxPool -> reduced("opset1.ReduceMax", x, spatial(x), 1)
GlobalLpPool
    -> p == 1: reduced("opset4.ReduceL1", x, spatial(x), 1)
    -> p == 2: reduced("opset4.ReduceL2", x, spatial(x), 1)
    -> powers = opset1.Power(opset1.Abs(x), p);
       opset1.Power(reduced("opset1.ReduceSum", powers, spatial(x), 1), 1 / p)
""")


# Adaptive poolings


@lower("openvino", "opset8.AdaptiveAvgPool")
def adaptive_avg_pool(b: Builder, x: Value, output_shape: Value) -> Value:
    """Adaptive average pooling: means over nearly equal regions, `output_shape` of them."""
    wanted = _adaptive_sizes(b, x, output_shape)
    rank = len(b.dims(x))
    if all(out == 1 for out in wanted):
        return b(ReduceMean, x, range(rank - len(wanted), rank))
    dims = b.dims(x)[-len(wanted) :]
    for number, (n, out) in enumerate(zip(dims, wanted, strict=True)):
        if decide_equal(n, out):
            continue
        axis = rank - len(wanted) + number
        x = _evened(b, x, axis, n, out) if isinstance(n, int) else pooled(b, x, axis, out, ReduceMean)
    return x


def _adaptive_sizes(b: Builder, x: Value, output_shape: Value) -> tuple[int, ...]:
    """Return the sizes of the last axes after an adaptive pooling.

    Raises:
        ShapeError: there are none, or as many as `x` has axes.
    """
    wanted = needed(output_shape, "the shape of an adaptive pooling")
    if not 0 < len(wanted) < len(b.dims(x)):
        message = f"the output shape has {len(wanted)} dims, expected 1 to {len(b.dims(x)) - 1}"
        raise ShapeError(message)
    return wanted


def _evened(b: Builder, x: Value, axis: int, length: int, out: int) -> Value:
    """Pool one axis by multiplying with a matrix of region weights."""
    dtype = dtype_of(x)
    reserve(length, out)
    shares = np.zeros((length, out))
    for i, (begin, end) in enumerate(static_regions(length, out)):
        shares[begin:end, i] = 1 / (end - begin)
    return mixed(b, x, axis, b.constant(shares.astype(dtype.numpy), dtype))


@lower("openvino", "opset8.AdaptiveMaxPool")
def adaptive_max_pool(
    b: Builder, x: Value, output_shape: Value, *, index_element_type: DType = DType.INT64
) -> tuple[Value, ...]:
    """Adaptive max pooling: the maximum of each region and its index in the map, by gathering each region."""
    wanted = _adaptive_sizes(b, x, output_shape)
    lead = b.dims(x)[: -len(wanted)]
    extents = b.dims(x)[-len(wanted) :]
    dims = [n for n in extents if isinstance(n, int)]
    if len(dims) < len(extents):
        y, indices = largest(b, x, dict(enumerate(wanted, len(lead))))
        return y, cast(b, indices, index_element_type)
    reserve(max(wanted, default=0), what="regions")
    regions = [static_regions(n, out) for n, out in zip(dims, wanted, strict=True)]
    most = prod(max(end - begin for begin, end in axis) for axis in regions)
    # Each region is a list of indices.
    reserve(*wanted, prod(dims))
    table = np.zeros((prod(wanted), most), np.int64)
    for row, place in enumerate(product(*regions)):
        every = np.arange(prod(dims)).reshape(dims)[tuple(slice(*ends) for ends in place)].reshape(-1)
        # A smaller region reads its first entry more than once.
        table[row] = np.concatenate([every, np.repeat(every[:1], most - every.size)])
    front = [n if isinstance(n, int) else 0 for n in lead]
    read = b(Gather, reshaped(b, x, [*front, prod(dims)]), b.constant(table), axis=-1)
    shape = [*front, *wanted]
    y = reshaped(b, b(ReduceMax, read, [-1], keepdims=0), shape)
    if b.count == 1:
        return (y,)
    first = b(ArgMax, read, axis=-1, keepdims=1)
    every = b.constant(table.reshape(*[1] * len(lead), *table.shape))
    indices = b(GatherElements, b(Expand, every, b(Shape, read)), first, axis=-1)
    return y, cast(b, reshaped(b, indices, shape), index_element_type)


# Regions of interest


@MaxRoiPool.export_rule("openvino")
def export_max_roi_pool(
    b: Builder, x: Value, rois: Value, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0
) -> Exported:
    shape = tuple(pooled_shape)
    stated: dict[str, Any] = {"output_roi": shape, "output_size": shape, "pooled_h": shape[0], "pooled_w": shape[1]}
    return b.emit("opset2.ROIPooling", x, rois, method="max", spatial_scale=spatial_scale, **stated)


@MaxUnpoolView.export_rule("openvino")
def export_max_unpool(b: Builder, op: MaxUnpoolView) -> Exported:
    """Export MaxUnpool: scatter entries into zeros; indices refer to the flattened output tensor."""
    rank = len(op.kernel_shape)
    steps, cut = op.strides or (1,) * rank, op.pads or (0,) * 2 * rank
    lead, spatial = (
        sizes(b.dims(op.x)[:2], "the feature maps"),
        sizes(b.dims(op.x)[2:], "the shape of the unpooled tensor"),
    )
    axes = zip(spatial, op.kernel_shape, steps, cut[:rank], cut[rank:], strict=True)
    dims = [*lead, *((n - 1) * s + k - p - q for n, k, s, p, q in axes)]
    zeros = b.constant(np.zeros(reserve(*dims), dtype_of(op.x).numpy), dtype_of(op.x))
    flat, indices = emitted_reshape(b, op.x, (-1,)), emitted_reshape(b, op.i, (-1,))
    written = emit(b, "opset3.ScatterElementsUpdate", zeros, indices, flat, index(b, 0))
    written = emitted_reshape(b, written, dims)
    if op.output_shape is None:
        return (written,)
    wanted = needed(op.output_shape, "the shape of the unpooled tensor")
    return (emitted_pad(b, written, [0] * len(dims), [out - n for out, n in zip(wanted, dims, strict=True)]),)

"""Max pooling with indices, and unpooling: ONNX's indices into the tensor to NNEF's positions in the window."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.convolution_borders import emitted_padding, fact_of, static_dims
from graphport.formats.nnef.rules.formula import term
from graphport.formats.nnef.rules.padding_borders import MOST_ELEMENTS
from graphport.formats.nnef.rules.pooling.pools import emitted_pool, has_padding
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.convolution.window import integer_pads
from graphport.ops.lowering.windows import window_options
from graphport.ops.views.pooling import MaxPoolView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.definitions.convolution.window import Window

_EXACT = 1 << 24
"""Single floats, in which NNEF computes, hold all integers up to here."""

Starts = list[np.ndarray[Any, np.dtype[np.int64]]]


@MaxPoolView.export_rule("nnef")
def export_max_pool(b: Builder, op: MaxPoolView) -> tuple[Value, ...] | None:
    """Export MaxPool with an ignored border; tensor indices are computed from window positions."""
    if fact_of(op.x).shape is None:
        return None
    stated = emitted_padding(b.dims(op.x)[2:], op.kernel_shape, **window_options(op))
    if stated is None:
        return None
    padding, slid = stated
    border = "ignore" if has_padding(padding) else "constant"
    if b.count == 1:
        return emitted_pool(b, "max_pool", op.x, op.kernel_shape, padding, border, op.strides, op.dilations)
    dims = static_dims(b.dims(op.x))
    shape = (*dims[:2], *static_dims(slid.lengths))
    facts = TensorFact(fact_of(op.x).dtype, shape), TensorFact(DType.INT64, shape)
    op_type = "max_pool_with_index"
    y, index = emitted_pool(b, op_type, op.x, op.kernel_shape, padding, border, op.strides, op.dilations, facts=facts)
    space = dims[2:]
    volumes = [prod(space[:axis] if op.storage_order else space[axis + 1 :]) for axis in range(len(space))]
    return y, _in_tensor(b, index, _factors(slid, volumes), _start_indices(slid, volumes, dims))


def _factors(slid: Window, volumes: list[int]) -> list[tuple[int, int, int]]:
    """Return divisor, factor and maximum for each axis of a window position.

    The coordinate along an axis is floor(position / divisor) minus a multiple of the preceding axis' floor, so both
    terms are merged into one factor per floor.
    """
    kernel = static_dims(slid.kernel)
    weights = [dilation * volume for dilation, volume in zip(slid.dilations, volumes, strict=True)]
    following = [size * weight for size, weight in zip(kernel[1:], weights[1:], strict=True)]
    factors = [weight - less for weight, less in zip(weights, [*following, 0], strict=True)]
    return [
        (prod(kernel[axis + 1 :]), factor, prod(kernel[: axis + 1]) - 1)
        for axis, factor in enumerate(factors)
        if factor
    ]


def _start_indices(slid: Window, volumes: list[int], dims: tuple[int, ...]) -> Starts:
    """Return the start indices of feature maps and windows, to be added; each varies along its own axes.

    Raises:
        UnsupportedError: there are too many for a constant.
    """
    lengths = static_dims(slid.lengths)
    if max(prod(dims[:2]), *lengths) > MOST_ELEMENTS:
        message = f"indices of {prod(dims[:2])} feature maps of {list(lengths)} windows"
        raise UnsupportedError(message)
    rank = len(dims)
    maps = np.arange(prod(dims[:2]), dtype=np.int64) * prod(dims[2:])
    starts: Starts = [maps.reshape(*dims[:2], *[1] * (rank - 2))]
    for axis, (begin, _) in enumerate(integer_pads(slid.pads)):
        first = (np.arange(lengths[axis], dtype=np.int64) * slid.strides[axis] - begin) * volumes[axis]
        starts.append(first.reshape([-1 if i == axis + 2 else 1 for i in range(rank)]))
    return [each for each in starts if np.any(each)]


def _in_tensor(b: Builder, index: Value, factors: list[tuple[int, int, int]], starts: Starts) -> Value:
    """Convert positions in windows to indices into the flattened tensor.

    Raises:
        UnsupportedError: an index exceeds the integers that float32 represents.
    """
    if not starts and [(divisor, factor) for divisor, factor, _ in factors] == [(1, 1)]:
        return index
    reach = sum(abs(factor) * most for _, factor, most in factors) + sum(int(np.abs(each).max()) for each in starts)
    if reach > _EXACT:
        message = f"indices of up to {reach}, which float32 does not represent exactly"
        raise UnsupportedError(message)
    fact = fact_of(index)
    real = term(b, "cast", index, fact=TensorFact(DType.FLOAT32, fact.shape), dtype=DType.FLOAT32)
    total: Value | None = None
    for divisor, factor, _ in factors:
        whole = real if divisor == 1 else term(b, "floor", term(b, "div", real, float(divisor)))
        part = whole if factor == 1 else term(b, "mul", whole, float(factor))
        total = part if total is None else term(b, "add", total, part)
    total = real if total is None else total
    for start in starts:
        total = term(b, "add", total, b.constant(start.astype(np.float32)))
    return term(b, "cast", total, fact=fact, dtype=DType.INT64)

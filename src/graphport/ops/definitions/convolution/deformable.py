"""Convolutions whose window is bent by an operand."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import product as volume
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.convolution.channels import check_channels, correlation_macs
from graphport.ops.definitions.convolution.window import Window, integer_dims, integer_pads, window
from graphport.ops.shapes import same_dim
from graphport.ops.types import FLOATS, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.convolution import DeformConvView

T = Annotated[Tensor, Types("T", FLOATS)]


@viewed
def _deform_shape(op: DeformConvView[TensorFact]) -> TensorFact:
    batch, spatial, maps, kernel = check_channels(op.x, op.w, op.b, op.group, op.kernel_shape)
    channels = op.x.dims[1]
    if op.offset_group < 1 or (isinstance(channels, int) and channels % op.offset_group):
        message = f"{channels} channels do not split into {op.offset_group} offset groups"
        raise ShapeError(message)
    slid = window(spatial, kernel, dilations=op.dilations, pads=op.pads, strides=op.strides)
    for name, fact, numbers_each in (("offset", op.offset, len(spatial)), ("mask", op.mask, 1)):
        if fact is None or fact.shape is None:
            continue
        expected = (batch, op.offset_group * numbers_each * volume(kernel), *slid.lengths)
        if len(fact.shape) != len(expected):
            message = f"{name} has rank {len(fact.shape)}, x has rank {op.x.rank}"
            raise ShapeError(message, "the ranks must be equal")
        for axis, (found, wanted) in enumerate(zip(fact.shape, expected, strict=True)):
            same_dim(wanted, found, f"axis {axis} of {name}")
    return op.x.with_shape([batch, maps, *slid.lengths])


@op(
    shape=_deform_shape,
    since=19,
    outputs=("y",),
    exactness="accumulation",
    role="weighted",
    index_operands=("offset",),
    macs=correlation_macs,
    ranks={"x": (3, None), "w": (3, None), "offset": (3, None), "b": 1, "mask": (3, None)},
)
def DeformConv(
    x: T,
    w: T,
    offset: T,
    b: T | None = None,
    mask: T | None = None,
    *,
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    offset_group: int = 1,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T:
    """Convolution whose window reads each entry at its place plus an `offset`, interpolated linearly, times `mask`.

    Outside of `x` is 0. Offsets are in entries of `x`, one number per spatial axis, kernel position and offset group.

    Shapes: x [N, C, *d], w [M, C/group, *k], offset [N, offset_group * prod(k) * rank, *out],
    mask [N, offset_group * prod(k), *out], b [M] → [N, M, *out] with `out` as for `Conv`.

    Raises:
        ShapeError: channels, groups or the shapes of offset and mask do not fit.

    Source: ONNX DeformConv-22.
    """
    slid = window(x.shape[2:], w.shape[2:], dilations=dilations, pads=pads, strides=strides)
    wide = np.result_type(x.dtype, np.float32)
    n, c = x.shape[:2]
    m = w.shape[0]
    out, taps = integer_dims(slid.lengths), prod(w.shape[2:])
    at = _coordinates(slid, offset.astype(wide), offset_group)
    read = _interpolated(x.astype(wide).reshape(n, offset_group, c // offset_group, *x.shape[2:]), at)
    if mask is not None:
        read = read * mask.astype(wide).reshape(n, offset_group, 1, taps, *out)
    columns = read.reshape(n, group, c // group * taps, prod(out))
    y = np.matmul(w.astype(wide).reshape(group, m // group, -1), columns).reshape(n, m, *out)
    if b is not None:
        y = y + b.astype(wide).reshape(-1, *[1] * len(out))
    return y.astype(x.dtype)


def _coordinates(slid: Window, offset: Tensor, groups: int) -> Tensor:
    """Return the input coordinates that each kernel position samples: [rank, N, groups, taps, *out]."""
    kernel, out = integer_dims(slid.kernel), integer_dims(slid.lengths)
    rank = len(out)
    bent = np.moveaxis(offset.reshape(offset.shape[0], groups, prod(kernel), rank, *out), 3, 0)
    inside = np.indices(kernel).reshape(rank, -1)
    grid = np.indices(out)
    straight = [
        (grid[i] * slid.strides[i] - begin)[None] + (inside[i] * slid.dilations[i]).reshape(-1, *[1] * rank)
        for i, (begin, _) in enumerate(integer_pads(slid.pads))
    ]
    return bent + np.stack(straight)[:, None, None]


def _interpolated(x: Tensor, at: Tensor) -> Tensor:
    """Interpolate x [N, groups, C, *d] linearly at `at` [rank, N, groups, *s] → [N, groups, C, *s]; 0 outside."""
    n, groups, c, *dims = x.shape
    rank = len(dims)
    flat = x.reshape(n, groups, c, -1)
    low = np.floor(at)
    result = np.zeros((n, groups, c, prod(at.shape[3:])), x.dtype)
    for corner in product((0, 1), repeat=rank):
        index = np.zeros(at.shape[1:], np.int64)
        weight = np.ones(at.shape[1:], x.dtype)
        for i, step in enumerate(corner):
            place = low[i] + step
            weight = weight * (at[i] - low[i] if step else low[i] + 1 - at[i])
            weight = np.where((place >= 0) & (place < dims[i]), weight, 0)
            index = index * dims[i] + np.clip(place, 0, max(dims[i] - 1, 0)).astype(np.int64)
        index, weight = index.reshape(n, groups, 1, -1), weight.reshape(n, groups, 1, -1)
        result += np.take_along_axis(flat, index, axis=3) * weight
    return result.reshape(n, groups, c, *at.shape[3:])

"""Channels, groups and feature maps of convolutions: what must fit, and the sums of products themselves."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphport.core.dims import Dim, decide_equal, product
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.convolution.window import Window, integer_dims, window_view
from graphport.ops.shapes import check_rank, same_dim
from graphport.ops.types import Tensor


def check_channels(
    x: TensorFact, w: TensorFact, b: TensorFact | None, group: int, kernel_shape: Sequence[int] | None
) -> tuple[Dim, tuple[Dim, ...], Dim, tuple[Dim, ...]]:
    """Check a convolution of `x` [N, C, *d] with `w` [M, C/group, *k]. Return N, d, M and k.

    Raises:
        ShapeError: ranks, channels, groups, bias or `kernel_shape` contradict each other.
    """
    rank = check_rank(x, 3, "x")
    if w.rank != rank:
        message = f"x has rank {rank}, w has rank {w.rank}"
        raise ShapeError(message, "the ranks must be equal")
    (batch, channels, *spatial), (maps, depth, *kernel) = x.dims, w.dims
    check_kernel(kernel_shape, kernel)
    if group < 1:
        message = f"group is {group}"
        raise ShapeError(message, "at least 1")
    if decide_equal(depth * group, channels) is False:
        message = f"x has {channels} channels, expected {group} groups of {depth}"
        raise ShapeError(message, "w has the shape [feature maps, channels / group, *kernel]")
    if isinstance(maps, int) and maps % group:
        message = f"{maps} feature maps do not split into {group} groups"
        raise ShapeError(message)
    check_bias(b, maps)
    return batch, tuple(spatial), maps, tuple(kernel)


def check_kernel(kernel_shape: Sequence[int] | None, kernel: Sequence[Dim]) -> None:
    """Check that `kernel_shape` equals the spatial dims of the weights.

    Raises:
        ShapeError: they differ.
    """
    if kernel_shape is None:
        return
    differs = len(kernel_shape) != len(kernel)
    if differs or any(decide_equal(a, k) is False for a, k in zip(kernel_shape, kernel, strict=True)):
        message = f"kernel_shape is {tuple(kernel_shape)}, the weights are {tuple(kernel)}"
        raise ShapeError(message, "omit kernel_shape; the weight shape determines it")


def check_bias(b: TensorFact | None, maps: Dim) -> None:
    """Check that a bias has one element per feature map.

    Raises:
        ShapeError: the shape is not [maps].
    """
    if b is None or b.shape is None:
        return
    if b.rank != 1:
        message = f"the bias has rank {b.rank}"
        raise ShapeError(message, "expected rank 1: one element per feature map")
    same_dim(b.dims[0], maps, "bias and feature maps")


def correlation_macs(y: TensorFact, x: TensorFact, w: TensorFact, *_operands: object, **_attributes: object) -> Dim:
    """Return the multiply-accumulates: elements of `y` times C/group times kernel elements."""
    del x
    return product([*y.dims, *w.dims[1:]])


_ROOM = 1 << 25
"""Limit of the bytes of copied windows, except for one sample that needs more."""


def correlate(x: Tensor, w: Tensor, slid: Window, group: int) -> Tensor:
    """Cross-correlation of `x`, padded with zeros, with `w`; computed in the operand type.

    Shapes: x [N, C, *d], w [M, C/group, *k] → [N, M, *out].
    """
    windows = window_view(x, slid, 0)
    n, c = x.shape[:2]
    m, depth = w.shape[:2]
    out, kernel = integer_dims(slid.lengths), w.shape[2:]
    # One matrix product per group: [M/group, C/group * k] times [C/group * k, positions]. With positions last, operand
    # and result keep their memory order, and a 1x1 window needs no copy.
    windows = windows.reshape(n, group, c // group, *out, *kernel)
    columns = np.moveaxis(windows, range(3, 3 + len(out)), range(-len(out), 0))
    maps = w.reshape(group, m // group, depth * prod(kernel))
    # Windows overlap: a copy of all windows takes kernel-size times the memory of `x`.
    once = max(_ROOM // max(c * prod(kernel) * prod(out) * x.itemsize, 1), 1)
    found = [
        np.matmul(maps, some.reshape(len(some), group, depth * prod(kernel), prod(out)))
        for some in (columns[first : first + once] for first in range(0, max(n, 1), once))
    ]
    return (found[0] if len(found) == 1 else np.concatenate(found)).reshape(n, m, *out)

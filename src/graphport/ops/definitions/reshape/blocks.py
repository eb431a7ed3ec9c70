"""Rearrangement between channels and spatial blocks."""

from __future__ import annotations

from typing import Annotated

from graphport.core.dims import Dim
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_4, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]


def _blocks(input: TensorFact, blocksize: int) -> tuple[Dim, Dim, Dim, Dim]:
    if input.rank != 4:
        message = f"input has rank {input.rank}, 4 is needed"
        raise ShapeError(message)
    if blocksize < 1:
        message = f"blocksize is {blocksize}"
        raise ShapeError(message, "it is positive")
    n, c, h, w = input.dims
    return n, c, h, w


def _depth_to_space_shape(input: TensorFact, *, blocksize: int, mode: str = "DCR") -> TensorFact:
    if mode not in ("DCR", "CRD"):
        message = f"unknown mode {mode!r}"
        raise ShapeError(message, "DCR or CRD")
    n, c, h, w = _blocks(input, blocksize)
    if isinstance(c, int) and c % blocksize**2:
        message = f"{c} channels are not a multiple of {blocksize} * {blocksize}"
        raise ShapeError(message)
    return input.with_shape([n, c // blocksize**2, h * blocksize, w * blocksize])


@op(
    picks=True,
    shape=_depth_to_space_shape,
    since=11,
    outputs=("output",),
    exactness="exact",
    role="passive",
    ranks={"input": 4},
)
def DepthToSpace(input: T, *, blocksize: int, mode: str = "DCR") -> T:
    """Move channels into spatial blocks; the block index is the first (`DCR`) or last (`CRD`) part of the channel.

    Shapes: input [N, C, H, W] → [N, C/blocksize², H*blocksize, W*blocksize].

    Raises:
        ShapeError: the channels are not a multiple of blocksize².

    Source: ONNX DepthToSpace-13.
    """
    n, c, h, w = input.shape
    k = blocksize
    if mode == "DCR":
        split = input.reshape(n, k, k, c // k**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = input.reshape(n, c // k**2, k, k, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(n, c // k**2, h * k, w * k)


def _space_to_depth_shape(input: TensorFact, *, blocksize: int) -> TensorFact:
    n, c, h, w = _blocks(input, blocksize)
    if any(isinstance(dim, int) and dim % blocksize for dim in (h, w)):
        message = f"the image size {h} x {w} is not a multiple of the block size {blocksize}"
        raise ShapeError(message)
    return input.with_shape([n, c * blocksize**2, h // blocksize, w // blocksize])


@op(
    picks=True,
    shape=_space_to_depth_shape,
    since=1,
    outputs=("output",),
    exactness="exact",
    role="passive",
    ranks={"input": 4},
)
def SpaceToDepth(input: T, *, blocksize: int) -> T:
    """Move spatial blocks into channels.

    Shapes: input [N, C, H, W] → [N, C*blocksize², H/blocksize, W/blocksize].

    Raises:
        ShapeError: the image does not part into blocks.

    Source: ONNX SpaceToDepth-13.
    """
    n, c, h, w = input.shape
    k = blocksize
    split = input.reshape(n, c, h // k, k, w // k, k).transpose(0, 3, 5, 1, 2, 4)
    return split.reshape(n, c * k**2, h // k, w // k)

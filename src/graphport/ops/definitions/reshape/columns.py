"""Blocks of an image, one a column, put back where they came from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim, Symbolic, decide_equal, product
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.types import ALL_4, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ops.views.reshape import Col2ImView

T = Annotated[Tensor, Types("T", ALL_4)]
Int64 = Annotated[Tensor, Types("tensor(int64)", INT64)]


@viewed
def _col2im_shape(op: Col2ImView[TensorFact]) -> TensorFact:
    axes = _axes(op.image_shape, op.block_shape, op.dilations, op.strides, op.pads)
    if op.input.shape is None or axes is None:
        return op.input.with_shape(None)
    if op.input.rank != 3:
        message = f"input has rank {op.input.rank}"
        raise ShapeError(message, "expected [batch, channels * block size, block count]")
    batch, rows, columns = op.input.dims
    image = op.image_shape.elements or (OPEN,) * axes
    if op.block_shape.elements is None:
        return op.input.with_shape((batch, OPEN, *image))
    block = op.block_shape.elements
    size = product(block)
    if isinstance(rows, int) and isinstance(size, int) and (size < 1 or rows % size):
        message = f"input has {rows} rows, expected a multiple of the block size {size}"
        raise ShapeError(message)
    if op.image_shape.elements is not None:
        count = product(_counts(image, block, op.strides, op.pads, op.dilations))
        if decide_equal(count, columns) is False:
            message = f"input has {columns} columns, expected one for each of {count} blocks"
            raise ShapeError(message)
    return op.input.with_shape((batch, rows // size, *image))


def _axes(
    image: TensorFact,
    block: TensorFact,
    dilations: tuple[int, ...] | None,
    strides: tuple[int, ...] | None,
    pads: tuple[int, ...] | None,
) -> int | None:
    """Return the number of image axes, or None if it is unknown."""
    if pads and len(pads) % 2:
        message = f"pads has {len(pads)} entries"
        raise ShapeError(message, "two are needed for each axis: all begins, then all ends")
    given = [fact.dims[0] for fact in (image, block) if fact.shape is not None and fact.rank == 1]
    lengths = [n for n in given if not isinstance(n, Symbolic)]
    lengths += [len(each) for each in (dilations, strides) if each] + ([len(pads) // 2] if pads else [])
    if len(set(lengths)) > 1:
        message = f"the image has {lengths[0]} axes, another parameter {next(n for n in lengths if n != lengths[0])}"
        raise ShapeError(message, "image_shape, block_shape, strides and dilations have one entry an axis, pads two")
    return lengths[0] if lengths else None


def _counts(
    image: Sequence[Dim],
    block: Sequence[Dim],
    strides: Sequence[int] | None,
    pads: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> list[Dim]:
    """How many blocks begin along each axis."""
    n = len(image)
    steps, gaps, edges = strides or (1,) * n, dilations or (1,) * n, pads or (0,) * (2 * n)
    return [(image[i] + edges[i] + edges[i + n] - ((block[i] - 1) * gaps[i] + 1)) // steps[i] + 1 for i in range(n)]


@op(
    shape=_col2im_shape,
    since=18,
    outputs=("output",),
    exactness="accumulation",
    role="pointwise",
    index_operands=("image_shape", "block_shape"),
    ranks={"input": (2, 3), "image_shape": 1, "block_shape": 1},
)
def Col2Im(
    input: T,
    image_shape: Int64,
    block_shape: Int64,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T:
    """Combine blocks, one per column, into an image; overlapping elements are added.

    Blocks are in row-major order of their positions; `pads` is the padding of the image before block extraction.

    Shapes: input [N, C * product(block_shape), blocks], image_shape [a], block_shape [a] → [N, C, *image_shape].

    Raises:
        ShapeError: the rows are not a multiple of the block size, or the number of blocks is wrong.

    Source: ONNX Col2Im-18.
    """
    image, block = ([int(n) for n in x.reshape(-1)] for x in (image_shape, block_shape))
    axes = len(image)
    steps, gaps, edges = strides or (1,) * axes, dilations or (1,) * axes, pads or (0,) * (2 * axes)
    counts = [int(n) for n in _counts(image, block, strides, pads, dilations) if isinstance(n, int)]
    padded = [n + edges[i] + edges[i + axes] for i, n in enumerate(image)]
    channels = input.shape[1] // math.prod(block)
    columns = input.reshape(input.shape[0], channels, *block, *counts)
    result = np.zeros((input.shape[0], channels, *padded), input.dtype)
    for place in np.ndindex(*block):
        first = [k * gap for k, gap in zip(place, gaps, strict=True)]
        reach = [slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(first, counts, steps, strict=True)]
        result[(..., *reach)] += columns[(slice(None), slice(None), *place)]
    return result[(..., *(slice(edges[i], edges[i] + n) for i, n in enumerate(image)))]

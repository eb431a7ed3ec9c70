"""Images put together of columns, in NNEF: a transposed convolution with filters of a single 1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import made_up
from graphport.ops.declare import lift
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.operands import needed, sizes

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lift("nnef", "Col2Im")
def lift_col2im(
    b: Builder,
    input: Value,
    image_shape: Value,
    block_shape: Value,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> tuple[Value, ...] | None:
    """Each row of a block has a filter that puts it in its place; channels are groups."""
    image, block = needed(image_shape, "the image"), needed(block_shape, "the block")
    axes = len(image)
    rows, steps = math.prod(block), strides or (1,) * axes
    gaps, edges = dilations or (1,) * axes, pads or (0,) * (2 * axes)
    batch, columns = sizes(b.dims(input)[:2])
    channels = columns // rows
    reach = [(k - 1) * gap + 1 for k, gap in zip(block, gaps, strict=True)]
    room = [n + edges[at] + edges[at + axes] - reach[at] for at, n in enumerate(image)]
    counts = [space // step + 1 for space, step in zip(room, steps, strict=True)]
    rest = tuple(space % step for space, step in zip(room, steps, strict=True))
    made_up(columns, rows, what="filters of columns")
    filters = np.tile(np.eye(rows).reshape(rows, 1, *block), (channels, *[1] * (axes + 1)))
    emit = OpBuilder(b)
    apart = emit("Reshape", input, b.constant(np.array([batch, columns, *counts], np.int64)))
    y = emit(
        "ConvTranspose",
        apart,
        b.like(input, filters),
        group=channels,
        strides=tuple(steps),
        dilations=tuple(gaps),
        pads=tuple(edges),
        output_padding=rest,
    )
    return (y,)

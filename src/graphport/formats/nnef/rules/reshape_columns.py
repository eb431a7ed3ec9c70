"""Col2Im in NNEF: a transposed convolution with one-hot filters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import needed, sizes
from graphport.ops.views.reshape import Col2ImView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Col2ImView.export_rule("nnef")
def export_col2im(b: Builder, op: Col2ImView) -> tuple[Value, ...] | None:
    """Export Col2Im as a grouped transposed convolution with one-hot filters; channels are the groups."""
    image, block = needed(op.image_shape, "the image"), needed(op.block_shape, "the block")
    axes = len(image)
    rows, steps = math.prod(block), op.strides or (1,) * axes
    gaps, edges = op.dilations or (1,) * axes, op.pads or (0,) * (2 * axes)
    batch, columns = sizes(b.dims(op.input)[:2])
    channels = columns // rows
    reach = [(k - 1) * gap + 1 for k, gap in zip(block, gaps, strict=True)]
    room = [n + edges[at] + edges[at + axes] - reach[at] for at, n in enumerate(image)]
    counts = [space // step + 1 for space, step in zip(room, steps, strict=True)]
    rest = tuple(space % step for space, step in zip(room, steps, strict=True))
    reserve(columns, rows, what="im2col filters")
    filters = np.tile(np.eye(rows).reshape(rows, 1, *block), (channels, *[1] * (axes + 1)))
    emit = OpBuilder(b)
    split = emit("Reshape", op.input, [batch, columns, *counts])
    y = emit(
        "ConvTranspose",
        split,
        b.like(op.input, filters),
        group=channels,
        strides=tuple(steps),
        dilations=tuple(gaps),
        pads=tuple(edges),
        output_padding=rest,
    )
    return (y,)

"""Transposed convolutions in tract's NNEF, whose filters have the channels of the result first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.nnef.rules import convolution as nnef
from graphport.formats.nnef.rules.convolution_borders import Sliding
from graphport.formats.nnef.rules.tract.binding import import_rule
from graphport.ops.declare import ShapeError
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("deconv")
def deconv(
    b: Builder,
    input: Value,
    filter: Value,
    bias: Value | None = None,
    *,
    groups: int = 1,
    output_shape: tuple[int, ...] = (),
    **attributes: Any,
) -> Value:
    """Transposed convolution with a filter [C_out, C_in / groups, …]; `output_shape` has spatial axes only."""
    dims = b.dims(input, at_least=2)
    count = groups or dims[1]
    group = count if isinstance(count, int) else 1
    if group < 1:
        message = f"{group} groups"
        raise ShapeError(message, "use 1 or more")
    transposed = swapped(b, filter, group)
    shape: tuple[Any, ...] = ()
    if len(output_shape) == len(dims) - 2:
        shape = (dims[0], b.dims(filter, at_least=1)[0], *output_shape)
    return nnef.deconv(b, Sliding(**attributes), input, transposed, bias, groups=group, output_shape=shape)


def swapped(b: Builder, filter: Value, groups: int) -> Value:
    """Transpose the first two axes of a filter per group."""
    emit, dims = OpBuilder(b), b.dims(filter, at_least=2)
    rank = len(dims)
    if groups == 1:
        return emit("Transpose", filter, perm=(1, 0, *range(2, rank)))
    rows = dims[0] // groups
    split = emit("Reshape", filter, _vector(b, groups, rows, *dims[1:]))
    transposed = emit("Transpose", split, perm=(0, 2, 1, *range(3, rank + 1)))
    return emit("Reshape", transposed, _vector(b, groups * dims[1], rows, *dims[2:]))


def _vector(b: Builder, *numbers: Any) -> Value:
    return b.constant(np.array([int(number) for number in numbers], np.int64))

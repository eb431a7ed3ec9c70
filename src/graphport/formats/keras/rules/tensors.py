"""Tensor arithmetic that several rules of Keras share: layouts, constants, shapes with open dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import decide_equal
from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.reshape import Expand, Reshape, Squeeze, Unsqueeze
from graphport.ops.lowering.extents import extent, joined
from graphport.ops.lowering.operands import cast, reshaped, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

FIRST = "channels_first"


def to_channels_first(b: Builder, x: Value, data_format: str | None) -> Value:
    """Move the channels to axis 1."""
    rank = len(b.dims(x))
    return x if data_format == FIRST else transposed(b, x, (0, rank - 1, *range(1, rank - 1)))


def to_data_format(b: Builder, x: Value, data_format: str | None) -> Value:
    """Move the channels from axis 1 to where the layer has them."""
    rank = len(b.dims(x))
    return x if data_format == FIRST else transposed(b, x, (0, *range(2, rank), 1))


def spatial_axes(rank: int, data_format: str | None) -> tuple[int, ...]:
    """The axes of height, width and so on."""
    return tuple(range(2, rank)) if data_format == FIRST else tuple(range(1, rank - 1))


def binary(b: Builder, op_def: OpDef, x: Value, y: Value | float) -> Value:
    """An operation with a tensor or a number as the second operand."""
    return b(op_def, x, y if not isinstance(y, int | float) else b.like(x, y))


def reduced(
    b: Builder, op_def: OpDef, x: Value, axes: Sequence[int], *, keepdims: bool = False, **attributes: Any
) -> Value:
    """A reduction over axes; `x` itself without axes."""
    if not axes:
        return x
    return b(op_def, x, vector(b, axes), keepdims=int(keepdims), **attributes)


def unsqueezed(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """`x` with axes of size 1 at the indices `axes` of the result."""
    return b(Unsqueeze, x, axes) if axes else x


def squeezed(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """`x` without axes of size 1."""
    return b(Squeeze, x, axes) if axes else x


def weight_along(b: Builder, weight: Value, axes: Sequence[int], rank: int) -> Value:
    """A weight with one dim for each of `axes`, shaped to broadcast against a tensor of `rank`."""
    first = min(axes)
    if list(axes) == list(range(first, first + len(axes))):
        own = [dim if isinstance(dim, int) else -1 for dim in b.dims(weight)]
        shape = [*own, *[1] * (rank - first - len(axes))]
        return weight if len(shape) == len(own) else reshaped(b, weight, shape)
    missing = [axis for axis in range(rank) if axis not in axes]
    return unsqueezed(b, weight, missing)


def shape_like(b: Builder, parts: Sequence[Dim | tuple[Value, int]]) -> Value:
    """A shape as int64: integers, and `(value, axis)` for each dynamic dim."""
    found: list[Value | int] = []
    for part in parts:
        if isinstance(part, tuple):
            value, axis = part
            dim = b.dims(value)[axis]
            found.append(dim if isinstance(dim, int) else extent(b, value, axis))
        elif isinstance(part, int):
            found.append(part)
        else:
            message = f"the dim {part} depends on the input"
            raise ShapeError(message)
    if all(isinstance(each, int) for each in found):
        return vector(b, [each for each in found if isinstance(each, int)])
    return joined(b, *found)


def reshape_to(b: Builder, x: Value, parts: Sequence[Dim | tuple[Value, int]]) -> Value:
    """`x` in another shape; `Reshape` infers at most one dynamic dim."""
    is_open = [isinstance(p, tuple) and not isinstance(b.dims(p[0])[p[1]], int) for p in parts]
    if sum(is_open) == 1 and -1 not in parts:
        shape = [-1 if o else _static_dim(b, part) for part, o in zip(parts, is_open, strict=True)]
        if 0 not in shape:
            return b(Reshape, x, shape)
    return b(Reshape, x, shape_like(b, parts))


def _static_dim(b: Builder, part: Dim | tuple[Value, int]) -> int:
    dim = b.dims(part[0])[part[1]] if isinstance(part, tuple) else part
    return dim if isinstance(dim, int) else -1


def expand_like(b: Builder, x: Value, parts: Sequence[Dim | tuple[Value, int]]) -> Value:
    """`x` broadcast to a shape."""
    return b(Expand, x, shape_like(b, parts))


def is_same_dim(one: Dim, other: Dim) -> bool:
    """Whether two dims are equal in all runs."""
    return decide_equal(one, other) is True


def to_float(b: Builder, x: Value, dtype: DType) -> Value:
    """A boolean or number in a float type."""
    return cast(b, x, dtype)


def constant_of(b: Builder, values: object, dtype: DType) -> Value:
    """Create a constant from values of the configuration."""
    return b.constant(np.asarray(values, dtype.numpy), dtype)

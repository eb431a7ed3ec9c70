"""Paddings of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.binding import Layer, layer
from graphport.formats.keras.rules.tensors import spatial_axes
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.padding import Pad

if TYPE_CHECKING:
    from graphport.ir.graph import Value


def sides(value: Any, spatial: int, name: str) -> list[tuple[int, int]]:
    """The elements before and after each spatial dim: an integer, one for each dim, or a pair for each.

    Raises:
        ShapeError: the option has another form.
    """
    if isinstance(value, int):
        return [(value, value)] * spatial
    if is_sequence(value) and spatial == 1 and len(value) == 2 and all(isinstance(n, int) for n in value):
        return [(value[0], value[1])]
    if not is_sequence(value) or len(value) != spatial:
        message = f"{name} is {value!r} for {spatial} spatial dims"
        raise ShapeError(message)
    return [(each, each) if isinstance(each, int) else (each[0], each[1]) for each in value]


@layer("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def zero_padding(at: Layer, *, padding: Any = 1, data_format: str | None = None) -> Value:
    """Zeros around the spatial dims."""
    begins, ends = [0] * at.rank, [0] * at.rank
    for axis, (begin, end) in zip(
        spatial_axes(at.rank, data_format), sides(padding, at.rank - 2, "padding"), strict=True
    ):
        begins[axis], ends[axis] = begin, end
    return at.b(Pad, at.x, [*begins, *ends])

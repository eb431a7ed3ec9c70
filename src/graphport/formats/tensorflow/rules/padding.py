"""Padding in TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Reshape, Transpose
from graphport.ops.lowering.operands import as_int64, as_scalar, integers, needed, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_FIRST = -((1 << 63) - 1)


@operator("Pad", "PadV2")
def pad(b: Builder, x: Value, paddings: Value, number: Value | None = None) -> Value:
    """`x` with a value around it: zero, or that of the last operand."""
    value = None if number is None else as_scalar(b, number)
    return b(Pad, x, _pads(b, x, paddings), value)


def _pads(b: Builder, x: Value, paddings: Value) -> Value:
    """The lengths before all axes, then those after them."""
    widths = integers(paddings)
    if widths is None:
        return b(Reshape, b(Transpose, as_int64(b, paddings), perm=(1, 0)), [-1])
    if len(widths) != 2 * len(b.dims(x)):
        message = f"padding {list(widths)} for {len(b.dims(x))} axes"
        raise ShapeError(message, "use two values per axis")
    return vector(b, [*widths[::2], *widths[1::2]])


@operator("MirrorPad")
def mirror_pad(b: Builder, x: Value, paddings: Value, *, mode: str) -> Value:
    """`x` with its elements mirrored around it; in mode SYMMETRIC the border is repeated."""
    if mode == "REFLECT":
        return b(Pad, x, _pads(b, x, paddings), mode="reflect")
    widths = needed(paddings, "the padding")
    for axis, (begin, end) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
        pieces = [_mirrored(b, x, axis, begin, is_front=True), x, _mirrored(b, x, axis, end, is_front=False)]
        kept = [each for each, count in zip(pieces, (begin, 1, end), strict=True) if count]
        x = kept[0] if len(kept) == 1 else b(Concat, *kept, axis=axis)
    return x


def _mirrored(b: Builder, x: Value, axis: int, count: int, *, is_front: bool) -> Value:
    """The first or last elements of an axis in reverse order."""
    if not count:
        return x
    start, stop = (count - 1, _FIRST) if is_front else (-1, -count - 1)
    return b(Slice, x, [start], [stop], [axis], [-1])

"""Streaming operators of tract's NNEF with state between pulses: the result for the first pulse.

A run of tract begins without state, and so does each run of a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.nnef.rules.tract.binding import axis_of, import_rule
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_FAR = np.iinfo(np.int64).max


@import_rule("tract_pulse_delay")
def delay(b: Builder, input: Value, *, axis: int, delay: int, overlap: int) -> Value:
    """Prepend `delay + overlap` zeros to an axis, and remove the last `delay` elements."""
    emit, dims = OpBuilder(b), b.dims(input)
    place, count = axis_of(axis, len(dims)), delay + overlap
    if not count:
        return emit("Identity", input)
    pads = np.zeros(2 * len(dims), np.int64)
    pads[place] = count
    whole = emit("Pad", input, b.constant(pads))
    ends = [b.constant(np.array([number], np.int64)) for number in (0, -delay if delay else _FAR, place)]
    return emit("Slice", whole, *ends) if delay else whole


@import_rule("tract_pulse_mask")
def mask(b: Builder, input: Value, *, axis: int, begin: int, end: int, value: float) -> Value:
    """Set elements before `begin` and from `end` on to `value`."""
    return OpBuilder(b)("Where", _inside(b, input, axis, begin, end), input, b.like(input, value))


@import_rule("tract_pulse_pulse_pad")
def pulse_pad(
    b: Builder,
    input: Value,
    *,
    axis: int,
    before: int,
    after: int,
    begin_input: int,
    end_input: int,
    border: str = "constant",
    value: float = 0.0,
    overlap: int = 0,
) -> Value:
    """Replace elements before `begin_input` and from `end_input` on by padding."""
    del before, after
    emit, place = OpBuilder(b), axis_of(axis, len(b.dims(input)))
    if overlap or border not in ("constant", "replicated", "replicate"):
        message = f"padding by {border} with an overlap of {overlap}"
        raise UnsupportedError(message)
    if border == "constant":
        return mask(b, input, axis=place, begin=begin_input, end=end_input, value=value)
    first, last = (emit("Gather", input, [at], axis=place) for at in (begin_input, end_input - 1))
    kept = emit("Where", _inside(b, input, place, 0, end_input), input, last)
    return emit("Where", _inside(b, input, place, begin_input, _FAR), kept, first)


def _inside(b: Builder, x: Value, axis: int, begin: int, end: int) -> Value:
    """Return a mask, broadcastable to `x`, of the indices in [begin, end) along an axis."""
    emit, rank = OpBuilder(b), len(b.dims(x))
    place = axis_of(axis, rank)
    length = emit("Squeeze", emit("Shape", x, start=place, end=place + 1), [0])
    indices = emit("Range", 0, length, 1)
    limits = (b.constant(np.array(limit, np.int64)) for limit in (begin, end))
    held = (emit(name, indices, limit) for name, limit in zip(("GreaterOrEqual", "Less"), limits, strict=True))
    others = b.constant(np.array([at for at in range(rank) if at != place], np.int64))
    return emit("Unsqueeze", emit("And", *held), others)

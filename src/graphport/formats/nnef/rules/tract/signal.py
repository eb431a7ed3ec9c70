"""Fourier transforms in tract's NNEF: complex numbers are pairs on the last axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.formats.nnef.rules.tract.binding import axis_of, import_rule
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_core_fft")
def fft(b: Builder, input: Value, *, axis: int, inverse: bool = False) -> Value:
    """Complex DFT of (real, imaginary) pairs on the last axis; the inverse is not divided by the length."""
    emit = OpBuilder(b)
    place = axis_of(axis, len(b.dims(input)))
    where = b.constant(np.array(place, np.int64))
    y = emit("DFT", input, None, where, inverse=int(inverse))
    if not inverse:
        return y
    length = b.dims(input)[place]
    if isinstance(length, int):
        return emit("Mul", y, float(length))
    return emit("Mul", y, emit("CastLike", emit("Shape", input, start=place, end=place + 1), y))


@import_rule("tract_core_stft")
def stft(b: Builder, input: Value, window: Value | None = None, *, axis: int, frame: int, stride: int) -> Value:
    """Short-time Fourier transform: frames replace the axis, followed by their bins."""
    emit = OpBuilder(b)
    dims = b.dims(input)
    place = axis_of(axis, len(dims))
    length = dims[place]
    if not isinstance(length, int):
        message = "frames of a signal of unknown length"
        raise UnsupportedError(message)
    if min(frame, stride) < 1:
        message = f"frames of {frame} elements with stride {stride}"
        raise UnsupportedError(message)
    reserve(max(length - frame, 0) // stride + 1, frame, what="frame indices")
    starts = np.arange(0, length - frame + 1, stride)
    indices = b.constant((starts[:, None] + np.arange(frame)[None]).astype(np.int64))
    frames = emit("Gather", input, indices, axis=place)
    if window is not None:
        own = b.dims(window, at_least=1)[0]
        if isinstance(own, int) and own < frame:
            left = (frame - own) // 2
            window = emit("Pad", window, [left, frame - own - left])
        behind = len(dims) - place
        window = emit("Unsqueeze", window, b.constant(np.arange(1, behind).astype(np.int64))) if behind > 1 else window
        frames = emit("Mul", frames, window)
    return emit("DFT", frames, None, place + 1)

"""Signals put together again from spectra of frames in OpenVINO."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError, lower
from graphport.ops.dialects.openvino.signal_spectra import centered, irdft
from graphport.ops.dialects.operands import as_vector, cast, dtype_of, needed, sizes, vector
from graphport.ops.pages.arithmetic import Add, Div, Max, Mul, Sub
from graphport.ops.pages.comparison import Equal, Where
from graphport.ops.pages.indexing import Slice
from graphport.ops.pages.padding import Pad
from graphport.ops.pages.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.pages.reshape.columns import Col2Im

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("openvino", "opset16.ISTFT")
def istft(
    b: Builder,
    data: Value,
    window: Value,
    frame_size: Value,
    frame_step: Value,
    signal_length: Value | None = None,
    *,
    center: bool,
    normalized: bool,
) -> Value:
    """The signal whose windowed frames have the spectra [*N, F, T, 2]: frames added up, divided by squared windows."""
    (size,), (step,) = needed(frame_size, "the size of a frame"), needed(frame_step, "the step between frames")
    if size < 1 or step < 1:
        message = f"frames of {size}, {step} apart"
        raise ShapeError(message, "both positive")
    dtype, is_single = dtype_of(data), len(b.dims(data)) == 3
    x = cast(b, data, DType.FLOAT32)
    x = b(Unsqueeze, x, vector(b, [0])) if is_single else x
    frames = irdft(b, b(Transpose, x, perm=(0, 2, 1, 3)), vector(b, [2]), vector(b, [size]))
    (own,) = sizes(b.dims(window), "the length of a window")
    if own > size:
        message = f"a window of {own} for frames of {size}"
        raise ShapeError(message)
    weights = centered(b, cast(b, window, DType.FLOAT32), size)
    count = b(Shape, x, start=2, end=3)
    whole = b(Add, b(Mul, b(Sub, count, vector(b, [1])), vector(b, [step])), vector(b, [size]))
    total = _added(b, b(Mul, frames, weights), whole, size, step)
    every = b(Concat, vector(b, [1]), count, vector(b, [size]), axis=0)
    squares = _added(b, b(Expand, b(Mul, weights, weights), every), whole, size, step)
    if normalized:
        total = b(Mul, total, b.like(total, sqrt(size)))
    zero = b.like(total, 0)
    found = b(Where, b(Equal, squares, zero), zero, b(Div, total, squares))
    found = _fitted(b, found, whole, signal_length, size, center=center)
    return cast(b, b(Reshape, found, vector(b, [-1])) if is_single else found, dtype)


def _added(b: Builder, frames: Value, whole: Value, size: int, step: int) -> Value:
    """Frames [N, T, size] added up where they overlap: [N, whole]."""
    image = b(Concat, vector(b, [1]), whole, axis=0)
    columns = b(Transpose, frames, perm=(0, 2, 1))
    return b(Reshape, b(Col2Im, columns, image, vector(b, [1, size]), strides=(1, step)), vector(b, [0, -1]))


def _fitted(b: Builder, x: Value, whole: Value, length: Value | None, size: int, *, center: bool) -> Value:
    """What was there of a signal before frames were centered, cut or filled to the length that is asked for."""
    margin = size // 2 if center else 0
    start, axis = vector(b, [margin]), vector(b, [1])
    if length is None:
        return b(Slice, x, start, b(Sub, whole, start), axis) if center else x
    wanted = as_vector(b, length)
    missing = b(Max, b(Sub, b(Add, wanted, start), whole), vector(b, [0]))
    zeros = vector(b, [0, 0, 0])
    longer = b(Pad, x, b(Concat, zeros, missing, axis=0), b.constant(np.float32(0)))
    return b(Slice, longer, start, b(Add, wanted, start), axis)

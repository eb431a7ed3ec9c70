"""Fourier transforms, windows and the inverse STFT in OpenVINO."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import (
    emitted_cast,
    emitted_gather,
    emitted_pad,
    emitted_reshape,
    emitted_slice,
)
from graphport.ops.declare import ShapeError, UnsupportedError, lower
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul, Sub
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Squeeze, Transpose, Unsqueeze
from graphport.ops.definitions.reshape.columns import Col2Im
from graphport.ops.definitions.signal import DFT, STFT
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.extents import cut, gather_index
from graphport.ops.lowering.operands import (
    as_int64,
    as_scalar,
    as_vector,
    cast,
    dtype_of,
    index,
    integers,
    needed,
    needed_integer,
    sizes,
    transposed,
    vector,
)
from graphport.ops.shapes import axis_index
from graphport.ops.views.signal import DFTView, STFTView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


def _plan(b: Builder, x: Value, axes: Value, lengths: Value | None, rank: int) -> list[tuple[int, int | Value | None]]:
    """Return the axes, normalized for `rank`, with their signal lengths or `None`."""
    known_axes = [axis_index(axis, rank) for axis in needed(axes, "the axes of a transform")]
    if not known_axes:
        message = "a transform without axes"
        raise ShapeError(message)
    if lengths is None:
        return [(axis, None) for axis in known_axes]
    known = integers(lengths)
    if known is None:
        return [(axis, _length(b, x, axis, lengths, number)) for number, axis in enumerate(known_axes)]
    if len(known) != len(known_axes):
        message = f"{len(known)} transform lengths for {len(known_axes)} axes, expected equal counts"
        raise ShapeError(message)
    return [(axis, None if n == -1 else n) for axis, n in zip(known_axes, known, strict=True)]


def _length(b: Builder, x: Value, axis: int, lengths: Value, number: int) -> Value:
    """Return a transform length that is computed at run time; -1 is replaced by the length of the axis."""
    wanted = b(Gather, as_int64(b, lengths), number)
    own = as_scalar(b, b(Shape, x, start=axis, end=axis + 1))
    return b(Where, b(Equal, wanted, index(b, -1)), own, wanted)


def _transformed(
    b: Builder, x: Value, axis: int, length: int | Value | None, *, inverse: int, onesided: int = 0
) -> Value:
    count = index(b, length) if isinstance(length, int) else length
    return b(DFT, x, count, axis, inverse=inverse, onesided=onesided)


def _over_axes(b: Builder, x: Value, axes: Value, lengths: Value | None, inverse: int) -> Value:
    """Complex DFT along several axes, or its inverse."""
    for axis, length in _plan(b, x, axes, lengths, len(b.dims(x)) - 1):
        x = _transformed(b, x, axis, length, inverse=inverse)
    return x


RULES.having(over_axes=_over_axes).lower("""
opset7.DFT(x, axes, lengths=None) -> over_axes(x, axes, lengths, 0)
opset7.IDFT(x, axes, lengths=None) -> over_axes(x, axes, lengths, 1)
""")


@lower("openvino", "opset9.RDFT")
def rdft(b: Builder, x: Value, axes: Value, lengths: Value | None = None) -> Value:
    """DFT of real numbers: one-sided along the last of the axes."""
    *others, last = _plan(b, x, axes, lengths, len(b.dims(x)))
    found = _transformed(b, b(Unsqueeze, x, [-1]), *last, inverse=0, onesided=1)
    for axis, length in others:
        found = _transformed(b, found, axis, length, inverse=0)
    return found


@lower("openvino", "opset9.IRDFT")
def irdft(b: Builder, x: Value, axes: Value, lengths: Value | None = None) -> Value:
    """Inverse of a one-sided DFT; the result is real."""
    *others, (axis, length) = _plan(b, x, axes, lengths, len(b.dims(x)) - 1)
    for other, wanted in others:
        x = _transformed(b, x, other, wanted, inverse=1)
    if length is not None and not isinstance(length, int):
        message = "the length of a signal must be constant"
        raise UnsupportedError(message)
    given = b.dims(x)[axis]
    whole = 2 * (given - 1) if length is None and isinstance(given, int) else length
    if whole is not None:
        x = _resize_axis(b, x, axis, given, whole // 2 + 1)
    # Without a length every entry between the first and the last has its mirror image.
    first = -2 if whole is None else (whole + 1) // 2 - 1
    mirrored = b(Mul, cut(b, x, first, 0, axis, -1), b.like(x, [1, -1]))
    full = b(Concat, x, mirrored, axis=axis) if whole is None or whole > 2 else x
    numbers = _transformed(b, full, axis, whole, inverse=1)
    return gather_index(b, numbers, 0)


def _resize_axis(b: Builder, x: Value, axis: int, given: Dim, wanted: int) -> Value:
    """Crop an axis, or pad it with zeros at the end."""
    if given == wanted:
        return x
    edges = [0] * (2 * len(b.dims(x)))
    edges[len(b.dims(x)) + axis] = wanted - given if isinstance(given, int) else wanted
    padded = b(Pad, x, edges)
    return padded if isinstance(given, int) else cut(b, padded, 0, wanted, axis)


@lower("openvino", "opset15.STFT")
def stft(
    b: Builder, signal: Value, window: Value, frame_size: Value, frame_step: Value, *, transpose_frames: bool
) -> Value:
    """One-sided STFT; `transpose_frames` puts the frequency axis before the frame axis."""
    length = needed_integer(frame_size, "the frame size")
    is_single = len(b.dims(signal)) == 1
    x = b(Unsqueeze, signal, [0, 2] if is_single else [2])
    step = as_scalar(b, as_int64(b, frame_step))
    found = b(STFT, x, step, centered(b, window, length), length, onesided=1)
    if transpose_frames:
        found = transposed(b, found, [0, 2, 1, 3])
    return b(Squeeze, found, [0]) if is_single else found


def centered(b: Builder, window: Value, size: int) -> Value:
    """Center a window in a frame with zero padding."""
    (own,) = sizes(b.dims(window, 1), "the length of a window")
    before = (size - own) // 2
    return b(Pad, window, [before, size - own - before]) if own < size else window


# The way to OpenVINO


@DFTView.export_rule("openvino")
def export_dft(b: Builder, op: DFTView) -> Exported:
    input = op.input
    rank = len(b.dims(input))
    place = (-2,) if op.axis is None else integers(op.axis)
    parts = b.dims(input, at_least=1)[-1]
    if place is None or (op.onesided and not isinstance(parts, int)):
        return None
    at = place[0] % rank
    more: list[Value] = []
    if op.dft_length is not None:
        length = integers(op.dft_length)
        more = [emitted_reshape(b, op.dft_length, (1,)) if length is None else vector(b, length)]
    axes = vector(b, [at])
    if op.onesided and not op.inverse:
        x = emit(b, "opset1.Squeeze", input, vector(b, [-1])) if parts == 1 else None
        return None if x is None else b.emit("opset9.RDFT", _long_enough(b, x, at, more), axes, *more)
    if op.onesided:
        if parts != 2:
            return None
        found = emit(b, "opset9.IRDFT", input, axes, *more)
        return b.emit("opset1.Unsqueeze", found, vector(b, [-1]))
    if parts != 2:
        # Real numbers get a zero imaginary part.
        zeros = emit(b, "opset1.Multiply", input, 0.0)
        input = emit(b, "opset1.Concat", input, zeros, axis=rank - 1)
    if not isinstance(parts, int):
        input = emitted_slice(b, input, 0, 2, rank - 1)
    return b.emit("opset7.IDFT" if op.inverse else "opset7.DFT", input, axes, *more)


def _long_enough(b: Builder, x: Value, axis: int, lengths: list[Value]) -> Value:
    """Pad a signal with zeros to its transform length: RDFT of OpenVINO 2026.4 reads beyond a shorter one."""
    given = b.dims(x)[axis]
    wanted = integers(lengths[0]) if lengths else None
    if not lengths or (wanted is not None and isinstance(given, int) and wanted[0] <= given):
        return x
    rank = len(b.dims(x))
    if wanted is not None and isinstance(given, int):
        return emitted_pad(b, x, [0] * rank, [wanted[0] - given if place == axis else 0 for place in range(rank)])
    own = emitted_gather(b, emit(b, "opset3.ShapeOf", x), [axis])
    lack = emit(b, "opset1.Maximum", emit(b, "opset1.Subtract", emitted_cast(b, lengths[0], DType.INT64), own), 0)
    parts = [vector(b, [0] * axis), lack, vector(b, [0] * (rank - 1 - axis))]
    behind = emit(b, "opset1.Concat", *(part for part in parts if b.dims(part, at_least=1)[0] != 0), axis=0)
    return emit(b, "opset12.Pad", x, vector(b, [0] * rank), behind, b.like(x, 0), pad_mode="constant")


@STFTView.export_rule("openvino")
def export_stft(b: Builder, op: STFTView) -> Exported:
    """Export STFT as gather, window and DFT; OpenVINO's STFT supports equal sizes and real signals only."""
    step = needed_integer(op.frame_step, "the frame step")
    dims = b.dims(op.signal)
    if op.onesided and dims[-1] == 1 and any(isinstance(dim, Symbolic) for dim in dims):
        return _emit_stft(b, op.signal, step, op.window, op.frame_length)
    _, whole, parts = sizes(b.dims(op.signal), "the shape of a signal")
    length = _frame(b, whole, op.window, op.frame_length)
    dtype = dtype_of(op.signal)
    count = (whole - length) // step + 1
    reserve(count, length)
    indices = np.arange(count)[:, None] * step + np.arange(length)
    frames = emitted_gather(b, op.signal, b.constant(indices), 1)
    if op.window is not None:
        weights = emit(b, "opset1.Unsqueeze", emitted_cast(b, op.window, dtype), vector(b, [1]))
        frames = emit(b, "opset1.Multiply", frames, weights)
    axes = vector(b, [2])
    if parts == 1 and op.onesided:
        return b.emit("opset9.RDFT", emit(b, "opset1.Squeeze", frames, vector(b, [3])), axes)
    if parts == 1:
        frames = emit(b, "opset1.Concat", frames, emit(b, "opset1.Multiply", frames, 0.0), axis=3)
    spectrum = emit(b, "opset7.DFT", frames, axes)
    return (emitted_slice(b, spectrum, 0, length // 2 + 1, 2) if op.onesided else spectrum,)


def _emit_stft(b: Builder, signal: Value, step: int, window: Value | None, frame_length: Value | None) -> Exported:
    """Emit STFT (opset 15) for a real signal of any length, one-sided."""
    length = _frame(b, b.dims(signal, at_least=2)[1], window, frame_length)
    dtype = dtype_of(signal)
    weights = b.constant(np.ones(length, dtype.numpy)) if window is None else emitted_cast(b, window, dtype)
    x = emit(b, "opset1.Squeeze", signal, vector(b, [2]))
    return b.emit("opset15.STFT", x, weights, index(b, length), index(b, step), transpose_frames=False)


def _frame(b: Builder, whole: Dim, window: Value | None, frame_length: Value | None) -> int:
    if frame_length is not None:
        return needed_integer(frame_length, "the frame length")
    if window is None:
        return sizes([whole], "the length of a signal")[0]
    return sizes(b.dims(window, 1), "the length of a window")[0]


def _sum_of_cosines(b: Builder, size: Value, factors: Sequence[float], periodic: int, dtype: DType) -> Value:
    """Emit a cosine-sum window: w[n] = Σ factors[k] * cos(2π k n / N), N = size or size - 1 (symmetric)."""
    if not dtype.is_floating:
        message = f"a window of {dtype}"
        raise UnsupportedError(message)
    count = emitted_cast(b, size, DType.FLOAT32)
    zero, one = (b.constant(np.array(n, np.float32)) for n in (0, 1))
    steps = emit(b, "opset4.Range", zero, count, one, output_type=DType.FLOAT32)
    last = count if periodic else emit(b, "opset1.Subtract", count, 1.0)
    angles = emit(b, "opset1.Multiply", emit(b, "opset1.Divide", steps, last), 2 * np.pi)
    total: Any = None
    for multiple, factor in enumerate(factors):
        waves = emit(b, "opset1.Cos", emit(b, "opset1.Multiply", angles, float(multiple)))
        part = emit(b, "opset1.Multiply", waves, factor)
        total = part if total is None else emit(b, "opset1.Add", total, part)
    return emitted_cast(b, total, dtype)


RULES.having(cosines=_sum_of_cosines).export_rules("""
HannWindow -> cosines(size, [0.5, -0.5], periodic, output_datatype)
HammingWindow -> cosines(size, [25 / 46, -21 / 46], periodic, output_datatype)
BlackmanWindow -> cosines(size, [0.42, -0.5, 0.08], periodic, output_datatype)
""")


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
    """Inverse STFT of spectra [*N, F, T, 2] by overlap-add; the sum is divided by that of the squared windows."""
    size = needed_integer(frame_size, "the frame size")
    step = needed_integer(frame_step, "the frame step")
    if size < 1 or step < 1:
        message = f"frames of {size} with hop length {step}"
        raise ShapeError(message, "use positive values")
    dtype, is_single = dtype_of(data), len(b.dims(data)) == 3
    x = cast(b, data, DType.FLOAT32)
    x = b(Unsqueeze, x, [0]) if is_single else x
    frames = irdft(b, b(Transpose, x, perm=(0, 2, 1, 3)), vector(b, [2]), vector(b, [size]))
    (own,) = sizes(b.dims(window, 1), "the length of a window")
    if own > size:
        message = f"the window has {own} elements, expected at most the frame size {size}"
        raise ShapeError(message)
    weights = centered(b, cast(b, window, DType.FLOAT32), size)
    count = b(Shape, x, start=2, end=3)
    whole = b(Add, b(Mul, b(Sub, count, [1]), [step]), [size])
    total = _added(b, b(Mul, frames, weights), whole, size, step)
    every = b(Concat, [1], count, [size], axis=0)
    squares = _added(b, b(Expand, b(Mul, weights, weights), every), whole, size, step)
    if normalized:
        total = b(Mul, total, b.like(total, sqrt(size)))
    zero = b.like(total, 0)
    found = b(Where, b(Equal, squares, zero), zero, b(Div, total, squares))
    found = _of_length(b, found, whole, signal_length, size, center=center)
    return cast(b, b(Reshape, found, [-1]) if is_single else found, dtype)


def _added(b: Builder, frames: Value, whole: Value, size: int, step: int) -> Value:
    """Frames [N, T, size] added up where they overlap: [N, whole]."""
    image = b(Concat, [1], whole, axis=0)
    columns = b(Transpose, frames, perm=(0, 2, 1))
    return b(Reshape, b(Col2Im, columns, image, [1, size], strides=(1, step)), [0, -1])


def _of_length(b: Builder, x: Value, whole: Value, length: Value | None, size: int, *, center: bool) -> Value:
    """Remove the padding of centered frames; crop or pad the signal to `length`."""
    margin = size // 2 if center else 0
    start, axis = vector(b, [margin]), vector(b, [1])
    if length is None:
        return b(Slice, x, start, b(Sub, whole, start), axis) if center else x
    wanted = as_vector(b, length)
    missing = b(Max, b(Sub, b(Add, wanted, start), whole), [0])
    zeros = vector(b, [0, 0, 0])
    longer = b(Pad, x, b(Concat, zeros, missing, axis=0), 0)
    return b(Slice, longer, start, b(Add, wanted, start), axis)

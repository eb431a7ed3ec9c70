"""Fourier transforms and windows in OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.extents import cut, entry
from graphport.ops.dialects.openvino.binding import ROWS
from graphport.ops.dialects.openvino.emitting import (
    emitted_cast,
    emitted_gather,
    emitted_pad,
    emitted_reshape,
    emitted_slice,
)
from graphport.ops.dialects.operands import (
    as_int64,
    as_scalar,
    dtype_of,
    index,
    integers,
    needed,
    sizes,
    transposed,
    vector,
)
from graphport.ops.pages.arithmetic import Mul
from graphport.ops.pages.comparison import Equal, Where
from graphport.ops.pages.indexing import Gather
from graphport.ops.pages.padding import Pad
from graphport.ops.pages.reshape import Concat, Shape, Squeeze, Unsqueeze
from graphport.ops.pages.signal import DFT, STFT
from graphport.ops.views.signal import DFTView, STFTView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.dialects.emitting import Lifted


def _plan(b: Builder, x: Value, axes: Value, lengths: Value | None, rank: int) -> list[tuple[int, int | Value | None]]:
    """Axes, counted from the front over `rank` of them, each with the length it is brought to, or `None`."""
    places = [axis % rank for axis in needed(axes, "the axes of a transform")]
    if lengths is None:
        return [(axis, None) for axis in places]
    known = integers(lengths)
    if known is None:
        return [(axis, _length(b, x, axis, lengths, number)) for number, axis in enumerate(places)]
    return [(axis, None if n == -1 else n) for axis, n in zip(places, known, strict=True)]


def _length(b: Builder, x: Value, axis: int, lengths: Value, number: int) -> Value:
    """A length that comes at run time; -1 is that of the axis."""
    wanted = b(Gather, as_int64(b, lengths), index(b, number))
    own = as_scalar(b, b(Shape, x, start=axis, end=axis + 1))
    return b(Where, b(Equal, wanted, index(b, -1)), own, wanted)


def _transformed(
    b: Builder, x: Value, axis: int, length: int | Value | None, *, inverse: int, onesided: int = 0
) -> Value:
    count = index(b, length) if isinstance(length, int) else length
    return b(DFT, x, count, index(b, axis), inverse=inverse, onesided=onesided)


def _over_axes(b: Builder, x: Value, axes: Value, lengths: Value | None, inverse: int) -> Value:
    """Complex numbers transformed along some axes, or back."""
    for axis, length in _plan(b, x, axes, lengths, len(b.dims(x)) - 1):
        x = _transformed(b, x, axis, length, inverse=inverse)
    return x


ROWS.having(over_axes=_over_axes).lower("""
opset7.DFT(x, axes, lengths=None) -> over_axes(x, axes, lengths, 0)
opset7.IDFT(x, axes, lengths=None) -> over_axes(x, axes, lengths, 1)
""")


@lower("openvino", "opset9.RDFT")
def rdft(b: Builder, x: Value, axes: Value, lengths: Value | None = None) -> Value:
    """Real numbers transformed: half the spectrum of the last axis that is named, and whole ones of the others."""
    *others, last = _plan(b, x, axes, lengths, len(b.dims(x)))
    found = _transformed(b, b(Unsqueeze, x, vector(b, [-1])), *last, inverse=0, onesided=1)
    for axis, length in others:
        found = _transformed(b, found, axis, length, inverse=0)
    return found


@lower("openvino", "opset9.IRDFT")
def irdft(b: Builder, x: Value, axes: Value, lengths: Value | None = None) -> Value:
    """Half a spectrum transformed back to real numbers: the other half mirrors it."""
    *others, (axis, length) = _plan(b, x, axes, lengths, len(b.dims(x)) - 1)
    for other, wanted in others:
        x = _transformed(b, x, other, wanted, inverse=1)
    if length is not None and not isinstance(length, int):
        message = "the length of a signal must be constant"
        raise UnsupportedError(message)
    given = b.dims(x)[axis]
    whole = 2 * (given - 1) if length is None and isinstance(given, int) else length
    if whole is not None:
        x = _fitted(b, x, axis, given, whole // 2 + 1)
    # Without a length every entry between the first and the last has its mirror image.
    first = -2 if whole is None else (whole + 1) // 2 - 1
    mirrored = b(Mul, cut(b, x, first, 0, axis, -1), b.like(x, [1, -1]))
    full = b(Concat, x, mirrored, axis=axis) if whole is None or whole > 2 else x
    numbers = _transformed(b, full, axis, whole, inverse=1)
    return entry(b, numbers, 0)


def _fitted(b: Builder, x: Value, axis: int, given: Dim, wanted: int) -> Value:
    """An axis cut off, or filled with zeros."""
    if given == wanted:
        return x
    edges = [0] * (2 * len(b.dims(x)))
    edges[len(b.dims(x)) + axis] = wanted - given if isinstance(given, int) else wanted
    padded = b(Pad, x, vector(b, edges))
    return padded if isinstance(given, int) else cut(b, padded, 0, wanted, axis)


@lower("openvino", "opset15.STFT")
def stft(
    b: Builder, signal: Value, window: Value, frame_size: Value, frame_step: Value, *, transpose_frames: bool
) -> Value:
    """Half the spectra of windowed frames, frame by frame, or (`transpose_frames`) place by place in the spectrum."""
    (length,) = needed(frame_size, "the size of a frame")
    is_single = len(b.dims(signal)) == 1
    x = b(Unsqueeze, signal, vector(b, [0, 2] if is_single else [2]))
    step = as_scalar(b, as_int64(b, frame_step))
    found = b(STFT, x, step, centered(b, window, length), index(b, length), onesided=1)
    if transpose_frames:
        found = transposed(b, found, [0, 2, 1, 3])
    return b(Squeeze, found, vector(b, [0])) if is_single else found


def centered(b: Builder, window: Value, size: int) -> Value:
    """A window in the middle of a frame, zeros beside it."""
    (own,) = sizes(b.dims(window), "the length of a window")
    before = (size - own) // 2
    return b(Pad, window, vector(b, [before, size - own - before])) if own < size else window


# The way to OpenVINO


@DFTView.lift("openvino")
def lift_dft(b: Builder, op: DFTView) -> Lifted:
    input = op.input
    rank = len(b.dims(input))
    place = (-2,) if op.axis is None else integers(op.axis)
    parts = b.dims(input)[-1]
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
        return None if x is None else b.word("opset9.RDFT", _long_enough(b, x, at, more), axes, *more)
    if op.onesided:
        if parts != 2:
            return None
        found = emit(b, "opset9.IRDFT", input, axes, *more)
        return b.word("opset1.Unsqueeze", found, vector(b, [-1]))
    if parts != 2:
        # Of one part or two, the first two, the second of which may be zeros.
        zeros = emit(b, "opset1.Multiply", input, 0.0)
        input = emit(b, "opset1.Concat", input, zeros, axis=rank - 1)
    if not isinstance(parts, int):
        input = emitted_slice(b, input, 0, 2, rank - 1)
    return b.word("opset7.IDFT" if op.inverse else "opset7.DFT", input, axes, *more)


def _long_enough(b: Builder, x: Value, axis: int, lengths: list[Value]) -> Value:
    """A signal that is no shorter than its transform: `RDFT` of OpenVINO 2026.4 reads beyond its end."""
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
    behind = emit(b, "opset1.Concat", *(part for part in parts if b.dims(part)[0] != 0), axis=0)
    return emit(b, "opset12.Pad", x, vector(b, [0] * rank), behind, b.like(x, 0), pad_mode="constant")


@STFTView.lift("openvino")
def lift_stft(b: Builder, op: STFTView) -> Lifted:
    """Frames gathered, weighted and transformed: OpenVINO's own word takes windows of one size and real signals."""
    step = needed(op.frame_step, "the step between frames")[0]
    dims = b.dims(op.signal)
    if op.onesided and dims[-1] == 1 and any(isinstance(dim, Symbolic) for dim in dims):
        return _by_own_word(b, op.signal, step, op.window, op.frame_length)
    _, whole, parts = sizes(b.dims(op.signal), "the shape of a signal")
    length = _frame(b, whole, op.window, op.frame_length)
    dtype = dtype_of(op.signal)
    count = (whole - length) // step + 1
    reserve(count, length)
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = emitted_gather(b, op.signal, b.constant(places), 1)
    if op.window is not None:
        weights = emit(b, "opset1.Unsqueeze", emitted_cast(b, op.window, dtype), vector(b, [1]))
        frames = emit(b, "opset1.Multiply", frames, weights)
    axes = vector(b, [2])
    if parts == 1 and op.onesided:
        return b.word("opset9.RDFT", emit(b, "opset1.Squeeze", frames, vector(b, [3])), axes)
    if parts == 1:
        frames = emit(b, "opset1.Concat", frames, emit(b, "opset1.Multiply", frames, 0.0), axis=3)
    spectrum = emit(b, "opset7.DFT", frames, axes)
    return (emitted_slice(b, spectrum, 0, length // 2 + 1, 2) if op.onesided else spectrum,)


def _by_own_word(b: Builder, signal: Value, step: int, window: Value | None, frame_length: Value | None) -> Lifted:
    """Of a real signal of any length, half the spectra: what OpenVINO has a word for from opset 15 on."""
    length = _frame(b, b.dims(signal)[1], window, frame_length)
    dtype = dtype_of(signal)
    weights = b.constant(np.ones(length, dtype.numpy)) if window is None else emitted_cast(b, window, dtype)
    x = emit(b, "opset1.Squeeze", signal, vector(b, [2]))
    return b.word("opset15.STFT", x, weights, index(b, length), index(b, step), transpose_frames=False)


def _frame(b: Builder, whole: Dim, window: Value | None, frame_length: Value | None) -> int:
    if frame_length is not None:
        return needed(frame_length, "the length of a frame")[0]
    if window is None:
        return sizes([whole], "the length of a signal")[0]
    return sizes(b.dims(window), "the length of a window")[0]


def _sum_of_cosines(b: Builder, size: Value, factors: Sequence[float], periodic: int, dtype: DType) -> Value:
    """A window that is a sum of cosines of the place and its multiples."""
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


ROWS.having(cosines=_sum_of_cosines).lift("""
HannWindow -> cosines(size, [0.5, -0.5], periodic, output_datatype)
HammingWindow -> cosines(size, [25 / 46, -21 / 46], periodic, output_datatype)
BlackmanWindow -> cosines(size, [0.42, -0.5, 0.08], periodic, output_datatype)
""")

"""Signals: Fourier transforms, windows, and the mel scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, decide_less, maximum
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import same_dim
from graphport.ops.special_functions import widened
from graphport.ops.types import FLOATS, INDICES, INT64, NUMBERS_4, SCALAR, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.signal import DFTView, MelWeightMatrixView, STFTView

T1 = Annotated[Tensor, Types("T1", FLOATS)]
T2 = Annotated[Tensor, Types("T2", INDICES)]
Axis = Annotated[Tensor, Types("tensor(int64)", INT64)]
Size = Annotated[Tensor, Types("T1", INDICES)]
Window = Annotated[Tensor, Types("T2", NUMBERS_4)]
Edge = Annotated[Tensor, Types("T2", FLOATS)]
Mel = Annotated[Tensor, Types("T3", NUMBERS_4)]


def _scalar_element(fact: TensorFact | None, otherwise: Dim) -> Dim:
    """Return the element of a scalar operand: `otherwise` if absent, open if it is known at run time only."""
    if fact is None:
        return otherwise
    return OPEN if not fact.elements else fact.elements[0]


@viewed
def _dft_shape(op: DFTView[TensorFact]) -> TensorFact:
    rank = op.input.rank
    parts = op.input.dims[-1] if rank else 1
    if rank < 2 or (isinstance(parts, int) and parts not in (1, 2)):
        message = f"input is {op.input}"
        raise ShapeError(message, "expected a last axis of length 1 (real) or 2 (real and imaginary part)")
    if op.onesided and (parts == 1 if op.inverse else parts == 2):
        message = f"onesided=1 with {'real' if op.inverse else 'complex'} input"
        raise ShapeError(message, "onesided requires a real signal, or, with inverse=1, its complex spectrum")
    last = 1 if op.inverse and op.onesided else 2
    place = _scalar_element(op.axis, -2)
    if isinstance(place, Symbolic):
        return op.input.with_shape((*[OPEN] * (rank - 1), last))
    if not -rank <= place <= rank - 2 or place == -1:
        message = f"axis {place} is outside of the signal axes of a tensor of rank {rank}"
        raise ShapeError(message, f"use -{rank} to -2, or 0 to {rank - 2}")
    given = op.input.dims[place]
    length = _scalar_element(op.dft_length, 2 * (given - 1) if op.inverse and op.onesided else given)
    if decide_less(length, 1):
        message = f"a transform of length {length}"
        raise ShapeError(message)
    dims = list(op.input.dims)
    dims[place] = length // 2 + 1 if op.onesided and not op.inverse else length
    dims[-1] = last
    return op.input.with_shape(dims)


@op(
    shape=_dft_shape,
    since=20,
    outputs=("output",),
    exactness="accumulation",
    index_operands=("dft_length", "axis"),
    ranks={"input": (2, None), "dft_length": SCALAR, "axis": SCALAR},
)
def DFT(
    input: T1, dft_length: T2 | None = None, axis: Axis | None = None, *, inverse: int = 0, onesided: int = 0
) -> T1:
    """Discrete Fourier transform along `axis`; the last axis holds real and imaginary parts.

    The signal is truncated or zero-padded to `dft_length`. The inverse is divided by the length. For a real signal
    `onesided` returns the first half of the spectrum; with `inverse` it reconstructs the real signal.

    Shapes: input [*s, 1 or 2], dft_length [], axis [] → [*s with dft_length or its half + 1, 2], or 1 where real.

    Raises:
        ShapeError: the last axis does not have length 1 or 2, or `axis` is the last axis.

    Source: ONNX DFT-20.
    """
    place = -2 if axis is None else int(axis.reshape(-1)[0])
    place = place if place >= 0 else place + input.ndim
    wide = widened(input)
    numbers = wide[..., 0] + 1j * wide[..., 1] if wide.shape[-1] == 2 else wide[..., 0]
    given = input.shape[place]
    default = 2 * (given - 1) if inverse and onesided else given
    length = default if dft_length is None else int(dft_length.reshape(-1)[0])
    return _transformed(numbers, length, place, inverse=inverse, onesided=onesided).astype(input.dtype)


def _transformed(numbers: Tensor, length: int, axis: int, *, inverse: int, onesided: int) -> Tensor:
    if inverse and onesided:
        return np.fft.irfft(numbers, length, axis)[..., None]
    if inverse:
        found: Any = np.fft.ifft(numbers, length, axis)
    else:
        found = np.fft.fft(numbers, length, axis)
        found = np.take(found, range(length // 2 + 1), axis) if onesided else found
    return np.stack((found.real, found.imag), -1)


@viewed
def _stft_shape(op: STFTView[TensorFact]) -> TensorFact:
    if op.signal.rank != 3 or (isinstance(op.signal.dims[2], int) and op.signal.dims[2] not in (1, 2)):
        message = f"signal is {op.signal}"
        raise ShapeError(message, "expected [batch, signal length, 1 (real) or 2 (complex)]")
    batch, total, _ = op.signal.dims
    own = total if op.window is None else op.window.dims[0] if op.window.rank == 1 else OPEN
    length = _scalar_element(op.frame_length, own)
    if op.window is not None and op.window.shape is not None and length is not OPEN:
        length = same_dim(length, own, "frame_length and the window")
    step = _scalar_element(op.frame_step, 1)
    if decide_less(step, 1) or decide_less(length, 1) or decide_less(total, length):
        message = (
            f"frame_length {length}, frame_step {step} and signal length {total}: expected positive values, and "
            "frames within the signal"
        )
        raise ShapeError(message)
    is_open = any(isinstance(n, Symbolic) and n == OPEN for n in (step, length))
    frames = OPEN if is_open else (total - length) // step + 1
    bins = OPEN if length is OPEN else length // 2 + 1 if op.onesided else length
    return op.signal.with_shape((batch, frames, bins, 2))


@op(
    shape=_stft_shape,
    since=17,
    outputs=("output",),
    exactness="accumulation",
    index_operands=("frame_step", "frame_length"),
    ranks={"signal": (2, 3), "frame_step": SCALAR, "window": 1, "frame_length": SCALAR},
)
def STFT(
    signal: T1, frame_step: T2, window: T1 | None = None, frame_length: T2 | None = None, *, onesided: int = 1
) -> T1:
    """Short-time Fourier transform: DFT of frames, multiplied by the window, every `frame_step` samples.

    The frame length is that of the window, or `frame_length`; `onesided` returns the first half of the spectrum.

    Shapes: signal [B, L, 1 or 2], frame_step [], window [F], frame_length [] → [B, (L - F) // step + 1, F // 2 + 1
    or F, 2].

    Raises:
        ShapeError: the operands do not fit each other, or a frame is longer than the signal.

    Source: ONNX STFT-17.
    """
    own = signal.shape[1] if window is None else window.shape[0]
    length = own if frame_length is None else int(frame_length.reshape(-1)[0])
    step = int(frame_step.reshape(-1)[0])
    wide = widened(signal)
    numbers = wide[..., 0] + 1j * wide[..., 1] if wide.shape[-1] == 2 else wide[..., 0]
    frames = np.lib.stride_tricks.sliding_window_view(numbers, length, 1)[:, ::step]
    weighted = frames if window is None else frames * widened(window)
    return _transformed(weighted, length, 2, inverse=0, onesided=onesided).astype(signal.dtype)


def _window_shape(size: TensorFact, *, output_datatype: DType = DType.FLOAT32, periodic: int = 1) -> TensorFact:
    if output_datatype not in NUMBERS_4:
        message = f"output_datatype is {output_datatype}"
        raise ShapeError(message, f"expected {', '.join(sorted(map(str, NUMBERS_4)))}")
    length = _scalar_element(size, OPEN)
    if decide_less(length, 0):
        message = f"the window size is {length}, expected at least 0"
        raise ShapeError(message)
    return TensorFact(output_datatype, (length,))


def _angles(size: Tensor, periodic: int) -> Tensor:
    """Return the angles 2π i / N of a window's elements, with N = size if `periodic`, else size - 1."""
    length = int(size.reshape(-1)[0])
    return 2 * np.pi * np.arange(length) / max(length if periodic else length - 1, 1)


@op(
    shape=_window_shape,
    since=17,
    outputs=("output",),
    index_operands=("size",),
    ranks={"size": SCALAR},
)
def HannWindow(size: Size, *, output_datatype: DType = DType.FLOAT32, periodic: int = 1) -> Window:
    """`(1 - cos(2 π n / N)) / 2`, N = size if `periodic`, else size - 1.  Shapes: size [] → [size].

    Raises:
        ShapeError: the size is negative, or the type is not numeric.

    Source: ONNX HannWindow-17.
    """
    return (0.5 - 0.5 * np.cos(_angles(size, periodic))).astype(output_datatype.numpy)


@op(
    shape=_window_shape,
    since=17,
    outputs=("output",),
    index_operands=("size",),
    ranks={"size": SCALAR},
)
def HammingWindow(size: Size, *, output_datatype: DType = DType.FLOAT32, periodic: int = 1) -> Window:
    """`(25 - 21 cos(2 π n / N)) / 46`, N = size if `periodic`, else size - 1.  Shapes: size [] → [size].

    Raises:
        ShapeError: the size is negative, or the type is not numeric.

    Source: ONNX HammingWindow-17.
    """
    return ((25 - 21 * np.cos(_angles(size, periodic))) / 46).astype(output_datatype.numpy)


@op(
    shape=_window_shape,
    since=17,
    outputs=("output",),
    index_operands=("size",),
    ranks={"size": SCALAR},
)
def BlackmanWindow(size: Size, *, output_datatype: DType = DType.FLOAT32, periodic: int = 1) -> Window:
    """`0.42 - cos(a) / 2 + 0.08 cos(2 a)` with `a = 2 π n / N`, N = size if `periodic`, else size - 1.

    Shapes: size [] → [size].

    Raises:
        ShapeError: the size is negative, or the type is not numeric.

    Source: ONNX BlackmanWindow-17.
    """
    angle = _angles(size, periodic)
    return (0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)).astype(output_datatype.numpy)


@viewed
def _mel_shape(op: MelWeightMatrixView[TensorFact]) -> TensorFact:
    if op.output_datatype not in NUMBERS_4:
        message = f"output_datatype is {op.output_datatype}"
        raise ShapeError(message, f"expected {', '.join(sorted(map(str, NUMBERS_4)))}")
    bins, length = _scalar_element(op.num_mel_bins, OPEN), _scalar_element(op.dft_length, OPEN)
    return TensorFact(op.output_datatype, (OPEN if length is OPEN else length // 2 + 1, maximum(bins, 0)))


@op(
    shape=_mel_shape,
    since=17,
    outputs=("output",),
    index_operands=("num_mel_bins", "dft_length", "sample_rate"),
    ranks={
        "num_mel_bins": SCALAR,
        "dft_length": SCALAR,
        "sample_rate": SCALAR,
        "lower_edge_hertz": SCALAR,
        "upper_edge_hertz": SCALAR,
    },
)
def MelWeightMatrix(
    num_mel_bins: Size,
    dft_length: Size,
    sample_rate: Size,
    lower_edge_hertz: Edge,
    upper_edge_hertz: Edge,
    *,
    output_datatype: DType = DType.FLOAT32,
) -> Mel:
    """Mel filter bank: one triangular filter of height 1 per mel bin.

    `mel(f) = 2595 log10(1 + f / 700)`; the corners of the triangles are equidistant on that scale.

    Shapes: five [] → [dft_length // 2 + 1, num_mel_bins].

    Raises:
        ShapeError: the type is not numeric.
        IndexError: an edge exceeds the frequencies of the transform.

    Source: ONNX MelWeightMatrix-17.
    """
    bins, length, rate = (int(x.reshape(-1)[0]) for x in (num_mel_bins, dft_length, sample_rate))
    low, high = (2595 * np.log10(1 + float(x.reshape(-1)[0]) / 700) for x in (lower_edge_hertz, upper_edge_hertz))
    mels = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    corners = ((length + 1) * 700 * (10 ** (mels / 2595) - 1) // rate).astype(np.int64)
    if corners.min() < 0 or corners.max() > length // 2:
        message = f"corners {corners.min()} to {corners.max()} of {length // 2 + 1} frequencies"
        raise IndexError(message)
    place = np.arange(length // 2 + 1)[:, None]
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    rising = (place - left) / np.maximum(middle - left, 1)
    falling = (right - place) / np.maximum(right - middle, 1)
    weights = np.where((place >= left) & (place <= middle), rising, 0)
    weights = np.where((place >= middle) & (place < right), falling, weights)
    return np.where((middle == left) & (place == middle), 1, weights).astype(output_datatype.numpy)

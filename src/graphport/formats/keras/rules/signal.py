"""Spectrograms of Keras 3: windowed Fourier transforms as convolutions, and their bands on the mel scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import bounded
from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.arithmetic_operations import arctan2
from graphport.formats.keras.rules.binding import Layer, in_compute_type, layer
from graphport.formats.keras.rules.convolution import convolve, filters_first
from graphport.formats.keras.rules.tensors import binary, squeezed, to_channels_first, unsqueezed
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Log, Max, Mul, Pow, Sqrt, Sub
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat
from graphport.ops.definitions.signal import STFT
from graphport.ops.lowering.operands import cast, index, reshaped, sizes, transposed

if TYPE_CHECKING:
    from typing import TypeAlias

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

    Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_EPSILON = 1e-7
"""`keras.backend.epsilon()`."""
_WINDOWS = {"hann": 0.5, "hamming": 0.54}
"""Constant part of the periodic windows `a - (1 - a) cos(2 π n / N)`."""


@layer("STFTSpectrogram", weights="real_kernel:!mode=imag imag_kernel:!mode=real")
def stft_spectrogram(
    at: Layer,
    *,
    mode: str = "log",
    frame_length: int = 256,
    frame_step: int | None = None,
    fft_length: int | None = None,
    window: Any = "hann",
    periodic: bool = False,
    scaling: Any = "density",
    padding: str = "valid",
    expand_dims: bool = False,
    data_format: str | None = None,
) -> Value:
    """One part of the spectrum of each channel, by a convolution with the file's kernels [frame, 1, bins].

    Raises:
        ShapeError: the mode is unknown.
    """
    del fft_length, window, periodic, scaling
    b, x = at.b, to_channels_first(at.b, at.x, data_format)
    (channels,) = sizes(b.dims(x)[1:2], "the channels")
    kernels = [each for each in (at.get("real_kernel"), at.get("imag_kernel")) if each is not None]
    if mode == "stft":
        kernels = [b(Concat, *kernels, axis=2)]
    parts = [_convolved(b, x, each, channels, frame_step or frame_length // 2, padding) for each in kernels]
    match mode:
        case "real" | "imag" | "stft":
            (y,) = parts
        case "angle":
            y = arctan2(b, parts[1], parts[0])
        case "psd" | "magnitude" | "log":
            y = b(Add, *(b(Mul, each, each) for each in parts))
            (bins,) = sizes(b.dims(kernels[0])[2:], "the bins")
            if mode == "psd":
                # The spectrum of a real signal has each frequency but the first and the last one twice.
                twice = [1.0, *[2.0] * (bins - 2), 1.0] * channels
                y = b(Mul, y, cast(b, b.constant(np.array(twice, np.float32)[:, None]), at.dtype))
            else:
                y = b(Sqrt, binary(b, Max, y, _EPSILON))
        case _:
            message = f"mode is {mode!r}"
            raise ShapeError(message, "expected log, magnitude, psd, real, imag, angle or stft")
    if mode == "log":
        y = b(Log, binary(b, Max, y, _EPSILON))
    is_first = data_format == "channels_first"
    if not expand_dims:
        return y if is_first else transposed(b, y, (0, 2, 1))
    (bins,) = sizes(b.dims(y)[1:2], "the bins")
    split = reshaped(b, y, (0, channels, bins // channels, -1))
    return transposed(b, split, (0, 1, 3, 2) if is_first else (0, 3, 2, 1))


def _convolved(b: Builder, x: Value, kernel: Value, channels: int, step: int, padding: str) -> Value:
    """The channels of `x` [N, C, T] convolved with one kernel each: [N, C * bins, frames]."""
    frame, _, bins = sizes(b.dims(kernel), "the kernel")
    bounded((channels, frame, bins))
    w = filters_first(b, kernel)
    w = w if channels == 1 else b(Concat, *[w] * channels, axis=0)
    return convolve(b, x, w, None, strides=(step,), dilations=(1,), padding=padding, groups=channels)


@layer("MelSpectrogram", autocast=False)
def mel_spectrogram(
    at: Layer,
    *,
    fft_length: int = 2048,
    sequence_stride: int = 512,
    sequence_length: int | None = None,
    window: Any = "hann",
    sampling_rate: float = 16000,
    num_mel_bins: int = 128,
    min_freq: float = 20.0,
    max_freq: float | None = None,
    power_to_db: bool = True,
    top_db: float = 80.0,
    mag_exp: float = 2.0,
    min_power: float = 1e-10,
    ref_power: float = 1.0,
    data_format: str | None = None,
) -> Value:
    """Energies of the bands of the mel scale, in decibels on request: [N, T] → [N, bands, frames].

    Raises:
        ShapeError: the signal is not [T] or [N, T].
        UnsupportedError: the window is unknown.
    """
    del data_format
    b, rank = at.b, at.rank
    if rank not in (1, 2):
        message = f"MelSpectrogram of a signal of rank {rank}"
        raise ShapeError(message, "expected [samples] or [batch, samples]")
    kind = DType.FLOAT64 if at.dtype is DType.FLOAT64 else DType.FLOAT32
    x = cast(b, at.x, kind)
    x = unsqueezed(b, x, (0, 2) if rank == 1 else (2,))
    side = fft_length // 2
    x = b(Pad, x, [side, side], None, [1], mode="reflect")
    weights = _padded_window(window, sequence_length or fft_length, fft_length)
    spectra = b(STFT, x, index(b, sequence_stride), _constant(b, weights, kind), onesided=1)
    power = b(ReduceSum, b(Mul, spectra, spectra), [3], keepdims=0)
    if mag_exp != 2:
        power = binary(b, Pow, power, mag_exp / 2)
    limits = (min_freq, max_freq or int(sampling_rate / 2))
    bands = b(MatMul, power, _constant(b, _bands(fft_length // 2 + 1, num_mel_bins, sampling_rate, *limits), kind))
    if power_to_db:
        decibels = binary(b, Mul, b(Log, binary(b, Max, bands, min_power)), 10 / np.log(10))
        decibels = binary(b, Sub, decibels, 10 * float(np.log10(max(abs(ref_power), min_power))))
        bands = b(Max, decibels, binary(b, Sub, b(ReduceMax, decibels, keepdims=0), top_db))
    y = transposed(b, bands, (0, 2, 1))
    return in_compute_type(at, squeezed(b, y, (0,)) if rank == 1 else y)


def _constant(b: Builder, numbers: Numbers, kind: DType) -> Value:
    return b.constant(numbers.astype(kind.numpy))


def _padded_window(window: Any, length: int, whole: int) -> Numbers:
    """The weights of a frame, with zeros on both sides up to the length of the transform."""
    if not 1 <= length <= whole:
        message = f"sequence_length {length} and fft_length {whole}"
        raise ShapeError(message, "expected 1 <= sequence_length <= fft_length")
    bounded((whole,))
    if window is None:
        weights = np.ones(length)
    elif isinstance(window, str) and window in _WINDOWS:
        a = _WINDOWS[window]
        weights = a - (1 - a) * np.cos(2 * np.pi * np.arange(length) / length)
    elif is_sequence(window) and len(window) == length and all(isinstance(each, int | float) for each in window):
        weights = np.array(list(window), np.float64)
    else:
        message = f"the window {window!r:.40}"
        raise UnsupportedError(message)
    before = (whole - length) // 2
    return np.pad(weights, (before, whole - length - before))


def _bands(bins: int, bands: int, rate: float, low: float, high: float) -> Numbers:
    """Weight of each frequency in each triangle between neighbors on the mel scale; the first frequency has none."""
    if min(bins - 1, bands, rate) < 1 or not 0 <= low < high:
        message = f"{bands} mel bands from {low} to {high} Hz for {bins} frequencies at {rate} Hz"
        raise ShapeError(message, "expected positive counts and rate, and 0 <= min_freq < max_freq")
    bounded((bins, bands))
    mels = 1127 * np.log1p(np.linspace(0, rate / 2, bins) / 700)[:, None]
    edges = np.linspace(1127 * np.log1p(low / 700), 1127 * np.log1p(high / 700), bands + 2)
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    weights = np.maximum(0, np.minimum(rising, falling))
    weights[0] = 0
    return weights

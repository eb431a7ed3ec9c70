"""Spectra in TFLite by products with cosines and sines; complex values have no canonical form, their parts do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import bounded
from graphport.core.flexbuffers import FlexBufferError, read_numbers
from graphport.formats.tflite.rules.binding import Operator, import_rule
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Log, Max, Mul, Sqrt, Sub
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.padding import Pad
from graphport.ops.lowering.operands import needed, needed_integer, sizes, transposed

if TYPE_CHECKING:
    from typing import TypeAlias

    from graphport.core.flexbuffers import Number
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

    Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

REAL, IMAG, MAGNITUDE = "real", "imag", "magnitude"
"""Values of the `part` attribute of `RFFT2D`: the only used part of the complex spectrum."""
_MIN_POWER = 1e-12


def _waves(rows: int, length: int, columns: int) -> tuple[Numbers, Numbers]:
    """Return cosine and sine matrices [samples, frequencies] of a transform length."""
    bounded((rows, columns))
    angles = 2 * np.pi / length * (np.outer(np.arange(rows), np.arange(columns)) % length)
    return np.cos(angles), np.sin(angles)


def _matrix(b: Builder, read_numbers: Numbers) -> Value:
    return b.constant(read_numbers.astype(np.float32))


@import_rule("RFFT2D", is_raw=True)
def rfft2d(op: Operator) -> Value:
    """RFFT2D: one part of the spectrum of reals along the last two axes, cropped or zero-padded to the FFT lengths."""
    b, part = op.b, op.option("part", "")
    if part not in (REAL, IMAG, MAGNITUDE):
        message = "complex values are not supported, except REAL, IMAG and COMPLEX_ABS of a spectrum"
        raise UnsupportedError(message)
    lengths = needed(op.raw(1), "the lengths of a transform")
    if len(lengths) != 2 or min(lengths) < 1 or len(op.dims(0)) < 2:
        message = f"FFT lengths {list(lengths)} for an operand of rank {len(op.dims(0))}"
        raise ShapeError(message, "expected two positive lengths and rank 2 or more")
    tall, wide = lengths
    x = _crop_or_pad(b, op.raw(0), (tall, wide))
    cosines, sines = _waves(wide, wide, wide // 2 + 1)
    real, imag = b(MatMul, x, _matrix(b, cosines)), b(MatMul, x, _matrix(b, -sines))
    if tall > 1:
        down, across = (_matrix(b, each) for each in _waves(tall, tall, tall))
        real, imag = (
            b(Add, b(MatMul, down, real), b(MatMul, across, imag)),
            b(Sub, b(MatMul, down, imag), b(MatMul, across, real)),
        )
    if part == MAGNITUDE:
        return b(Sqrt, b(Add, b(Mul, real, real), b(Mul, imag, imag)))
    return real if part == REAL else imag


def _crop_or_pad(b: Builder, x: Value, lengths: tuple[int, int]) -> Value:
    dims = sizes(b.dims(x)[-2:], "the transformed tensor")
    rank = len(b.dims(x))
    kept = [min(n, m) for n, m in zip(dims, lengths, strict=True)]
    if tuple(kept) != dims:
        x = b(Slice, x, [0, 0], kept, [rank - 2, rank - 1])
    more = [m - n for n, m in zip(kept, lengths, strict=True)]
    return b(Pad, x, [0] * (2 * rank - 2) + more) if any(more) else x


def _options(op: Operator) -> dict[str, Number]:
    try:
        return read_numbers(bytes(op.option("custom_options", b"")))
    except FlexBufferError as error:
        message = f"custom_options: {error}"
        raise ShapeError(message, "custom_options must be a FlexBuffer map from names to scalars") from error


@import_rule("custom.AudioSpectrogram")
def audio_spectrogram(op: Operator) -> Value:
    """AUDIO_SPECTROGRAM: magnitudes of Hann-windowed spectra of samples [n, channels]: [channels, m, bins]."""
    b, options = op.b, _options(op)
    count, _ = sizes(op.dims(0, 2), "samples")
    window, stride = int(options.get("window_size", 0)), int(options.get("stride", 0))
    if window < 2 or stride < 1 or window > count:
        message = f"window_size {window} and stride {stride} for {count} samples"
        raise ShapeError(message, "expected a window from 2 to the number of samples, and a positive stride")
    length = 1 << (window - 1).bit_length()
    starts = np.arange(0, count - window + 1, stride)
    bounded((len(starts), window))
    indices = starts[:, None] + np.arange(window)
    frames = b(Gather, transposed(b, op[0], (1, 0)), b.constant(indices.astype(np.int64)), axis=1)
    bell = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    parts = [b(MatMul, frames, _matrix(b, bell[:, None] * each)) for each in _waves(window, length, length // 2 + 1)]
    power = b(Add, *[b(Mul, each, each) for each in parts])
    return power if options.get("magnitude_squared", False) else b(Sqrt, power)


@import_rule("custom.Mfcc")
def mfcc(op: Operator) -> Value:
    """MFCC: cosine transform of the log mel energies of spectra [channels, m, bins]; operand 1 is the sample rate."""
    b, options = op.b, _options(op)
    (bins,) = sizes(op.dims(0, at_least=1)[-1:], "the frequencies")
    rate = needed_integer(op.raw(1), "the sample rate")
    count, kept = int(options.get("filterbank_channel_count", 40)), int(options.get("dct_coefficient_count", 13))
    low, high = (
        float(options.get(f"{name}_frequency_limit", limit)) for name, limit in (("lower", 20), ("upper", 4000))
    )
    if min(bins - 1, rate, count, kept) < 1 or not 0 <= low < high:
        message = f"{count} mel bands from {low} to {high} Hz and {kept} coefficients for {bins} bins at {rate} Hz"
        raise ShapeError(
            message, "expected positive counts and rate, 2 bins or more, and 0 <= lower limit < upper limit"
        )
    bands = b(MatMul, b(Sqrt, op[0]), _matrix(b, _bands(bins, rate, count, low, high)))
    logs = b(Log, b(Max, bands, _MIN_POWER))
    angles = np.pi / count * np.outer(np.arange(bounded((count, kept))[0]) + 0.5, np.arange(kept))
    return b(MatMul, logs, _matrix(b, np.sqrt(2 / count) * np.cos(angles)))


def _bands(bins: int, rate: int, count: int, low: float, high: float) -> Numbers:
    """Weight of each frequency bin in each triangular mel band: [bins, count]."""
    shares = np.zeros(bounded((bins, count)))
    step = 0.5 * rate / (bins - 1)
    first, last = _mel(low), _mel(high)
    centres = first + (last - first) / (count + 1) * np.arange(1, count + 2)
    for place in range(int(1.5 + low / step), min(int(high / step), bins - 1) + 1):
        mel = _mel(place * step)
        above = min(int(np.searchsorted(centres[:count], mel)), count)
        before = first if not above else centres[above - 1]
        share = (centres[above] - mel) / (centres[above] - before)
        if above:
            shares[place, above - 1] += share
        if above < count:
            shares[place, above] += 1 - share
    return shares


def _mel(hertz: float) -> float:
    return float(1127 * np.log1p(hertz / 700))


# Deviation of the first coefficient.
RULES.lower("custom.NumericVerify(x, expected) -> Sub(x, expected)")

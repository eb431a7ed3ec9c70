"""Fourier transforms of TensorFlow; a complex tensor is a pair of its real and imaginary part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.tensorflow.rules.binding import operator
from graphport.ops.definitions.arithmetic import Add, Div, Neg, Sub
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.reshape import Concat, Unsqueeze
from graphport.ops.definitions.signal import DFT
from graphport.ops.lowering.operands import as_int64, as_scalar, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _join_complex(b: Builder, *parts: Value) -> Value:
    """The parts of a complex tensor along a new last axis."""
    wide = [b(Unsqueeze, each, [-1]) for each in parts]
    return wide[0] if len(wide) == 1 else b(Concat, *wide, axis=-1)


def _split_complex(b: Builder, x: Value) -> list[Value]:
    return [b(Gather, x, part, axis=-1) for part in (0, 1)]


def _transformed(b: Builder, x: Value, axis: int, length: Value | None = None, **options: int) -> Value:
    """A transform along an axis, counted from the end without the axis of parts."""
    place = len(b.dims(x)) - 1 + axis
    return b(DFT, x, length, place, **{name: value or None for name, value in options.items()})


def _length(b: Builder, lengths: Value, place: int) -> Value:
    return as_scalar(b, b(Slice, as_int64(b, lengths), [place], [place + 1]))


def _register(suffix: str, rank: int) -> None:
    """Register the transforms of the last `rank` axes."""

    @operator(f"FFT{suffix}")
    def fft(b: Builder, real: Value, imag: Value) -> list[Value]:
        """The spectrum of a complex tensor."""
        return _complex(b, real, imag, inverse=0)

    @operator(f"IFFT{suffix}")
    def ifft(b: Builder, real: Value, imag: Value) -> list[Value]:
        """The complex tensor of a spectrum."""
        return _complex(b, real, imag, inverse=1)

    def _complex(b: Builder, real: Value, imag: Value, inverse: int) -> list[Value]:
        x = _join_complex(b, real, imag)
        for axis in range(-1, -rank - 1, -1):
            x = _transformed(b, x, axis, inverse=inverse)
        return _split_complex(b, x)

    @operator(f"RFFT{suffix}")
    def rfft(b: Builder, x: Value, lengths: Value) -> list[Value]:
        """The first half of the spectrum of a real tensor, cropped or padded with zeros to the lengths."""
        y = _transformed(b, _join_complex(b, x), -1, _length(b, lengths, rank - 1), onesided=1)
        for axis in range(-2, -rank - 1, -1):
            y = _transformed(b, y, axis, _length(b, lengths, rank + axis))
        return _split_complex(b, y)

    @operator(f"IRFFT{suffix}")
    def irfft(b: Builder, real: Value, imag: Value, lengths: Value) -> Value:
        """The real tensor of the first half of its spectrum."""
        x = _join_complex(b, real, imag)
        for axis in range(-rank, -1):
            x = _transformed(b, x, axis, _length(b, lengths, rank + axis), inverse=1)
        length = _length(b, lengths, rank - 1)
        whole = _transformed(b, _two_sided_spectrum(b, x, length), -1, inverse=1)
        return _split_complex(b, whole)[0]

    del fft, ifft, rfft, irfft


def _two_sided_spectrum(b: Builder, x: Value, length: Value) -> Value:
    """The two-sided spectrum of a real tensor from its one-sided spectrum: negative frequencies are conjugate."""
    place = len(b.dims(x)) - 2
    axes, zero, one = vector(b, [place]), vector(b, [0]), vector(b, [1])
    count = b(Unsqueeze, length, zero)
    kept = b(Add, b(Div, count, [2]), one)
    # Cropped or padded with zeros to the frequencies that a tensor of this length has.
    padded = b(Pad, x, b(Concat, zero, kept, axis=0), None, axes)
    first = b(Slice, padded, zero, kept, axes)
    end = b(Sub, count, kept)
    mirrored = b(Slice, first, end, zero, axes, [-1])
    real, imag = _split_complex(b, mirrored)
    return b(Concat, first, _join_complex(b, real, b(Neg, imag)), axis=place)


for _suffix, _rank in (("", 1), ("2D", 2), ("3D", 3)):
    _register(_suffix, _rank)

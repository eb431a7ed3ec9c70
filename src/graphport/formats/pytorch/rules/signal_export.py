"""Export rules of signals to ATen."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN
from graphport.formats.pytorch.rules.emitting import (
    DIALECT,
    EXPORT,
    Size,
    aten,
    combined,
    element_of,
    size_of,
    with_fact,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.operands import cast, dtype_of, integers
from graphport.ops.views.signal import DFTView, STFTView

_COMPLEX = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}


@DFTView.export_rule(DIALECT)
def export_dft(b: Builder, op: DFTView) -> Value:
    """Export DFT by torch's Fourier transforms; the last axis holds real and imaginary part."""
    rank = len(b.dims(op.input))
    own = dtype_of(op.input)
    wide = own if own in _COMPLEX else DType.FLOAT32
    axis = (rank - 2) if op.axis is None else _axis(b, op.axis, rank)
    length = None if op.dft_length is None else element_of(b, op.dft_length)
    x = cast(b, op.input, wide)
    is_real = b.dims(x)[-1] == 1
    if op.inverse and op.onesided:
        y = with_fact(aten(b, "fft_irfft", _complex(b, x), length, axis), wide, (OPEN,) * (rank - 1))
        return cast(b, aten(b, "unsqueeze", y, -1), own)
    name = "fft_ifft" if op.inverse else "fft_rfft" if op.onesided else "fft_fft"
    signal = aten(b, "select.int", x, -1, 0) if is_real or op.onesided else _complex(b, x)
    spectrum = with_fact(aten(b, name, signal, length, axis), _COMPLEX[wide], (OPEN,) * (rank - 1))
    return cast(b, with_fact(aten(b, "view_as_real", spectrum), wide, (*(OPEN,) * (rank - 1), 2)), own)


def _axis(b: Builder, axis: Value, rank: int) -> Size:
    known = integers(axis)
    if known is not None:
        return known[0] % rank
    found = element_of(b, aten(b, "remainder.Scalar", axis, rank))
    return found if isinstance(found, Value) else int(found)


def _complex(b: Builder, x: Value) -> Value:
    """Convert a tensor with a last axis of 2 or 1 to a complex tensor; with 1, the imaginary part is 0."""
    dims, wide = b.dims(x), dtype_of(x)
    pairs = x
    if dims[-1] == 1:
        pairs = with_fact(aten(b, "constant_pad_nd", x, (0, 1), 0.0), wide, (*dims[:-1], 2))
    dense = with_fact(aten(b, "contiguous", pairs), wide, (*dims[:-1], 2))
    return with_fact(aten(b, "view_as_complex", dense), _COMPLEX[wide], dims[:-1])


@STFTView.export_rule(DIALECT)
def export_stft(b: Builder, op: STFTView) -> Value:
    """Export STFT: Fourier transforms of overlapping frames."""
    own = dtype_of(op.signal)
    wide = own if own in _COMPLEX else DType.FLOAT32
    batch, _, parts = b.dims(op.signal, 3)
    x = cast(b, op.signal, wide)
    if op.frame_length is not None:
        length = element_of(b, op.frame_length)
    elif op.window is not None:
        length = size_of(b, op.window, 0)
    else:
        message = "frame_length is missing"
        raise UnsupportedError(message)
    is_real = parts == 1
    signal = aten(b, "select.int", x, -1, 0) if is_real else _complex(b, x)
    kind = wide if is_real else _COMPLEX[wide]
    frames = with_fact(aten(b, "unfold", signal, 1, length, element_of(b, op.frame_step)), kind, (batch, OPEN, OPEN))
    if op.window is not None:
        frames = with_fact(aten(b, "mul.Tensor", frames, cast(b, op.window, wide)), kind, (batch, OPEN, OPEN))
    name = "fft_rfft" if op.onesided and is_real else "fft_fft"
    spectrum = with_fact(aten(b, name, frames), _COMPLEX[wide], (batch, OPEN, OPEN))
    return cast(b, with_fact(aten(b, "view_as_real", spectrum), wide, (batch, OPEN, OPEN, 2)), own)


def _sum_of_cosines(b: Builder, size: Value, factors: Sequence[float], periodic: int, dtype: DType) -> Value:
    """Sum of cosines of multiples of the angle, in float64."""
    count = element_of(b, size)
    steps = aten(b, "arange.start_step", 0, count, 1, dtype=DType.FLOAT64)
    if isinstance(count, Value):
        whole = count if periodic else combined(b, "max", combined(b, "sub", count, 1), 1)
        turns = aten(b, "div.Tensor", steps, aten(b, "full", (), whole, dtype=DType.FLOAT64))
    else:
        turns = aten(b, "div.Tensor", steps, float(count if periodic else max(count - 1, 1)))
    angle = aten(b, "mul.Tensor", turns, 2 * math.pi)
    total = aten(b, "full_like", angle, factors[0])
    for times, factor in enumerate(factors[1:], 1):
        part = aten(b, "cos", aten(b, "mul.Tensor", angle, float(times)))
        total = aten(b, "add.Tensor", total, aten(b, "mul.Tensor", part, factor))
    return cast(b, total, dtype)


EXPORT.having(cosines=_sum_of_cosines).export_rules("""
HannWindow -> cosines(size, [0.5, -0.5], periodic, output_datatype)
HammingWindow -> cosines(size, [25 / 46, -21 / 46], periodic, output_datatype)
BlackmanWindow -> cosines(size, [0.42, -0.5, 0.08], periodic, output_datatype)
""")

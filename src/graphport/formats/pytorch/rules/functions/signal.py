"""Fourier transforms of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce, wraps
from math import sqrt
from typing import Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    axes_of,
    axis_of,
    bounded,
    called,
    emits,
    integers,
    length,
    scalar_of,
    static,
    weight_of,
)
from graphport.formats.pytorch.rules.functions.indexing_slices import roll
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.formats.pytorch.rules.functions.signal_pairs import (
    Pair,
    Part,
    conjugate,
    pairs,
    scaled,
    split_complex,
    stacked,
)
from graphport.formats.pytorch.rules.promotion import floating
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sub
from graphport.ops.definitions.convolution import ConvTranspose
from graphport.ops.definitions.reshape import Reshape, Squeeze, Transpose, Unsqueeze
from graphport.ops.definitions.signal import DFT, STFT
from graphport.ops.lowering.operands import dtype_of, vector
from graphport.ops.views.signal import DFTView, STFTView

# ── Fourier transforms ────────────────────────────────────────────────────────────────────────────────────────────────


def _factor(norm: str | None, count: int, *, inverse: bool) -> float:
    """Return the factor that converts ONNX's DFT normalization (1 / n for the inverse) to `norm`."""
    if norm in (None, "backward"):
        return 1.0
    if norm == "ortho":
        return sqrt(count) if inverse else 1 / sqrt(count)
    if norm == "forward":
        return float(count) if inverse else 1.0 / count
    message = f"unsupported norm {norm}"
    raise UnsupportedError(message)


def _transformed(b: Builder, x: Part, axis: int, count: int, *, inverse: bool = False, onesided: bool = False) -> Pair:
    """DFT along a non-negative axis with length `count`."""
    numbers = stacked(b, x) if isinstance(x, Pair) else b(Unsqueeze, floating(b, x), [-1])
    size, place = b.constant(np.int64(count)), b.constant(np.int64(axis))
    y = b(DFT, numbers, size, place, inverse=int(inverse) or None, onesided=int(onesided) or None)
    return split_complex(b, y)


def dims_of(b: Builder, x: Part) -> tuple[Any, ...]:
    """Return the shape of a real or complex tensor."""
    return b.dims(x.real if isinstance(x, Pair) else x)


def _transform_axis(
    b: Builder, x: Part, n: Any, dim: Any, norm: str | None, *, inverse: bool, onesided: bool = False
) -> Pair:
    axis = axis_of(int(scalar_of(dim)), len(dims_of(b, x)))
    count = length(dims_of(b, x), axis) if n is None else int(scalar_of(n))
    found = _transformed(b, x, axis, count, inverse=inverse, onesided=onesided)
    factor = _factor(norm, count, inverse=inverse)
    return found if factor == 1 else scaled(b, found, b.like(found.real, factor))


@pairs("torch.fft.fft", "aten::fft_fft")
def fft(b: Builder, input: Part, n: Any = None, dim: Any = -1, norm: str | None = None) -> Pair:
    return _transform_axis(b, input, n, dim, norm, inverse=False)


@pairs("torch.fft.ifft", "aten::fft_ifft")
def ifft(b: Builder, input: Part, n: Any = None, dim: Any = -1, norm: str | None = None) -> Pair:
    return _transform_axis(b, input, n, dim, norm, inverse=True)


@pairs("torch.fft.rfft", "aten::fft_rfft")
def rfft(b: Builder, input: Value, n: Any = None, dim: Any = -1, norm: str | None = None) -> Pair:
    return _transform_axis(b, input, n, dim, norm, inverse=False, onesided=True)


@emits("torch.fft.irfft", "aten::fft_irfft")
@pairs("torch.fft.irfft", "aten::fft_irfft")
def irfft(b: Builder, input: Part, n: Any = None, dim: Any = -1, norm: str | None = None) -> Value:
    """Inverse DFT of a one-sided spectrum, extended by conjugate symmetry."""
    axis = axis_of(int(scalar_of(dim)), len(dims_of(b, input)))
    half = length(dims_of(b, input), axis)
    count = 2 * (half - 1) if n is None else int(scalar_of(n))
    wide = input if isinstance(input, Pair) else Pair(input, b(Mul, input, 0))
    whole = _mirrored(b, wide, axis, half, count)
    found = _transformed(b, whole, axis, count, inverse=True).real
    factor = _factor(norm, count, inverse=True)
    return found if factor == 1 else b(Mul, found, b.like(found, factor))


def _mirrored(b: Builder, x: Pair, axis: int, half: int, count: int) -> Pair:
    """Extend the one-sided spectrum of a real signal to `count` elements."""
    wanted = count // 2 + 1
    if half < wanted:
        pads = [(0, 0)] * (len(b.dims(x.real)) - 1 - axis)
        behind = [(0, wanted - half), *pads]
        x = Pair(*(padded(b, part, behind, "constant", 0.0) for part in (x.real, x.imaginary)))
    bounded(count)
    indices = np.array([k if k < wanted else count - k for k in range(count)], np.int64)
    signs = np.array([1.0 if k < wanted else -1.0 for k in range(count)])
    # The spectrum of a real signal is real at index 0, and at n / 2 for even n.
    signs[0] = 0.0
    if count % 2 == 0:
        signs[count // 2] = 0.0
    order, factors = b.constant(indices), signs.reshape(-1, *[1] * (len(b.dims(x.real)) - 1 - axis))
    gather = registry.op_defs()["Gather"]
    mirrored = Pair(*(b(gather, part, order, axis=axis) for part in (x.real, x.imaginary)))
    return Pair(mirrored.real, b(Mul, mirrored.imaginary, b.like(mirrored.imaginary, factors)))


@emits("torch.fft.hfft", "aten::fft_hfft")
@pairs("torch.fft.hfft", "aten::fft_hfft")
def hfft(b: Builder, input: Part, n: Any = None, dim: Any = -1, norm: str | None = None) -> Value:
    opposite = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    return irfft(b, conjugate(b, input), n, dim, opposite)


@pairs("torch.fft.ihfft", "aten::fft_ihfft")
def ihfft(b: Builder, input: Value, n: Any = None, dim: Any = -1, norm: str | None = None) -> Part:
    opposite = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
    return conjugate(b, rfft(b, input, n, dim, opposite))


def _plan(b: Builder, x: Part, s: Any, dim: Any) -> list[tuple[int, Any]]:
    """Return pairs of transformed axis and signal length `s`; the length is `None` if the axis keeps its size."""
    rank = len(dims_of(b, x))
    sizes = None if s is None else integers(s)
    axes = axes_of(dim, rank) if dim is not None or sizes is None else tuple(range(rank - len(sizes), rank))
    return list(zip(axes, sizes or [None] * len(axes), strict=True))


def _transform_axes(b: Builder, x: Part, plan: Sequence[tuple[int, Any]], norm: str | None, *, inverse: bool) -> Part:
    return reduce(lambda y, step: _transform_axis(b, y, step[1], step[0], norm, inverse=inverse), plan, x)


@pairs("torch.fft.fftn", "aten::fft_fftn")
def fftn(b: Builder, input: Part, s: Any = None, dim: Any = None, norm: str | None = None) -> Part:
    return _transform_axes(b, input, _plan(b, input, s, dim), norm, inverse=False)


@pairs("torch.fft.ifftn", "aten::fft_ifftn")
def ifftn(b: Builder, input: Part, s: Any = None, dim: Any = None, norm: str | None = None) -> Part:
    return _transform_axes(b, input, _plan(b, input, s, dim), norm, inverse=True)


@pairs("torch.fft.rfftn", "aten::fft_rfftn")
def rfftn(b: Builder, input: Value, s: Any = None, dim: Any = None, norm: str | None = None) -> Part:
    *rest, (axis, size) = _plan(b, input, s, dim)
    return _transform_axes(b, rfft(b, input, size, axis, norm), rest, norm, inverse=False)


@emits("torch.fft.irfftn", "aten::fft_irfftn")
@pairs("torch.fft.irfftn", "aten::fft_irfftn")
def irfftn(b: Builder, input: Part, s: Any = None, dim: Any = None, norm: str | None = None) -> Value:
    *rest, (axis, size) = _plan(b, input, s, dim)
    return irfft(b, _transform_axes(b, input, rest, norm, inverse=True), size, axis, norm)


_PLANE = (-2, -1)


@pairs("torch.fft.fft2", "aten::fft_fft2")
def fft2(b: Builder, input: Part, s: Any = None, dim: Any = _PLANE, norm: str | None = None) -> Part:
    return fftn(b, input, s, dim, norm)


@pairs("torch.fft.ifft2", "aten::fft_ifft2")
def ifft2(b: Builder, input: Part, s: Any = None, dim: Any = _PLANE, norm: str | None = None) -> Part:
    return ifftn(b, input, s, dim, norm)


@pairs("torch.fft.rfft2", "aten::fft_rfft2")
def rfft2(b: Builder, input: Value, s: Any = None, dim: Any = _PLANE, norm: str | None = None) -> Part:
    return rfftn(b, input, s, dim, norm)


@emits("torch.fft.irfft2", "aten::fft_irfft2")
@pairs("torch.fft.irfft2", "aten::fft_irfft2")
def irfft2(b: Builder, input: Part, s: Any = None, dim: Any = _PLANE, norm: str | None = None) -> Value:
    return irfftn(b, input, s, dim, norm)


def _shifted(b: Builder, x: Value, dim: Any, *, inverse: bool) -> Value:
    """fftshift or its inverse along axes."""
    dims = b.dims(x)
    axes = axes_of(dim, len(dims))
    lengths = [length(dims, axis) for axis in axes]
    return roll(b, x, [-(n // 2) if inverse else n // 2 for n in lengths], list(axes))


@emits("torch.fft.fftshift", "aten::fft_fftshift")
def fftshift(b: Builder, input: Value, dim: Any = None) -> Value:
    return _shifted(b, input, dim, inverse=False)


@emits("torch.fft.ifftshift", "aten::fft_ifftshift")
def ifftshift(b: Builder, input: Value, dim: Any = None) -> Value:
    return _shifted(b, input, dim, inverse=True)


# ── short transforms ──────────────────────────────────────────────────────────────────────────────────────────────────


def _windowed(b: Builder, x: Value, window: Value | None, size: int, width: Any) -> Value:
    """Return the window, centered and zero-padded to `size`."""
    count = size if width is None else int(scalar_of(width))
    found = b.like(x, np.ones(bounded(count))) if window is None else window
    missing = size - count
    return found if not missing else padded(b, found, [(missing // 2, missing - missing // 2)], "constant", 0.0)


def _frames(
    b: Builder,
    input: Value,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Value | None = None,
    center: Any = True,
    pad_mode: str = "reflect",
    normalized: Any = False,
    onesided: Any = None,
    return_complex: Any = None,
    align_to_window: Any = None,
) -> Value:
    """Short-time Fourier transform: [batch, frequencies, frames, 2]."""
    del return_complex
    size = int(scalar_of(n_fft))
    step = size // 4 if hop_length is None else int(scalar_of(hop_length))
    if align_to_window:
        message = "align_to_window=True"
        raise UnsupportedError(message)
    is_alone = len(b.dims(input)) == 1
    x = b(Unsqueeze, input, [0]) if is_alone else input
    if scalar_of(center):
        x = padded(b, x, [(size // 2, size // 2)], pad_mode)
    is_half = onesided is None or bool(scalar_of(onesided))
    shape = _windowed(b, x, window, size, win_length)
    signal = b(Unsqueeze, x, [-1])
    y = b(STFT, signal, step, shape, size, onesided=int(is_half))
    y = b(Transpose, y, perm=(0, 2, 1, 3))
    if scalar_of(normalized):
        y = b(Mul, y, b.like(y, 1 / sqrt(size)))
    return b(Squeeze, y, [0]) if is_alone else y


emits("torch.stft", "aten::stft")(_frames)


@wraps(_frames)
def _complex_frames(b: Builder, input: Part, **arguments: Any) -> Pair:
    """STFT of a complex signal: frames of its real part plus i times those of its imaginary part."""
    if isinstance(input, Value):
        return split_complex(b, _frames(b, input, **arguments))
    whole: dict[str, Any] = {**arguments, "onesided": False}
    x, y = (split_complex(b, _frames(b, part, **whole)) for part in (input.real, input.imaginary))
    return Pair(b(Sub, x.real, y.imaginary), b(Add, x.imaginary, y.real))


pairs("torch.stft", "aten::stft")(_complex_frames)


@pairs("torch.istft", "aten::istft")
def istft(
    b: Builder,
    input: Pair,
    n_fft: Any,
    hop_length: Any = None,
    win_length: Any = None,
    window: Value | None = None,
    center: Any = True,
    normalized: Any = False,
    onesided: Any = None,
    length: Any = None,
    return_complex: Any = False,
) -> Value:
    """Inverse STFT: overlap-add of windowed inverse transforms, divided by the summed squared windows."""
    size = int(scalar_of(n_fft))
    bounded(size * size)
    step = size // 4 if hop_length is None else int(scalar_of(hop_length))
    if scalar_of(return_complex) or (onesided is not None and not scalar_of(onesided)) or len(b.dims(input.real)) != 3:
        message = "istft with return_complex=True, onesided=False or without a batch"
        raise UnsupportedError(message)
    shape = _windowed(b, input.real, window, size, win_length)
    known = weight_of(shape)
    if known is None:
        message = "the window is not constant"
        raise UnsupportedError(message)
    frames = irfft(b, input, size, 1)
    if scalar_of(normalized):
        frames = b(Mul, frames, b.like(frames, sqrt(size)))
    weighted = b(Mul, frames, b(Reshape, shape, [-1, 1]))
    reserve(size, size)
    kernel_ = b.like(frames, np.eye(size).reshape(size, 1, size))
    added = b(Squeeze, b(ConvTranspose, weighted, kernel_, strides=(step,)), [1])
    return _evened(b, added, known.numpy(), step, is_centered=bool(scalar_of(center)), length=length)


def _evened(b: Builder, x: Value, window: Any, step: int, *, is_centered: bool, length: Any) -> Value:
    """Divide the overlap-added frames by the summed squared windows, and crop the padding."""
    total = b.dims(x, at_least=2)[1]
    if not isinstance(total, int):
        message = "the number of frames is not constant"
        raise UnsupportedError(message)
    sums = np.zeros(bounded(total))
    for start in range(0, total - len(window) + 1, step):
        sums[start : start + len(window)] += window.astype(np.float64) ** 2
    begin = len(window) // 2 if is_centered else 0
    end = begin + int(scalar_of(length)) if length is not None else total - begin
    piece = registry.op_defs()["Slice"]
    kept = b(piece, x, vector(b, [begin]), vector(b, [min(end, total)]), vector(b, [1]))
    y = b(Div, kept, b.like(kept, np.maximum(sums[begin : min(end, total)], 1e-11)))
    return y if end <= total else padded(b, y, [(0, end - total)], "constant", 0.0)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@DFTView.export_rule(DIALECT)
def export_dft(b: Builder, op: DFTView) -> Value | None:
    """Export DFT between view_as_complex and view_as_real."""
    dims = b.dims(op.input)
    place = -2 if op.axis is None else next(iter(static(op.axis) or ()), None)
    count = None if op.dft_length is None else next(iter(static(op.dft_length) or ()), 0)
    if place is None or count == 0 or dtype_of(op.input) is not DType.FLOAT32 or (op.inverse and op.onesided):
        return None
    rank = len(dims) - 1
    dim = place % (rank + 1)
    whole = TensorFact(DType.COMPLEX64, dims[:-1])
    if dims[-1] == 2 and not op.onesided:
        x = called(b, "torch.view_as_complex", whole, input=op.input)
        op_type = "torch.fft.ifft" if op.inverse else "torch.fft.fft"
    elif dims[-1] == 1 and not op.inverse:
        x = called(b, "torch.squeeze", TensorFact(DType.FLOAT32, dims[:-1]), input=op.input, dim=rank)
        op_type = "torch.fft.rfft" if op.onesided else "torch.fft.fft"
    else:
        return None
    extent = count if count is not None else dims[dim]
    if not isinstance(extent, int):
        return None
    made = extent // 2 + 1 if op.onesided else extent
    fact = TensorFact(DType.COMPLEX64, (*dims[:dim], made, *dims[dim + 1 : -1]))
    y = called(b, op_type, fact, input=x, n_=count, dim=dim, norm_=None)
    return called(b, "torch.view_as_real", input=y)


@STFTView.export_rule(DIALECT)
def export_stft(b: Builder, op: STFTView) -> Value | None:
    """Export STFT of real signals; PyTorch puts frequencies before frames."""
    dims = b.dims(op.signal)
    step = next(iter(static(op.frame_step) or ()), None)
    width = None if op.window is None else b.dims(op.window, at_least=1)[0]
    size = width if op.frame_length is None else next(iter(static(op.frame_length) or ()), None)
    if len(dims) != 3 or dims[2] != 1 or not isinstance(size, int) or step is None or width not in (None, size):
        return None
    own = dtype_of(op.signal)
    x = called(b, "torch.squeeze", TensorFact(own, dims[:2]), input=op.signal, dim=2)
    made = size // 2 + 1 if op.onesided else size
    frames = (dims[1] - size) // step + 1
    y = called(
        b,
        "torch.stft",
        TensorFact(own, (dims[0], made, frames, 2)),
        input=x,
        window=op.window,
        center=False,
        hop_length=step,
        n_fft=size,
        normalized=False,
        onesided=bool(op.onesided),
        return_complex=False,
        win_length=size,
    )
    return called(b, "Tensor.permute", input=y, dims=(0, 2, 1, 3))

"""Fourier transforms as products with matrices of sines and cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import reserve
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Mul
from graphport.ops.definitions.convolution import Conv
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reshape import Reshape, Transpose
from graphport.ops.definitions.signal import DFT
from graphport.ops.lowering.operands import integers, sizes, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.views.signal import DFTView, STFTView

MAX_MATRIX_ELEMENTS = 1 << 22
"""The maximum number of elements of the matrix, which is length squared."""


def dft_by_matrix(b: Builder, op: DFTView) -> tuple[Value, ...]:
    """Compute a DFT as the product of the axis (with real and imaginary parts joined) and the DFT matrix."""
    dims = sizes(b.dims(op.input), "the shape of the signal")
    place = (-2,) if op.axis is None else integers(op.axis)
    length = () if op.dft_length is None else integers(op.dft_length)
    if place is None or length is None:
        message = "the axis and the length must be constant"
        raise UnsupportedError(message)
    at, rank = place[0] % len(dims), len(dims)
    n, parts = dims[at], dims[-1]
    wanted = None if not length else np.array(length[0])
    if (n * parts) ** 2 > MAX_MATRIX_ELEMENTS or (length and (n * parts) * 2 * length[0] > MAX_MATRIX_ELEMENTS):
        message = f"a matrix for {n} entries would be too large"
        raise UnsupportedError(message)
    units = np.eye(n * parts).reshape(n * parts, n, parts)
    spectra = DFT.function(units, wanted, np.array(1), inverse=op.inverse, onesided=op.onesided)
    order = [each for each in range(rank - 1) if each != at] + [at, rank - 1]
    moved = transposed(b, op.input, order)
    outer = [dims[each] for each in order[:-2]]
    flat = b(Reshape, moved, [*outer, n * parts])
    mixed = b(MatMul, flat, b.like(op.input, spectra.reshape(n * parts, -1)))
    split = b(Reshape, mixed, [*outer, *spectra.shape[1:]])
    return (transposed(b, split, [order.index(each) for each in range(rank)]),)


def stft_by_convolution(b: Builder, op: STFTView) -> tuple[Value, ...]:
    """Compute an STFT as a convolution whose kernels are the windowed sines and cosines of each bin."""
    batch, total, parts = sizes(b.dims(op.signal), "the shape of the signal")
    step, length = integers(op.frame_step), None if op.frame_length is None else integers(op.frame_length)
    stored = None if op.window is None else folded(op.window)
    if not step or (op.frame_length is not None and not length):
        message = "the step and the length of frames must be constant"
        raise UnsupportedError(message)
    weights = None if stored is None else stored.numpy()
    (own,) = (total,) if op.window is None else sizes(b.dims(op.window), "the length of the window")
    n = length[0] if length else own
    if 2 * n * n * parts > MAX_MATRIX_ELEMENTS:
        message = f"kernels for frames of {n} entries would be too large"
        raise UnsupportedError(message)
    reserve(n * parts, n, 2)
    units = np.eye(n * parts).reshape(n * parts, 1, n, parts).transpose(0, 2, 1, 3).reshape(n * parts, n, parts)
    units = units if weights is None else units * weights.astype(np.float64)[:, None]
    spectra = DFT.function(units, None, np.array(1), inverse=0, onesided=op.onesided)
    bins = spectra.shape[1]
    kernels = spectra.reshape(n, parts, bins * 2).transpose(2, 1, 0)
    given = b(Transpose, op.signal, perm=(0, 2, 1)) if parts > 1 else b(Reshape, op.signal, [batch, 1, total])
    waves = b.like(op.signal, kernels)
    waves = waves if op.window is None or stored is not None else b(Mul, waves, op.window)
    mixed = b(Conv, given, waves, kernel_shape=(n,), strides=(step[0],))
    frames = (total - n) // step[0] + 1
    split = b(Transpose, mixed, perm=(0, 2, 1))
    return (b(Reshape, split, [batch, frames, bins, 2]),)

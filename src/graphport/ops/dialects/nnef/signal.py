"""Transforms of signals in NNEF: products with matrices of sines and cosines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.operands import integers, sizes, transposed, vector
from graphport.ops.pages.matmul import MatMul
from graphport.ops.pages.reshape import Reshape
from graphport.ops.pages.signal import DFT
from graphport.ops.views.signal import DFTView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

MOST_ENTRIES = 1 << 22
"""Of the matrix, which is the square of the length."""


@DFTView.lift("nnef")
def lift_dft(b: Builder, op: DFTView) -> tuple[Value, ...]:
    """The axis and the parts of its numbers side by side, times what the transform makes of each unit vector."""
    dims = sizes(b.dims(op.input), "the shape of the signal")
    place = (-2,) if op.axis is None else integers(op.axis)
    length = () if op.dft_length is None else integers(op.dft_length)
    if place is None or length is None:
        message = "the axis and the length must be constant"
        raise UnsupportedError(message)
    at, rank = place[0] % len(dims), len(dims)
    n, parts = dims[at], dims[-1]
    wanted = None if not length else np.array(length[0])
    if (n * parts) ** 2 > MOST_ENTRIES or (length and (n * parts) * 2 * length[0] > MOST_ENTRIES):
        message = f"a matrix for {n} entries would be too large"
        raise UnsupportedError(message)
    units = np.eye(n * parts).reshape(n * parts, n, parts)
    spectra = DFT.function(units, wanted, np.array(1), inverse=op.inverse, onesided=op.onesided)
    order = [each for each in range(rank - 1) if each != at] + [at, rank - 1]
    moved = transposed(b, op.input, order)
    outer = [dims[each] for each in order[:-2]]
    flat = b(Reshape, moved, vector(b, [*outer, n * parts]))
    mixed = b(MatMul, flat, b.like(op.input, spectra.reshape(n * parts, -1)))
    apart = b(Reshape, mixed, vector(b, [*outer, *spectra.shape[1:]]))
    return (transposed(b, apart, [order.index(each) for each in range(rank)]),)

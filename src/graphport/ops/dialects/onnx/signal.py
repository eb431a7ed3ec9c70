"""The older form of the Fourier transform: the axis was an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.dialects.onnx.older import integers
from graphport.ops.pages.signal import DFT
from graphport.ops.views.signal import DFTView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@DFT.lower("onnx", until=19)
def dft_17(
    b: Builder, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    """The first axis behind the batch was the default."""
    return b(DFT, x, dft_length, b.constant(np.array(axis, np.int64)), inverse=inverse, onesided=onesided)


@DFTView.lift("onnx", until=19)
def dft_with_attribute(b: Builder, op: DFTView) -> Value:
    """The axis was an attribute, counted from the front."""
    place = -2 if op.axis is None else integers(op.axis, "axis")[0]
    place = place if place >= 0 else place + len(b.dims(op.input))
    return b.word("DFT", op.input, op.dft_length, axis=place, inverse=op.inverse, onesided=op.onesided)[0]

"""The older form of the Fourier transform: the axis was an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.rules.older import RULES
from graphport.ops.lowering.operands import needed_integer
from graphport.ops.views.signal import DFTView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


RULES.lower(
    """
# The first axis behind the batch was the default.
DFT(x, dft_length=None, *, axis=1, inverse=0, onesided=0)
    -> DFT(x, dft_length, index(axis), inverse=inverse, onesided=onesided)
""",
    until=19,
)


@DFTView.export_rule("onnx", until=19)
def dft_with_attribute(b: Builder, op: DFTView) -> Value:
    """Export DFT to opsets 17 to 19: the axis is a non-negative attribute."""
    place = -2 if op.axis is None else needed_integer(op.axis, "axis")
    place = place if place >= 0 else place + len(b.dims(op.input))
    return b.emit("DFT", op.input, op.dft_length, axis=place, inverse=op.inverse, onesided=op.onesided)[0]

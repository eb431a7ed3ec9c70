"""The windows of convolutions and poolings: padding as numbers, the kernel from the weights, steps of 1 filled in."""

from __future__ import annotations

from typing import Any, TypeAlias

from graphport.core.dims import Dim
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.graph import Value
from graphport.ops.lowering.operands import sizes
from graphport.ops.pages.convolution.transposed import transposed_window
from graphport.ops.pages.convolution.window import Window, window
from graphport.ops.views.convolution import ConvIntegerView, ConvTransposeView, ConvView, QLinearConvView
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView

Convolution: TypeAlias = ConvView | ConvIntegerView | QLinearConvView
Pool: TypeAlias = AveragePoolView | LpPoolView | MaxPoolView


def window_of(op: Convolution | Pool) -> Window:
    """The window of a convolution or pooling.

    Raises:
        ShapeError: as `window` has it.
        Unknown: nobody knows the rank of what it slides over, or of the weights.
    """
    kernel = _dims(op.w)[2:] if isinstance(op, Convolution) else op.kernel_shape
    return window(_dims(op.x)[2:], kernel, **window_options(op))


def transposed_window_of(op: ConvTransposeView) -> Window:
    """The window that paints a transposed convolution, as `transposed_window` has it.

    Raises:
        ShapeError: as there.
        Unknown: nobody knows the rank of the input, or of the weights.
    """
    return transposed_window(_dims(op.x)[2:], _dims(op.w)[2:], **window_options(op))


def window_options(op: Convolution | ConvTransposeView | Pool) -> dict[str, Any]:
    """The attributes that `window`, or `transposed_window`, takes."""
    stated = {"auto_pad": op.auto_pad, "dilations": op.dilations, "pads": op.pads, "strides": op.strides}
    match op:
        case ConvTransposeView():
            return stated | {"output_padding": op.output_padding, "output_shape": op.output_shape}
        case AveragePoolView() | LpPoolView() | MaxPoolView():
            return stated | {"ceil_mode": op.ceil_mode}
        case _:
            return stated


def padding_of(slid: Window) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and behind each axis, as numbers.

    Raises:
        UnsupportedError: some of it is not known before a run.
    """
    begins, ends = zip(*slid.pads, strict=True)
    return sizes(begins, "padding"), sizes(ends, "padding")


def _dims(value: Value) -> tuple[Dim, ...]:
    return value.fact.dims if isinstance(value.fact, TensorFact) else UNKNOWN.dims

"""Windows of convolution and pooling: explicit padding, kernel size from the weights, default strides and dilations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from graphport.core.dims import Dim
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ir.graph import Value
from graphport.ops.definitions.convolution.transposed import transposed_window
from graphport.ops.definitions.convolution.window import Window, window
from graphport.ops.lowering.operands import sizes
from graphport.ops.views.convolution import ConvIntegerView, ConvTransposeView, ConvView, QLinearConvView
from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView

Convolution: TypeAlias = ConvView | ConvIntegerView | QLinearConvView
Pool: TypeAlias = AveragePoolView | LpPoolView | MaxPoolView


def window_of(op: Convolution | Pool) -> Window:
    """Return the window of a convolution or pooling.

    Raises:
        ShapeError: as `window`.
        Unknown: the rank of the input or of the weights is not known.
    """
    kernel = _dims(op.w)[2:] if isinstance(op, Convolution) else op.kernel_shape
    return window(_dims(op.x)[2:], kernel, **window_options(op))


def transposed_window_of(op: ConvTransposeView) -> Window:
    """Return the window of a transposed convolution, see `transposed_window`.

    Raises:
        ShapeError: as `transposed_window`.
        Unknown: the rank of the input or of the weights is not known.
    """
    return transposed_window(_dims(op.x)[2:], _dims(op.w)[2:], **window_options(op))


def window_options(op: Convolution | ConvTransposeView | Pool) -> dict[str, Any]:
    """Return the attributes that `window` or `transposed_window` accepts."""
    stated = {"auto_pad": op.auto_pad, "dilations": op.dilations, "pads": op.pads, "strides": op.strides}
    match op:
        case ConvTransposeView():
            return stated | {"output_padding": op.output_padding, "output_shape": op.output_shape}
        case AveragePoolView() | LpPoolView() | MaxPoolView():
            return stated | {"ceil_mode": op.ceil_mode}
        case _:
            return stated


def window_attributes(kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> dict[str, Any]:
    """Return kernel shape, strides and dilations as ONNX attributes, without defaults."""
    return {
        "kernel_shape": tuple(kernel),
        "strides": tuple(strides) if any(s != 1 for s in strides) else None,
        "dilations": tuple(dilations) if any(d != 1 for d in dilations) else None,
    }


def padding_of(slid: Window) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding at the start and end of each axis as integers.

    Raises:
        UnsupportedError: a padding is dynamic.
    """
    begins, ends = zip(*slid.pads, strict=True)
    return sizes(begins, "padding"), sizes(ends, "padding")


def _dims(value: Value) -> tuple[Dim, ...]:
    return value.fact.dims if isinstance(value.fact, TensorFact) else UNKNOWN.dims

"""Convolutions: sums of products over a sliding window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim, product
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.convolution.channels import (
    check_bias,
    check_channels,
    check_kernel,
    correlate,
    correlation_macs,
)
from graphport.ops.definitions.convolution.deformable import DeformConv
from graphport.ops.definitions.convolution.quantized import ConvInteger, QLinearConv
from graphport.ops.definitions.convolution.transposed import conv_transpose, transposed_window
from graphport.ops.definitions.convolution.window import window
from graphport.ops.shapes import check_rank, same_dim
from graphport.ops.types import FLOATS, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.convolution import ConvTransposeView, ConvView

__all__ = ["Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"]

T = Annotated[Tensor, Types("T", FLOATS)]


@viewed
def _conv_shape(op: ConvView[TensorFact]) -> TensorFact:
    batch, spatial, maps, kernel = check_channels(op.x, op.w, op.b, op.group, op.kernel_shape)
    slid = window(spatial, kernel, auto_pad=op.auto_pad, dilations=op.dilations, pads=op.pads, strides=op.strides)
    return op.x.with_shape([batch, maps, *slid.lengths])


@op(
    bias="b",
    shape=_conv_shape,
    since=1,
    outputs=("y",),
    exactness="accumulation",
    role="weighted",
    macs=correlation_macs,
    ranks={"x": (3, None), "w": (3, None), "b": 1},
)
def Conv(
    x: T,
    w: T,
    b: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T:
    """Cross-correlation of `x` with `w`, plus a bias per feature map.

    Shapes: x [N, C, *d], w [M, C/group, *k], b [M] → [N, M, *((d + p + q - (k-1)*dilation - 1) // stride + 1)].

    Raises:
        ShapeError: channels and groups do not fit, or the window is larger than the padded operand.

    Source: ONNX Conv-22.
    """
    slid = window(x.shape[2:], w.shape[2:], auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    wide = np.result_type(x.dtype, np.float32)
    y = correlate(x.astype(wide, copy=False), w.astype(wide, copy=False), slid, group)
    if b is not None:
        y += b.astype(wide).reshape(-1, *[1] * (x.ndim - 2))
    return y.astype(x.dtype, copy=False)


@viewed
def _conv_transpose_shape(op: ConvTransposeView[TensorFact]) -> TensorFact:
    rank = check_rank(op.x, 3, "x")
    if op.w.rank != rank:
        message = f"x has rank {rank}, w has rank {op.w.rank}"
        raise ShapeError(message, "the ranks must be equal")
    (batch, channels, *spatial), (depth, maps, *kernel) = op.x.dims, op.w.dims
    check_kernel(op.kernel_shape, kernel)
    same_dim(channels, depth, "channels of x and first dim of w")
    if op.group < 1 or (isinstance(channels, int) and channels % op.group):
        message = f"{channels} channels do not split into {op.group} groups"
        raise ShapeError(message)
    check_bias(op.b, maps * op.group)
    geometry = transposed_window(
        spatial,
        kernel,
        auto_pad=op.auto_pad,
        dilations=op.dilations,
        output_padding=op.output_padding,
        output_shape=op.output_shape,
        pads=op.pads,
        strides=op.strides,
    )
    return op.x.with_shape([batch, maps * op.group, *geometry.lengths])


def _conv_transpose_macs(y: TensorFact, x: TensorFact, w: TensorFact, *_operands: object, **_attributes: object) -> Dim:
    # Each element of x adds a scaled kernel to each map of its group; the result includes the cropped border.
    del y
    return product([*x.dims, *w.dims[1:]])


@op(
    bias="b",
    shape=_conv_transpose_shape,
    since=1,
    outputs=("y",),
    exactness="accumulation",
    role="weighted",
    macs=_conv_transpose_macs,
    ranks={"x": (3, None), "w": (3, None), "b": 1},
)
def ConvTranspose(
    x: T,
    w: T,
    b: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    output_padding: tuple[int, ...] | None = None,
    output_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T:
    """Transposed convolution, the adjoint of a convolution: each element of `x` adds `w`, scaled, to the output.

    `pads` are cropped; `output_padding` adds elements at the ends; `output_shape` determines the crop instead of
    `pads`, with an odd element at the begin, or at the end for SAME_UPPER. SAME without `output_shape` means `d *
    stride`.

    Shapes: x [N, C, *d], w [C, M/group, *k], b [M] → [N, M, *((d-1)*stride + (k-1)*dilation + 1 + extra - p - q)].

    Raises:
        ShapeError: channels and groups do not fit, or an output dim is not positive.

    Source: ONNX ConvTranspose-22.
    """
    geometry = transposed_window(
        x.shape[2:],
        w.shape[2:],
        auto_pad=auto_pad,
        dilations=dilations,
        output_padding=output_padding,
        output_shape=output_shape,
        pads=pads,
        strides=strides,
    )
    wide = np.result_type(x.dtype, np.float32)
    y = conv_transpose(x.astype(wide), w.astype(wide), geometry, group)
    if b is not None:
        y = y + b.astype(wide).reshape(-1, *[1] * (x.ndim - 2))
    return y.astype(x.dtype)

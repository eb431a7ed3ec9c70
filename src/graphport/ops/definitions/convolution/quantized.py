"""Convolutions of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.convolution.channels import check_channels, correlate, correlation_macs
from graphport.ops.definitions.convolution.window import Window, window
from graphport.ops.shapes import same_dim
from graphport.ops.types import BYTES, FLOAT32, INT32, SCALAR, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.convolution import ConvIntegerView, QLinearConvView

T1 = Annotated[Tensor, Types("T1", BYTES)]
T2 = Annotated[Tensor, Types("T2", BYTES)]
Int32 = Annotated[Tensor, Types("T3", INT32)]
T3 = Annotated[Tensor, Types("T3", BYTES)]
T4 = Annotated[Tensor, Types("T4", INT32)]
Float = Annotated[Tensor, Types("tensor(float)", FLOAT32)]


def check_parameter(name: str, fact: TensorFact | None, maps: object = 1) -> None:
    """Check the shape of a scale or zero point: a scalar, or one element per feature map.

    Raises:
        ShapeError: it has another shape.
    """
    if fact is None or fact.shape is None or not fact.shape or fact.shape == (1,):
        return
    if len(fact.shape) != 1 or maps == 1:
        message = f"{name} has the shape {list(fact.shape)}"
        raise ShapeError(
            message, "expected a scalar" if maps == 1 else f"expected a scalar, or a vector of {maps} elements"
        )
    if isinstance(maps, int):
        same_dim(fact.shape[0], maps, f"{name} and feature maps")


@viewed
def _conv_integer_shape(op: ConvIntegerView[TensorFact]) -> TensorFact:
    batch, spatial, maps, kernel = check_channels(op.x, op.w, None, op.group, op.kernel_shape)
    check_parameter("x_zero_point", op.x_zero_point)
    check_parameter("w_zero_point", op.w_zero_point, maps)
    slid = window(spatial, kernel, auto_pad=op.auto_pad, dilations=op.dilations, pads=op.pads, strides=op.strides)
    return TensorFact(DType.INT32, (batch, maps, *slid.lengths))


@op(
    shape=_conv_integer_shape,
    since=10,
    exactness="exact",
    role="passive",
    macs=correlation_macs,
    ranks={"x": (3, None), "w": (3, None), "x_zero_point": SCALAR, "w_zero_point": (0, 1)},
)
def ConvInteger(
    x: T1,
    w: T2,
    x_zero_point: T1 | None = None,
    w_zero_point: T2 | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Int32:
    """Convolution of `x - x_zero_point` with `w - w_zero_point` in 32-bit integers; padding counts as `x_zero_point`.

    Shapes: x [N, C, *d], w [M, C/group, *k], x_zero_point [], w_zero_point [] or [M] → as `Conv`.

    Raises:
        ShapeError: as `Conv`, or a zero point has another shape.

    Source: ONNX ConvInteger-10.
    """
    slid = window(x.shape[2:], w.shape[2:], auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    return correlate_integers(_centred(x, x_zero_point), _centred(w, w_zero_point), slid, group)


def _centred(x: Tensor, zero_point: Tensor | None) -> Tensor:
    """`x - zero_point`, exactly; several zero points belong to the first axis."""
    # Sums of products of bytes are exact in float64 up to 2**37 terms, and its matrix product is fast.
    if zero_point is None:
        return x.astype(np.float64)
    return x.astype(np.float64) - zero_point.astype(np.float64).reshape(-1, *[1] * (x.ndim - 1))


def correlate_integers(x: Tensor, w: Tensor, slid: Window, group: int) -> Tensor:
    """`correlate` of integers held in float64, wrapped to 32 bits."""
    return correlate(x, w, slid, group).astype(np.int64).astype(np.int32)


@viewed
def _qlinear_conv_shape(op: QLinearConvView[TensorFact]) -> TensorFact:
    batch, spatial, maps, kernel = check_channels(op.x, op.w, op.b, op.group, op.kernel_shape)
    for name in ("x_scale", "x_zero_point", "y_scale", "y_zero_point"):
        check_parameter(name, getattr(op, name))
    check_parameter("w_scale", op.w_scale, maps)
    check_parameter("w_zero_point", op.w_zero_point, maps)
    slid = window(spatial, kernel, auto_pad=op.auto_pad, dilations=op.dilations, pads=op.pads, strides=op.strides)
    return TensorFact(op.y_zero_point.dtype, (batch, maps, *slid.lengths))


def _qlinear_conv_macs(
    y: TensorFact,
    x: TensorFact,
    x_scale: TensorFact,
    x_zero_point: TensorFact,
    w: TensorFact,
    *_operands: object,
    **_attributes: object,
) -> Dim:
    del x_scale, x_zero_point
    return correlation_macs(y, x, w)


@op(
    shape=_qlinear_conv_shape,
    since=10,
    exactness="rounding",
    role="passive",
    macs=_qlinear_conv_macs,
    ranks={
        "x": (3, None),
        "x_scale": SCALAR,
        "x_zero_point": SCALAR,
        "w": (3, None),
        "w_scale": (0, 1),
        "w_zero_point": (0, 1),
        "y_scale": SCALAR,
        "y_zero_point": SCALAR,
        "b": 1,
    },
)
def QLinearConv(
    x: T1,
    x_scale: Float,
    x_zero_point: T1,
    w: T2,
    w_scale: Float,
    w_zero_point: T2,
    y_scale: Float,
    y_zero_point: T3,
    b: T4 | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] | None = None,
    group: int = 1,
    kernel_shape: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T3:
    """Convolution of quantized tensors with a quantized result; the bias has scale `x_scale * w_scale`.

    int32 sums are scaled by `x_scale * w_scale / y_scale`, rounded half to even, offset by the zero point and
    saturated.

    Shapes: x [N, C, *d], w [M, C/group, *k], w_scale and w_zero_point [] or [M], other scales and zero points [],
    b [M] → as `Conv`.

    Raises:
        ShapeError: as `Conv`, or a scale or zero point has another shape.

    Source: ONNX QLinearConv-10.
    """
    slid = window(x.shape[2:], w.shape[2:], auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides)
    sums = correlate_integers(_centred(x, x_zero_point.reshape(-1)), _centred(w, w_zero_point), slid, group)
    channel = (-1, *[1] * (x.ndim - 2))
    if b is not None:
        sums = sums + b.reshape(channel)
    factor = (x_scale.reshape(-1) * w_scale.reshape(-1) / y_scale.reshape(-1)).astype(np.float32)
    steps = np.rint(sums.astype(np.float32) * factor.reshape(channel)) + y_zero_point.astype(np.float32).reshape(-1)[0]
    limits = np.iinfo(y_zero_point.dtype)
    return np.clip(steps, limits.min, limits.max).astype(y_zero_point.dtype)

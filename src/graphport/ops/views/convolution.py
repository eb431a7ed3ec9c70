"""Views of the pages of convolution; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class ConvView(View):
    """A node of `Conv`."""

    operator = "Conv"

    x: Value
    w: Value
    b: Value | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConvIntegerView(View):
    """A node of `ConvInteger`."""

    operator = "ConvInteger"

    x: Value
    w: Value
    x_zero_point: Value | None = None
    w_zero_point: Value | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConvTransposeView(View):
    """A node of `ConvTranspose`."""

    operator = "ConvTranspose"

    x: Value
    w: Value
    b: Value | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class DeformConvView(View):
    """A node of `DeformConv`."""

    operator = "DeformConv"

    x: Value
    w: Value
    offset: Value
    b: Value | None = None
    mask: Value | None = None
    _: KW_ONLY
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    offset_group: int = 1
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class QLinearConvView(View):
    """A node of `QLinearConv`."""

    operator = "QLinearConv"

    x: Value
    x_scale: Value
    x_zero_point: Value
    w: Value
    w_scale: Value
    w_zero_point: Value
    y_scale: Value
    y_zero_point: Value
    b: Value | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

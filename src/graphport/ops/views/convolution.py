"""Views of the pages of convolution; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class ConvView(View[T]):
    """A node of `Conv`."""

    operator = "Conv"

    x: T
    w: T
    b: T | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConvIntegerView(View[T]):
    """A node of `ConvInteger`."""

    operator = "ConvInteger"

    x: T
    w: T
    x_zero_point: T | None = None
    w_zero_point: T | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConvTransposeView(View[T]):
    """A node of `ConvTranspose`."""

    operator = "ConvTranspose"

    x: T
    w: T
    b: T | None = None
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
class DeformConvView(View[T]):
    """A node of `DeformConv`."""

    operator = "DeformConv"

    x: T
    w: T
    offset: T
    b: T | None = None
    mask: T | None = None
    _: KW_ONLY
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    offset_group: int = 1
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class QLinearConvView(View[T]):
    """A node of `QLinearConv`."""

    operator = "QLinearConv"

    x: T
    x_scale: T
    x_zero_point: T
    w: T
    w_scale: T
    w_zero_point: T
    y_scale: T
    y_zero_point: T
    b: T | None = None
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

"""Views of the pages of pooling; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class AveragePoolView(View):
    """A node of `AveragePool`."""

    operator = "AveragePool"

    x: Value
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    count_include_pad: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class LpPoolView(View):
    """A node of `LpPool`."""

    operator = "LpPool"

    x: Value
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    p: int = 2
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class MaxPoolView(View):
    """A node of `MaxPool`."""

    operator = "MaxPool"

    x: Value
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    storage_order: int = 0
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class MaxUnpoolView(View):
    """A node of `MaxUnpool`."""

    operator = "MaxUnpool"

    x: Value
    i: Value
    output_shape: Value | None = None
    _: KW_ONLY
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

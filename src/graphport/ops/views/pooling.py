"""Views of the pages of pooling; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class AveragePoolView(View[T]):
    """A node of `AveragePool`."""

    operator = "AveragePool"

    x: T
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    count_include_pad: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class LpPoolView(View[T]):
    """A node of `LpPool`."""

    operator = "LpPool"

    x: T
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    p: int = 2
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class MaxPoolView(View[T]):
    """A node of `MaxPool`."""

    operator = "MaxPool"

    x: T
    _: KW_ONLY
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] | None = None
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    storage_order: int = 0
    strides: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class MaxUnpoolView(View[T]):
    """A node of `MaxUnpool`."""

    operator = "MaxUnpool"

    x: T
    i: T
    output_shape: T | None = None
    _: KW_ONLY
    kernel_shape: tuple[int, ...]
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None

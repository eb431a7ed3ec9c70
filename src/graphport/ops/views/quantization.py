"""Views of the pages of quantization; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.core.dtypes import DType
from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class DequantizeLinearView(View[T]):
    """A node of `DequantizeLinear`."""

    operator = "DequantizeLinear"

    x: T
    x_scale: T
    x_zero_point: T | None = None
    _: KW_ONLY
    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None


@dataclass(slots=True, eq=False, repr=False)
class QuantizeLinearView(View[T]):
    """A node of `QuantizeLinear`."""

    operator = "QuantizeLinear"

    x: T
    y_scale: T
    y_zero_point: T | None = None
    _: KW_ONLY
    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None
    precision: DType | None = None
    saturate: int = 1

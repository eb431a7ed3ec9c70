"""Views of the pages of quantization; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class DequantizeLinearView(View):
    """A node of `DequantizeLinear`."""

    operator = "DequantizeLinear"

    x: Value
    x_scale: Value
    x_zero_point: Value | None = None
    _: KW_ONLY
    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None


@dataclass(slots=True, eq=False, repr=False)
class QuantizeLinearView(View):
    """A node of `QuantizeLinear`."""

    operator = "QuantizeLinear"

    x: Value
    y_scale: Value
    y_zero_point: Value | None = None
    _: KW_ONLY
    axis: int = 1
    block_size: int = 0
    output_dtype: DType | None = None
    precision: DType | None = None
    saturate: int = 1

"""Export rules of selection to ATen."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, aten
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.comparison import Where
from graphport.ops.lowering.operands import dtype_of

_BITS = {DType.UINT16: DType.INT16, DType.UINT32: DType.INT32, DType.UINT64: DType.INT64}


@Where.export_rule(DIALECT)
def export_where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    """Export Where; element types without a kernel are bit-cast to signed integers of equal width."""
    own = dtype_of(x)
    bits = _BITS.get(own)
    if bits is None:
        return aten(b, "where.self", condition, x, y)
    chosen = aten(b, "where.self", condition, *(aten(b, "view.dtype", each, bits) for each in (x, y)))
    return aten(b, "view.dtype", chosen, own)

"""Operators of NNEF without operands: variables and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.ops.declare import export_rule
from graphport.ops.lowering.operands import integers

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MOST = 1 << 20


@export_rule("nnef", "ConstantOfShape")
def export_fill(b: Builder, input: Value, *, value: Storage | None = None) -> Any:
    """Export ConstantOfShape as a constant, up to a size limit."""
    shape = integers(input)
    if shape is None or int(np.prod(shape, dtype=np.float64)) > _MOST:
        return None
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    return (b.constant(np.full(shape, number.reshape(-1)[0]), None if value is None else value.dtype, b.stem),)

"""Constants of ncnn, and constants of computed shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.binding import AXES, Layer, layer
from graphport.formats.ncnn.rules.emitting import KEYS, MOST_AXES, remembered
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.lowering.operands import sizes
from graphport.ops.pages.generate import ConstantOfShape
from graphport.ops.pages.reshape import Expand

if TYPE_CHECKING:
    from graphport.core.storage import Storage


@layer("MemoryData")
def memory_data(at: Layer) -> Value:
    """A blob that is a weight."""
    shape = [n for n in (at.integer(KEYS[name]) for name in AXES[MOST_AXES]) if n]
    return at.weight(0, [1, *(shape or [1])])


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@ConstantOfShape.export_rule("ncnn")
def export_constant_of_shape(b: Builder, input: Value, *, value: Storage | None = None) -> Value | None:
    """Export ConstantOfShape of floats: one element, expanded."""
    (rank,) = sizes(b.dims(input, 1), "the rank")
    if value is not None and value.dtype is not DType.FLOAT32:
        return None
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    return b(Expand, remembered(b, b.constant(number.reshape([1] * rank))), input)

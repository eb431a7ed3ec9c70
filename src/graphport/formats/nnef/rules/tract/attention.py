"""Attention in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.nnef.rules.tract.attention_products import sdpa
from graphport.formats.nnef.rules.tract.binding import axis_of, import_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_transformers_window_kv_sdpa")
def window_sdpa(b: Builder, q: Value, k: Value, v: Value, *, axis: int, window: int, scale: float) -> Value:
    """Attention to the last `window` keys."""
    emit = OpBuilder(b)
    place = axis_of(axis, len(b.dims(k)))
    ends = [b.constant(np.array([n], np.int64)) for n in (-window, np.iinfo(np.int64).max, place)]
    return sdpa(b, q, emit("Slice", k, *ends), emit("Slice", v, *ends), scale=scale)


@import_rule("tract_transformers_apply_rope")
def apply_rope(b: Builder, input: Value, cos: Value, sin: Value) -> Value:
    """Rotary position embedding: rotate the pairs (i, i + n/2) by angles."""
    from graphport.ops import registry

    emit = OpBuilder(b)
    first, second = b.results(registry.op_defs()["Split"], 2, input, None, axis=-1, num_outputs=2)
    rotated = emit("Concat", emit("Neg", second), first, axis=-1)
    return emit("Add", emit("Mul", input, cos), emit("Mul", rotated, sin))


@import_rule("tract_transformers_scaled_masked_softmax")
def scaled_masked_softmax(
    b: Builder, input: Value, mask: Value, *, scale: float = 1.0, post_softmax_mask: bool = False
) -> Value:
    """Softmax of scaled scores; a boolean mask selects, any other is added."""
    emit = OpBuilder(b)
    scores = emit("Mul", input, scale)
    is_truth = mask.dtype is DType.BOOL
    never = b.like(scores, float("-inf"))
    hidden = emit("Where", mask, scores, never) if is_truth else emit("Add", scores, mask)
    y = emit("Softmax", hidden, axis=-1)
    return emit("Where", mask, y, 0.0) if post_softmax_mask and is_truth else y

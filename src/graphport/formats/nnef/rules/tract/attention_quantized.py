"""Attention to keys and values of eight bits, as tract rounds them while they come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.formats.nnef.rules.tract.attention_products import sdpa
from graphport.formats.nnef.rules.tract.binding import axis_of, import_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_CODES = 255.0


@import_rule("tract_transformers_quantized_dyn_kv_cache")
def quantized_cache(b: Builder, input: Value, **attributes: Any) -> Value:
    """Return the input: in the first pulse the cache contains nothing else."""
    del attributes
    return OpBuilder(b)("Identity", input)


@import_rule("tract_transformers_quantized_kv_sdpa")
def quantized_sdpa(b: Builder, q: Value, k: Value, v: Value, *, axis: int, scale: float) -> Value:
    """Attention to quantized keys and values.

    Each row of values is quantized to 256 steps between minimum and maximum. Each channel of keys has a step of 1 from
    the minimum so far, or larger if the range exceeds 255; earlier codes are decoded with the latest parameters.
    """
    rank = len(b.dims(k))
    place = axis_of(axis, rank)
    return sdpa(b, q, _keys(b, k, place), _values(b, v, rank), scale=scale)


def _values(b: Builder, v: Value, rank: int) -> Value:
    emit, last = OpBuilder(b), b.integers([rank - 1])
    least, most = (emit(name, v, last, keepdims=1) for name in ("ReduceMin", "ReduceMax"))
    step = emit("Div", emit("Sub", most, least), _CODES)
    step = emit("Where", emit("Greater", step, 0.0), step, 1.0)
    codes = _rounded(b, emit("Div", emit("Sub", v, least), step))
    return emit("Add", emit("Mul", codes, step), least)


def _keys(b: Builder, k: Value, axis: int) -> Value:
    emit = OpBuilder(b)
    count = emit("Squeeze", emit("Shape", k, start=axis, end=axis + 1), [0])
    every = emit("Range", 0, count, 1)
    seen = emit("LessOrEqual", emit("Unsqueeze", every, [0]), emit("Unsqueeze", every, [1]))
    behind = len(b.dims(k)) - axis - 1
    if behind:
        seen = emit("Unsqueeze", seen, [*range(2, 2 + behind)])

    def running_extreme(x: Value, name: str, far: float) -> Value:
        wide = emit("Unsqueeze", x, [axis])
        return emit(name, emit("Where", seen, wide, far), b.integers([axis + 1]), keepdims=0)

    lows = running_extreme(k, "ReduceMin", np.inf)
    above = emit("Sub", k, lows)
    steps = emit("Max", emit("Div", running_extreme(above, "ReduceMax", -np.inf), _CODES), 1.0)
    codes = emit("Min", _rounded(b, emit("Div", above, steps)), _CODES)
    ends = [b.constant(np.array([end], np.int64)) for end in (-1, np.iinfo(np.int64).max, axis)]
    step, low = (emit("Slice", each, *ends) for each in (steps, lows))
    return emit("Add", emit("Mul", codes, step), low)


def _rounded(b: Builder, x: Value) -> Value:
    """Round non-negative numbers to the nearest integer, ties upward."""
    return OpBuilder(b)("Floor", OpBuilder(b)("Add", x, b.like(x, 0.5)))

"""Casts of PyTorch."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.rules.binding import emits, named_dtype
from graphport.formats.pytorch.rules.promotion import cast
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder


@emits(
    "Tensor.to",
    "aten::to",
    "aten::_to_copy",
    "Tensor.type",
    ignores=("copy", "non_blocking", "memory_format", "device", "layout", "pin_memory"),
)
def to(b: Builder, input: Value, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype)
    return input if wanted is None else cast(b, input, wanted)


PNNX.lower("""
Tensor.type_as, aten::type_as(input, other) -> cast(input, dtype(other))
Tensor.float(input) -> cast(input, float32)
Tensor.double(input) -> cast(input, float64)
Tensor.half(input) -> cast(input, float16)
Tensor.bfloat16(input) -> cast(input, bfloat16)
Tensor.int(input) -> cast(input, int32)
Tensor.long(input) -> cast(input, int64)
Tensor.short(input) -> cast(input, int16)
Tensor.byte(input) -> cast(input, uint8)
Tensor.bool(input) -> cast(input, bool)
""")

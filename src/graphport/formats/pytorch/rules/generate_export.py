"""Export rules of generators to ATen."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.core.storage import Storage
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, element_of, elements_of, size_of, sizes_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.generate import ConstantOfShape, EyeLike, Range
from graphport.ops.lowering.operands import cast, dtype_of


@ConstantOfShape.export_rule(DIALECT)
def export_constant_of_shape(b: Builder, input: Value, *, value: Storage | None = None) -> Value:
    dtype = DType.FLOAT32 if value is None else value.dtype
    number: Any = 0.0 if value is None else value.numpy().reshape(-1)[0].item()
    result = b.outcome.shape
    sizes = None if result is None else sizes_of(b, result)
    return aten(b, "full", elements_of(b, input) if sizes is None else sizes, number, dtype=dtype)


@Range.export_rule(DIALECT)
def export_range(b: Builder, start: Value, limit: Value, delta: Value) -> Value:
    """Export Range as `aten.arange`, which also computes the length in float64."""
    numbers = [element_of(b, each) for each in (start, limit, delta)]
    return aten(b, "arange.start_step", *numbers, dtype=dtype_of(start))


@EyeLike.export_rule(DIALECT)
def export_eye_like(b: Builder, input: Value, *, dtype: DType | None = None, k: int = 0) -> Value:
    wanted = dtype_of(input) if dtype is None else dtype
    rows = aten(b, "reshape", aten(b, "arange.start_step", k, _shifted(b, size_of(b, input, 0), k), 1), (-1, 1))
    columns = aten(b, "arange.start_step", 0, size_of(b, input, 1), 1)
    return cast(b, aten(b, "eq.Tensor", rows, columns), wanted)


def _shifted(b: Builder, size: int | Value, k: int) -> int | Value:
    from graphport.formats.pytorch.rules.emitting import combined

    return size + k if isinstance(size, int) else size if k == 0 else combined(b, "add", size, k)

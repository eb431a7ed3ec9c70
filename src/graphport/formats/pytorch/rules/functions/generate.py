"""Tensor creation functions of PyTorch."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any

import numpy as np

from graphport.core.budget import MOST_AT_ONCE, reserve
from graphport.core.dtypes import DType
from graphport.core.storage import storage_of
from graphport.formats.pytorch.rules.binding import (
    DIALECT,
    DTYPES,
    Scalar,
    bounded,
    called,
    constant_or_value,
    emits,
    named_dtype,
    scalar_of,
)
from graphport.formats.pytorch.rules.functions.computed_lengths import computed_list, computed_number, elements_of
from graphport.formats.pytorch.rules.functions.reshape_shapes import extents, lengths
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Cast, Div, Max, Mul, Sub
from graphport.ops.definitions.generate import Constant, ConstantOfShape, Range, constant_value
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.pattern import constant_numbers

_IGNORED = ("device", "layout", "pin_memory", "requires_grad", "memory_format", "names")
_REAL = DType.FLOAT32


def fill(b: Builder, shape: Value, value: Scalar, dtype: DType) -> Value:
    """Fill `shape` with `value`."""
    return b(ConstantOfShape, shape, value=storage_of([value], dtype))


def _typed(value: Scalar) -> DType:
    return DType.BOOL if isinstance(value, bool) else DType.INT64 if isinstance(value, int) else _REAL


def _full(b: Builder, size: Any, value: Scalar, dtype: Any, default: DType | None = None) -> Value:
    return fill(b, lengths(b, size), value, named_dtype(dtype) or default or _typed(value))


def _full_like(b: Builder, x: Value, value: Scalar, dtype: Any = None) -> Value:
    return fill(b, extents(b, x), value, named_dtype(dtype) or dtype_of(x))


PNNX.having(full=_full, full_like=_full_like).lower(
    """
torch.zeros, aten::zeros, torch.empty, aten::empty(size, dtype=None) -> full(size, 0, dtype, float32)
torch.ones, aten::ones(size, dtype=None) -> full(size, 1, dtype, float32)
torch.full, aten::full(size, fill_value: number, dtype=None) -> full(size, fill_value, dtype)
torch.zeros_like, aten::zeros_like, torch.empty_like, aten::empty_like(input, dtype=None) -> full_like(input, 0, dtype)
torch.ones_like, aten::ones_like(input, dtype=None) -> full_like(input, 1, dtype)
torch.full_like, aten::full_like(input, fill_value: number, dtype=None) -> full_like(input, fill_value, dtype)
Tensor.new_zeros, aten::new_zeros, Tensor.new_empty, aten::new_empty(input, size, dtype=None)
    -> full(size, 0, dtype, dtype(input))
Tensor.new_ones, aten::new_ones(input, size, dtype=None) -> full(size, 1, dtype, dtype(input))
Tensor.new_full, aten::new_full(input, size, fill_value: number, dtype=None)
    -> full(size, fill_value, dtype, dtype(input))
""",
    ignores=_IGNORED,
)
PNNX.having(full_like=_full_like).lower("""
Tensor.fill, aten::fill, aten::fill_(input, value: number) -> full_like(input, value)
torch.zero_, aten::zero_, aten::zero(input) -> full_like(input, 0)
""")


@emits("torch.arange", ignores=_IGNORED)
def arange(b: Builder, start: Any = None, end: Any = None, step: Any = None, dtype: Any = None) -> Value:
    if end is None:
        start, end = 0, start
    bounds = [0 if start is None else start, end, 1 if step is None else step]
    known = [constant_or_value(each) for each in bounds]
    if not any(isinstance(each, Value) for each in known):
        wanted = named_dtype(dtype) or (DType.INT64 if all(isinstance(each, int) for each in known) else _REAL)
        bounded(int(abs((known[1] - known[0]) / known[2])))
        return b.constant(np.arange(*known).astype(wanted.numpy), wanted)
    found = [dtype_of(each) if isinstance(each, Value) else _typed(each) for each in known]
    wanted = named_dtype(dtype) or next((each for each in found if each.is_floating), DType.INT64)
    # Integer ranges are computed in int64, float ranges in their own type.
    own = wanted if any(each.is_floating for each in found) else DType.INT64
    y = b(Range, *(_of_type(b, each, own) for each in known))
    return y if wanted is own else b(Cast, y, to=wanted)


def _of_type(b: Builder, bound: Any, dtype: DType) -> Value:
    """Convert a bound, a number or a tensor of one element, to a tensor of rank 0 with type `dtype`."""
    if not isinstance(bound, Value):
        return b.constant(bound, dtype)
    x = bound if not b.dims(bound) else b(Reshape, bound, [])
    return x if dtype_of(x) is dtype else b(Cast, x, to=dtype)


@emits("aten::arange")
def aten_arange(
    b: Builder, a: Any, b_: Any = ..., c: Any = ..., d: Any = ..., e: Any = ..., f: Any = ..., g: Any = ...
) -> Value:
    """aten::arange: one to three bounds, then the dtype and three ignored arguments."""
    given = [each for each in (a, b_, c, d, e, f, g) if each is not ...]
    count = len(given) - 4
    if count < 1:
        message = f"arange has {len(given)} arguments, expected 5 to 7"
        raise UnsupportedError(message)
    return arange(b, *given[:count], dtype=given[count])


@emits("torch.linspace", "aten::linspace", ignores=_IGNORED)
def linspace(b: Builder, start: Any, end: Any, steps: Any, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype) or _REAL
    count = constant_or_value(steps)
    if isinstance(count, Value):
        return _emit_linspace(
            b, float(scalar_of(start)), float(scalar_of(end)), _of_type(b, count, DType.INT64), wanted
        )
    return b.constant(
        np.linspace(scalar_of(start), scalar_of(end), reserve(int(scalar_of(steps)))).astype(wanted.numpy),
        wanted,
    )


def _emit_linspace(b: Builder, start: float, end: float, count: Value, dtype: DType) -> Value:
    """Return `count` equally spaced numbers from `start` to `end`; a single one is `start`."""
    one = b.constant(1, DType.INT64)
    indices = b(Cast, b(Range, b.constant(0, DType.INT64), count, one), to=_REAL)
    gaps = b(Cast, b(Max, b(Sub, count, one), one), to=_REAL)
    part = b(Div, b(Mul, indices, b.constant(end - start, _REAL)), gaps)
    y = b(Add, part, b.constant(start, _REAL))
    return y if dtype is _REAL else b(Cast, y, to=dtype)


@emits("torch.eye", ignores=_IGNORED)
def eye(b: Builder, n: Any, m: Any = None, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype) or _REAL
    rows = int(scalar_of(n))
    bounded(rows * (rows if m is None else int(scalar_of(m))))
    reserve(rows, rows if m is None else int(scalar_of(m)))
    return b.constant(np.eye(rows, rows if m is None else int(scalar_of(m))).astype(wanted.numpy), wanted)


@emits("torch.scalar_tensor", "torch.tensor", "aten::scalar_tensor", ignores=_IGNORED)
def scalar_tensor(b: Builder, s: Any = None, data: Any = None, dtype: Any = None) -> Value:
    value = scalar_of(s if s is not None else data)
    wanted = named_dtype(dtype) or _typed(value)
    return b.constant(value, wanted)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@Constant.export_rule(DIALECT)
def export_constant(b: Builder, **value: Any) -> Value | None:
    """Export Constant as `pnnx.Attribute`."""
    if "sparse_value" in value:
        return None
    return b.constant(constant_value(value))


@ConstantOfShape.export_rule(DIALECT)
def export_constant_of_shape(b: Builder, input: Value, *, value: Any = None) -> Value | None:
    dims = elements_of(input)
    size: Any = input if dims is None else computed_list(b, dims)
    if size is None:
        size = input
    number_ = 0.0 if value is None else value.numpy().reshape(-1)[0].item()
    dtype = _REAL if value is None else value.dtype
    if dtype is DType.FLOAT64 and isfinite(number_) and float(np.float32(number_)) != number_:
        # .param files contain float32 precision only.
        if isinstance(size, Value) or prod(size) > MOST_AT_ONCE:
            return None
        return b.constant(np.full(size, number_))
    name = next((name for name, own in DTYPES.items() if own is dtype), None)
    return called(b, "torch.full", size=size, fill_value=number_, dtype=name)


@Range.export_rule(DIALECT)
def export_range(b: Builder, start: Value, limit: Value, delta: Value) -> Value | None:
    """Export Range as `torch.arange`; bounds are numbers, expressions of sizes, or scalar tensors."""
    dtype = dtype_of(start)
    name = next((name for name, own in DTYPES.items() if own is dtype), None)
    bounds = {"start": _bound(b, start), "end": _bound(b, limit), "step": _bound(b, delta)}
    return None if name is None else called(b, "torch.arange", **bounds, dtype=name)


def _bound(b: Builder, bound: Value) -> Any:
    known = elements_of(bound)
    stated = None if known is None or dtype_of(bound) is not DType.INT64 else computed_number(b, known[0])
    if stated is not None:
        return stated
    numbers = constant_numbers(bound)
    if numbers is None or float(np.float32(numbers[0])) != numbers[0]:
        return bound
    return int(numbers[0]) if dtype_of(bound).is_integer else float(numbers[0])

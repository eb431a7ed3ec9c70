"""Tensor creation in exported programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import bounded, named_dtype, scalar_of
from graphport.formats.pytorch.rules.functions.generate import arange as pnnx_arange
from graphport.formats.pytorch.rules.functions.generate import fill
from graphport.formats.pytorch.rules.functions.reshape_shapes import extents, lengths
from graphport.formats.pytorch.rules.overloads import FUNCTIONAL, RULES, aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Cast, Ceil, Div, Mul, Pow, Sub
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.reshape import Expand, Unsqueeze
from graphport.ops.lowering.operands import dtype_of
from graphport.ops.pattern import constant_numbers

_INTEGRAL, _REAL = DType.INT64, DType.FLOAT32
FUNCTIONAL["aten.zero_"] = "aten.zeros_like"


@aten("aten.arange")
def arange(b: Builder, start: Any = None, end: Any = None, step: Any = None, dtype: Any = None) -> Value:
    """arange: start + step * i with integer i, like PyTorch's kernel, if the length is computed at run time."""
    if end is None:
        start, end = 0, start
    bounds = [0 if start is None else start, end, 1 if step is None else step]
    if not any(isinstance(each, Value) and each.storage is None for each in bounds):
        return pnnx_arange(b, *bounds, dtype=dtype)
    wanted = named_dtype(dtype) or (_REAL if any(_is_float_bound(each) for each in bounds) else _INTEGRAL)
    if not any(_is_float_bound(each) for each in bounds):
        found = b(Range, *(cast(b, _tensor(b, each), _INTEGRAL) for each in bounds))
        return cast(b, found, wanted)
    first, last, by = (cast(b, _tensor(b, each), DType.FLOAT64) for each in bounds)
    count = b(Cast, b(Ceil, b(Div, b(Sub, last, first), by)), to=_INTEGRAL)
    indices = b(Range, b.constant(0, _INTEGRAL), count, b.constant(1, _INTEGRAL))
    return cast(b, b(Add, first, b(Mul, cast(b, indices, DType.FLOAT64), by)), wanted)


@aten("aten.range")
def closed_range(b: Builder, start: Any, end: Any, step: Any = 1, dtype: Any = None) -> Value:
    """range: start + step * i up to and including `end`; the default dtype is float32, also for integers."""
    first, last, by = (scalar_of(each) for each in (start, end, step))
    count = bounded(int((last - first) / by) + 1)
    wanted = named_dtype(dtype) or _REAL
    return b.constant((first + by * np.arange(count)).astype(wanted.numpy), wanted)


def _is_float_bound(bound: Any) -> bool:
    return dtype_of(bound).is_floating if isinstance(bound, Value) else isinstance(bound, float)


def _tensor(b: Builder, bound: Any) -> Value:
    return bound if isinstance(bound, Value) else b.constant(bound)


RULES.having(extents=extents).lower("aten.fill.Tensor(self, value) -> Expand(cast(value, dtype(self)), extents(self))")


@aten("aten.full")
def full(b: Builder, size: Any, fill_value: Any, dtype: Any = None) -> Value:
    if not isinstance(fill_value, Value) or fill_value.storage is not None:
        value = scalar_of(fill_value)
        kind = DType.BOOL if isinstance(value, bool) else _INTEGRAL if isinstance(value, int) else _REAL
        return fill(b, lengths(b, size), value, named_dtype(dtype) or kind)
    kind = _REAL if _is_float_bound(fill_value) else dtype_of(fill_value)
    return b(Expand, cast(b, fill_value, named_dtype(dtype) or kind), lengths(b, size))


@aten("aten.full_like")
def full_like(b: Builder, self: Value, fill_value: Any, dtype: Any = None) -> Value:
    return full(b, extents(b, self), fill_value, dtype or f"torch.{dtype_of(self).text}")


@aten("aten.new_full")
def new_full(b: Builder, self: Value, size: Any, fill_value: Any, dtype: Any = None) -> Value:
    return full(b, size, fill_value, dtype or f"torch.{dtype_of(self).text}")


@aten("aten.empty_permuted", "aten.empty_strided", "aten.new_empty_strided", by_position=False)
def empty(
    b: Builder, size: Any, physical_layout: Any = None, stride: Any = None, self: Any = None, dtype: Any = None
) -> Value:
    """empty: zeros, because uninitialized elements have no defined value."""
    del physical_layout, stride
    own = dtype_of(self) if isinstance(self, Value) else _REAL
    return fill(b, lengths(b, size), 0, named_dtype(dtype) or own)


@aten("aten.scalar_tensor")
def scalar_tensor(b: Builder, s: Any, dtype: Any = None) -> Value:
    """Convert a scalar to a tensor; the default dtype is float32, also for integers."""
    wanted = named_dtype(dtype) or _REAL
    return cast(b, s, wanted) if isinstance(s, Value) and s.storage is None else b.constant(scalar_of(s), wanted)


@aten("aten.linspace")
def linspace(b: Builder, start: Any, end: Any, steps: Any, dtype: Any = None) -> Value:
    """linspace: the first half computed from the start, the second half from the end, like PyTorch."""
    wanted = named_dtype(dtype) or _REAL
    count = bounded(int(scalar_of(steps)))
    if all(constant_numbers(each) if isinstance(each, Value) else True for each in (start, end)):
        return b.constant(_spaced(scalar_of(start), scalar_of(end), count, wanted).astype(wanted.numpy), wanted)
    return cast(b, _linspace(b, start, end, count, wanted), wanted)


def _linspace(b: Builder, start: Any, end: Any, count: int, wanted: DType) -> Value:
    """Return `count` equally spaced elements between run-time bounds."""
    kind = wanted if wanted.is_floating else DType.FLOAT64
    first, last = (cast(b, each, kind) if isinstance(each, Value) else b.constant(each, kind) for each in (start, end))
    if count < 2:
        return b(Expand, first, [count])
    step = b(Div, b(Sub, last, first), b.constant(count - 1, kind))
    indices = np.arange(count)
    up = b(Add, first, b(Mul, step, b.constant(indices, kind)))
    down = b(Sub, last, b(Mul, step, b.constant(count - 1 - indices, kind)))
    return b(Where, b.constant(indices < count // 2), up, down)


def _spaced(start: float, end: float, count: int, dtype: DType) -> Any:
    kind = np.float64 if dtype is DType.FLOAT64 or not dtype.is_floating else np.float32
    if count < 2:
        return np.full(count, start, kind)
    step = (kind(end) - kind(start)) / kind(count - 1)
    indices = np.arange(count, dtype=kind)
    return np.where(indices < count // 2, kind(start) + step * indices, kind(end) - step * (count - 1 - indices))


@aten("aten.logspace")
def logspace(b: Builder, start: Any, end: Any, steps: Any, base: Any = 10.0, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype) or _REAL
    count = bounded(int(scalar_of(steps)))
    if not all(constant_numbers(each) if isinstance(each, Value) else True for each in (start, end)):
        exponents = _linspace(b, start, end, count, wanted)
        return cast(b, b(Pow, float(scalar_of(base)), exponents), wanted)
    exponents = _spaced(scalar_of(start), scalar_of(end), count, DType.FLOAT64)
    return b.constant(np.power(float(scalar_of(base)), exponents).astype(wanted.numpy), wanted)


@aten("aten.eye", "aten.eye.m")
def eye(b: Builder, n: Any, m: Any = None, dtype: Any = None) -> Value:
    wanted = named_dtype(dtype) or _REAL
    if any(isinstance(each, Value) and each.storage is None for each in (n, m)):
        rows, columns = (b(Range, *(_tensor(b, x) for x in (0, each, 1))) for each in (n, n if m is None else m))
        return cast(b, b(Equal, b(Unsqueeze, rows, [1]), columns), wanted)
    rows, columns = int(scalar_of(n)), int(scalar_of(n if m is None else m))
    if min(rows, columns) < 0:
        message = f"eye with a negative size: {rows} x {columns}"
        raise UnsupportedError(message)
    bounded(rows * columns)
    return b.constant(np.eye(rows, columns).astype(wanted.numpy), wanted)


@aten("prims.convert_element_type")
def convert_element_type(b: Builder, a: Value, dtype: Any) -> Value:
    return cast(b, a, named_dtype(dtype) or _REAL)


RULES.lower("prims.device_put(a) -> a", ignores=("device", "non_blocking"))


@aten("prims.iota", ignores=("device", "requires_grad"))
def iota(b: Builder, length: Any, start: Any, step: Any, dtype: Any) -> Value:
    """start + step * i for i in range(length)."""
    count = length if isinstance(length, Value) else b.constant(int(scalar_of(length)), DType.INT64)
    found = b(Range, b.constant(0, DType.INT64), count, b.constant(1, DType.INT64))
    by, first = (cast(b, _tensor(b, each), DType.INT64) for each in (step, start))
    scaled = b(Add, b(Mul, found, by), first)
    return cast(b, scaled, named_dtype(dtype) or _INTEGRAL)


def _triangle(b: Builder, row: int, col: int, offset: int, dtype: Any, *, upper: bool) -> Value:
    rows, columns = np.indices((bounded(row * max(col, 1)) // max(col, 1), col))
    mask = columns - rows >= offset if upper else columns - rows <= offset
    wanted = named_dtype(dtype) or _INTEGRAL
    return b.constant(np.stack(np.nonzero(mask)).astype(wanted.numpy), wanted)


@aten("aten.tril_indices")
def tril_indices(b: Builder, row: Any, col: Any, offset: Any = 0, dtype: Any = None) -> Value:
    return _triangle(b, int(scalar_of(row)), int(scalar_of(col)), int(scalar_of(offset)), dtype, upper=False)


@aten("aten.triu_indices")
def triu_indices(b: Builder, row: Any, col: Any, offset: Any = 0, dtype: Any = None) -> Value:
    return _triangle(b, int(scalar_of(row)), int(scalar_of(col)), int(scalar_of(offset)), dtype, upper=True)


# Operators below ATen that some decompositions emit.
RULES.lower("""
prims.scalar_tensor -> aten::scalar_tensor
aten.new_empty -> aten::new_zeros
""")

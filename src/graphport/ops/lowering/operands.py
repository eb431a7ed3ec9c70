"""Queries and small conversions of operands for rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from typing import cast as as_type

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import MOST_ELEMENTS, TensorFact, Unknown
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Abs, Add, Floor, Mul, Sign
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.indexing import Slice
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Transpose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_NUMBERS = frozenset((int,))


def dtype_of(value: Value) -> DType:
    """Return the dtype; raises `Unknown` if it is not known."""
    dtype = value.dtype
    if dtype is None:
        raise Unknown
    return dtype


def integers(value: Value | None) -> tuple[int, ...] | None:
    """Return the elements of a short integer tensor, flattened; `None` if they are not known."""
    found = _flat(value)
    if found is None or _NUMBERS.issuperset(map(type, found)):
        return as_type("tuple[int, ...] | None", found)
    return None if any(isinstance(x, float) for x in found) else tuple(int(x) for x in found)


def float_elements(value: Value | None) -> tuple[float, ...] | None:
    """Return the elements of a short tensor as floats, flattened; `None` if they are not known."""
    found = _flat(value)
    return None if found is None else tuple(float(x) for x in found)


def float_element(value: Value | None) -> float | None:
    """Return the element of a known one-element tensor as a float; `None` for other values."""
    found = _flat(value)
    return None if found is None or len(found) != 1 else float(found[0])


def _flat(value: Value | None) -> tuple[float, ...] | None:
    if value is None or not isinstance(value.fact, TensorFact):
        return None
    known = value.fact.elements
    if known is not None and _NUMBERS.issuperset(map(type, known)):
        return as_type("tuple[int, ...]", known)
    if value.fact.reals is not None:
        return value.fact.reals
    storage = value.storage
    is_stand_in = value.graph is None
    if storage is None or storage.count > MOST_ELEMENTS or storage.dtype is DType.STRING:
        return None
    if not (is_stand_in or value.is_constant):
        return None
    return tuple(storage.numpy().reshape(-1).tolist())


def needed(value: Value | None, what: str) -> tuple[int, ...]:
    """Return the integers of an operand that must be constant.

    Raises:
        UnsupportedError: they are not known.
    """
    found = integers(value)
    if found is None:
        message = f"{what} must be constant"
        raise UnsupportedError(message)
    return found


def check_counts(count: int, **lists: Sequence[Any] | None) -> None:
    """Check that each list has `count` entries; `None` means unknown.

    Raises:
        ShapeError: one has not.
    """
    for name, entries in lists.items():
        if entries is not None and len(entries) != count:
            message = f"{name} has {len(entries)} entries, expected {count}"
            raise ShapeError(message)


def translate(name: str, given: str, table: Mapping[str, str]) -> str:
    """Return the entry of a table for the value of the attribute `name`.

    Raises:
        ShapeError: the table has no entry for it.
    """
    found = table.get(given)
    if found is None:
        message = f"{name} is {given!r:.60}, expected one of {', '.join(table)}"
        raise ShapeError(message)
    return found


def needed_integer(value: Value | None, what: str) -> int:
    """Return the integer of a one-element operand that must be constant.

    Raises:
        ShapeError: it has another number of elements.
        UnsupportedError: they are not known.
    """
    found = needed(value, what)
    if len(found) != 1:
        message = f"{what} has {len(found)} elements, expected 1"
        raise ShapeError(message)
    return found[0]


def sizes(dims: Sequence[Dim], what: str = "a shape") -> tuple[int, ...]:
    """Return `dims` as integers.

    Raises:
        UnsupportedError: a dim is symbolic.
    """
    found = tuple(dim for dim in dims if isinstance(dim, int))
    if len(found) != len(dims):
        message = f"{what} must be known"
        raise UnsupportedError(message)
    return found


def vector(b: Builder, numbers: Sequence[int]) -> Value:
    """Create an int64 constant of rank 1; raises `ShapeError` if an element is not a 64-bit integer."""
    return b.integers(numbers)


def index(b: Builder, number: int) -> Value:
    """Create an int64 scalar: an index or an axis."""
    return b.integers(number)


def scalar(b: Builder, number: float, dtype: DType) -> Value:
    """Create a scalar constant."""
    with np.errstate(over="ignore"):
        return b.constant(np.asarray(number).astype(dtype.numpy), dtype)


def ends_of(dtype: DType) -> tuple[float, float]:
    """Return the limits of a dtype: infinities, or the smallest and largest integer."""
    return (-np.inf, np.inf) if dtype.is_floating else finite_limits(dtype)


def finite_limits(dtype: DType) -> tuple[float, float]:
    """Return the smallest and largest finite number of a dtype.

    Raises:
        ShapeError: the dtype has no order (bool, complex, string).
    """
    if not (dtype.is_floating or dtype.is_integer):
        message = f"a tensor of {dtype}, expected floats or integers"
        raise ShapeError(message)
    return dtype.finite_limits


def cast(b: Builder, value: Value, dtype: DType) -> Value:
    """Cast `value` to a dtype; return it unchanged if it has that dtype."""
    own = value.dtype
    return value if own is dtype else b(Cast, value, to=dtype)


def in_float32(b: Builder, x: Value) -> Value:
    """Cast float16 and bfloat16 to float32; return other tensors unchanged."""
    return cast(b, x, DType.FLOAT32) if dtype_of(x) in (DType.FLOAT16, DType.BFLOAT16) else x


def as_index(b: Builder, value: Value) -> Value:
    """Return `value` unchanged if it is int32 or int64, else cast it to int64."""
    return value if dtype_of(value) in (DType.INT32, DType.INT64) else as_int64(b, value)


def as_int64(b: Builder, value: Value) -> Value:
    """Cast `value` to int64; a constant is folded."""
    if dtype_of(value) is DType.INT64:
        return value
    found = integers(value)
    if found is None:
        return b(Cast, value, to=DType.INT64)
    return b.constant(np.array(found, np.int64).reshape(sizes(b.dims(value))))


def as_vector(b: Builder, value: Value) -> Value:
    """Return a scalar or a vector as an int64 vector."""
    found = integers(value)
    if found is not None:
        return vector(b, found)
    value = as_int64(b, value)
    return value if b.dims(value) else b(Reshape, value, [1])


def as_scalar(b: Builder, value: Value) -> Value:
    """Reshape a one-element tensor to rank 0."""
    return b(Reshape, value, []) if b.dims(value) else value


def transposed(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """Permute the axes of `x`; return it unchanged for the identity."""
    return x if list(perm) == list(range(len(perm))) else b(Transpose, x, perm=tuple(perm))


def reshaped(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Reshape `x`; -1 and 0 have the meaning of `Reshape`. A constant is folded."""
    known = all(n > 0 for n in shape)
    return (b.reshaped(x, shape) if known else None) or b(Reshape, x, shape)


def distinct_axes(b: Builder, x: Value, axes: Value) -> Value | None:
    """Return the axes of a reduction of `x` without duplicates, from 0; `None` if there are none.

    Raises:
        ShapeError: an axis is out of range.
    """
    found = integers(axes)
    if found is None:
        return as_vector(b, axes)
    rank = len(b.dims(x))
    if any(not -rank <= axis < rank for axis in found):
        message = f"axes {list(found)} are out of range for a tensor of rank {rank}"
        raise ShapeError(message)
    return vector(b, list(dict.fromkeys(axis % rank for axis in found))) if found else None


def zero_padded(b: Builder, x: Value, count: Value) -> Value:
    """Return the first `count` [1] elements of the vector `x`, with zeros after its end."""
    return b(Slice, b(Concat, x, b(Expand, b.like(x, 0), count), axis=0), [0], count, [0])


def slice_axis(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """Return the elements `start` to `stop` of `x` along `axis`."""
    return b(Slice, x, [start], [stop], [axis])


def truncate(b: Builder, x: Value) -> Value:
    """Round toward zero."""
    return b(Mul, b(Sign, x), b(Floor, b(Abs, x)))


def round_half_away(b: Builder, x: Value) -> Value:
    """Round to the nearest integer, ties away from zero."""
    return b(Mul, b(Sign, x), b(Floor, b(Add, b(Abs, x), 0.5)))

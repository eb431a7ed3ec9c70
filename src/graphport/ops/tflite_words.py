"""What liftings to TFLite have in common: its words with their facts, and constants as it wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.spill import kept
from graphport.ops.declare import UnsupportedError
from graphport.ops.inner import say
from graphport.ops.operands import dtype_of, integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_LARGEST = (1 << 31) - 1


def ints(b: Builder, numbers: Sequence[int] | Sequence[Sequence[int]] | int) -> Value:
    """A constant of int32; what is larger becomes the largest, as ends of slices are.

    Raises:
        UnsupportedError: a number is less than all of int32.
    """
    return b.constant(np.clip(np.array(numbers, np.int64), -_LARGEST, _LARGEST).astype(np.int32))


def in_int32(b: Builder, value: Value) -> Value:
    """Indices or extents in int32; of a constant, a constant."""
    if dtype_of(value) is DType.INT32:
        return value
    told = integers(value)
    if told is not None:
        shape = [n for n in b.dims(value) if isinstance(n, int)]
        return ints(b, np.array(told, np.int64).reshape(shape).tolist())
    return cast_to(b, value, DType.INT32)


def cast_to(b: Builder, value: Value, dtype: DType) -> Value:
    """A value in an element type; itself if it has that."""
    return value if dtype_of(value) is dtype else say(b, "CAST", value, types=(dtype,))


def array_of(value: Value | None) -> np.ndarray[Any, Any] | None:
    """The numbers of a constant; `None` of anything else."""
    if value is None or not value.is_constant or value.storage is None:
        return None
    return value.storage.numpy()


def needed_array(value: Value | None, what: str) -> np.ndarray[Any, Any]:
    """The numbers of a constant.

    Raises:
        UnsupportedError: it is computed.
    """
    found = array_of(value)
    if found is None:
        message = f"{what} must be constant"
        raise UnsupportedError(message)
    return found


def turned(b: Builder, value: Value, perm: Sequence[int]) -> Value:
    """A value with its axes in another order; a constant stays one."""
    if list(perm) == list(range(len(perm))):
        return value
    array = array_of(value)
    if array is None:
        return say(b, "TRANSPOSE", value, ints(b, list(perm)))
    return b.constant(kept(np.ascontiguousarray(array.transpose(perm)), dtype_of(value)), name=value.name)


def shaped(b: Builder, value: Value, dims: Sequence[Dim]) -> Value:
    """A value in another shape, of which one extent may be open.

    Raises:
        UnsupportedError: more are.
    """
    numbers = [n if isinstance(n, int) else -1 for n in dims]
    if numbers.count(-1) > 1:
        message = "the shape must be known"
        raise UnsupportedError(message)
    constant = b.reshaped(value, numbers) if -1 not in numbers else None
    return constant or say(b, "RESHAPE", value, ints(b, numbers))

"""Broadcasting that aligns the first dims (NNEF), expressed by ONNX's, which aligns the last dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.shapes import broadcast

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def append_axes(b: Builder, *operands: Value) -> list[Value]:
    """Append axes of length 1 to the operands up to the highest rank among them.

    Scalars are unchanged: they broadcast in both conventions.
    """
    rank = max(len(b.dims(operand)) for operand in operands)
    return [_append_axes_to_rank(b, operand, rank) for operand in operands]


def _append_axes_to_rank(b: Builder, operand: Value, rank: int) -> Value:
    count = len(b.dims(operand))
    return operand if count == 0 else _append_axes(b, operand, rank - count)


def prepend_axes(b: Builder, *operands: Value) -> list[Value]:
    """Prepend axes of length 1 to NNEF operands up to the highest rank; a one-element constant becomes a scalar.

    A one-element constant keeps its axes if no other operand determines the rank of the result.
    """
    rank = max(len(b.dims(operand)) for operand in operands)
    is_free = any(len(b.dims(operand)) == rank and not _is_one_element_constant(operand) for operand in operands)
    return [_prepend_axes(b, operand, rank, is_free=is_free) for operand in operands]


def _is_one_element_constant(operand: Value) -> bool:
    return operand.storage is not None and operand.storage.count == 1 and operand.is_constant


def _prepend_axes(b: Builder, operand: Value, rank: int, *, is_free: bool) -> Value:
    dims = b.dims(operand)
    if is_free and dims and _is_one_element_constant(operand):
        return b.reshaped(operand, ()) or operand
    if len(dims) in (0, rank):
        return operand
    shape = (*[1] * (rank - len(dims)), *dims)
    if (constant := _reshaped(b, operand, shape)) is not None:
        return constant
    fact = TensorFact(operand.dtype, shape)
    return b.emit("unsqueeze", operand, facts=[fact], axes=tuple(range(rank - len(dims))))[0]


def _reshaped(b: Builder, operand: Value, shape: tuple[object, ...]) -> Value | None:
    numbers = [dim for dim in shape if isinstance(dim, int)]
    return b.reshaped(operand, numbers) if len(numbers) == len(shape) else None


def emit_elementwise(b: Builder, op_type: str, *operands: Value, dtype: DType | None = None) -> tuple[Value, ...]:
    """Emit an element-wise NNEF op type on operands aligned at the last dim; the dtype is that of the last operand."""
    last = operands[-1].fact
    own = last.dtype if isinstance(last, TensorFact) else None
    shape = broadcast(*(b.dims(operand) for operand in operands))
    return b.emit(op_type, *prepend_axes(b, *operands), facts=[TensorFact(dtype or own, shape)])


def emit_chain(b: Builder, op_type: str, *operands: Value) -> tuple[Value, ...]:
    """Apply a binary op type to any number of operands from left to right; a single operand is copied."""
    if not operands:
        message = f"{op_type} has no operands"
        raise UnsupportedError(message)
    if len(operands) == 1:
        return b.emit("copy", operands[0], facts=[operands[0].fact])
    total = operands[0]
    for operand in operands[1:]:
        (total,) = emit_elementwise(b, op_type, total, operand)
    return (total,)


def align_from_axis(b: Builder, operand: Value, x: Value, axis: int) -> Value:
    """Append axes of length 1 to an operand so that it begins at `axis` of `x` (the `axis` of old ONNX opsets).

    Raises:
        ShapeError: `x` does not have the axis, or the operand has more axes than `x` from `axis` on.
    """
    rank, dims = len(b.dims(x)), b.dims(operand)
    if not -rank <= axis <= rank:
        message = f"axis {axis} of a tensor of rank {rank}"
        raise ShapeError(message)
    behind = rank - (axis + rank if axis < 0 else axis) - len(dims)
    if behind < 0:
        message = f"the {len(dims)} axes of b do not fit into rank {rank} from axis {axis} on"
        raise ShapeError(message)
    return _append_axes(b, operand, behind)


def _append_axes(b: Builder, operand: Value, count: int) -> Value:
    """Append `count` axes of length 1 to `operand`."""
    dims = b.dims(operand)
    if not count:
        return operand
    if (constant := _reshaped(b, operand, (*dims, *[1] * count))) is not None:
        return constant
    return b(Unsqueeze, operand, b.constant(np.arange(len(dims), len(dims) + count, dtype=np.int64)))

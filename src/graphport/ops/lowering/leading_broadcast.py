"""Broadcasting that aligns first dims, as NNEF has it, in terms of ONNX's, which aligns the last ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.pages.reshape import Unsqueeze
from graphport.ops.shapes import broadcast

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def trailed(b: Builder, *operands: Value) -> list[Value]:
    """The operands with axes of 1 behind their last one, so that all have the highest rank among them.

    Tensors of rank 0 stay: they align anywhere.
    """
    rank = max(len(b.dims(operand)) for operand in operands)
    return [_padded(b, operand, rank) for operand in operands]


def _padded(b: Builder, operand: Value, rank: int) -> Value:
    count = len(b.dims(operand))
    return operand if count == 0 else _trailed_by(b, operand, rank - count)


def led(b: Builder, *operands: Value) -> list[Value]:
    """The other way round: NNEF operands with axes of 1 in front of their first one; a constant number becomes rank 0.

    A number keeps its axes if nothing else gives the result its rank.
    """
    rank = max(len(b.dims(operand)) for operand in operands)
    is_free = any(len(b.dims(operand)) == rank and not _is_number(operand) for operand in operands)
    return [_led(b, operand, rank, is_free=is_free) for operand in operands]


def _is_number(operand: Value) -> bool:
    return operand.storage is not None and operand.storage.count == 1 and operand.is_constant


def _led(b: Builder, operand: Value, rank: int, *, is_free: bool) -> Value:
    dims = b.dims(operand)
    if is_free and dims and _is_number(operand):
        return b.reshaped(operand, ()) or operand
    if len(dims) in (0, rank):
        return operand
    shape = (*[1] * (rank - len(dims)), *dims)
    if (constant := _reshaped(b, operand, shape)) is not None:
        return constant
    fact = TensorFact(operand.dtype, shape)
    return b.word("unsqueeze", operand, facts=[fact], axes=tuple(range(rank - len(dims))))[0]


def _reshaped(b: Builder, operand: Value, shape: tuple[object, ...]) -> Value | None:
    numbers = [dim for dim in shape if isinstance(dim, int)]
    return b.reshaped(operand, numbers) if len(numbers) == len(shape) else None


def emitted(b: Builder, word: str, *operands: Value, dtype: DType | None = None) -> tuple[Value, ...]:
    """One elementwise word of NNEF on operands that align at the last dim; its element type is that of the last one."""
    last = operands[-1].fact
    own = last.dtype if isinstance(last, TensorFact) else None
    shape = broadcast(*(b.dims(operand) for operand in operands))
    return b.word(word, *led(b, *operands), facts=[TensorFact(dtype or own, shape)])


def chained(b: Builder, word: str, *operands: Value) -> tuple[Value, ...]:
    """A binary word on any number of operands, one after another; of one, a copy."""
    if not operands:
        message = f"{word} of nothing"
        raise UnsupportedError(message)
    if len(operands) == 1:
        return b.word("copy", operands[0], facts=[operands[0].fact])
    total = operands[0]
    for operand in operands[1:]:
        (total,) = emitted(b, word, total, operand)
    return (total,)


def from_axis(b: Builder, operand: Value, x: Value, axis: int) -> Value:
    """An operand with axes of 1 behind, so that it begins at `axis` of `x`, as ONNX had it at first.

    Raises:
        ShapeError: it has more axes than are left there.
    """
    rank, dims = len(b.dims(x)), b.dims(operand)
    behind = rank - (axis + rank if axis < 0 else axis) - len(dims)
    if behind < 0:
        message = f"the {len(dims)} axes of b do not fit into rank {rank} from axis {axis} on"
        raise ShapeError(message)
    return _trailed_by(b, operand, behind)


def _trailed_by(b: Builder, operand: Value, count: int) -> Value:
    """`operand` with `count` axes of 1 behind its last one."""
    dims = b.dims(operand)
    if not count:
        return operand
    if (constant := _reshaped(b, operand, (*dims, *[1] * count))) is not None:
        return constant
    return b(Unsqueeze, operand, b.constant(np.arange(len(dims), len(dims) + count, dtype=np.int64)))

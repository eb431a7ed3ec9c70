"""Broadcasting that aligns first dims, as NNEF has it, in terms of ONNX's, which aligns the last ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import lift, lower
from graphport.ops.reshape import Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


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
    """The other way round: NNEF operands with axes of 1 in front of their first one."""
    rank = max(len(b.dims(operand)) for operand in operands)
    return [_led(b, operand, rank) for operand in operands]


def _led(b: Builder, operand: Value, rank: int) -> Value:
    dims = b.dims(operand)
    if len(dims) in (0, rank):
        return operand
    shape = (*[1] * (rank - len(dims)), *dims)
    if (constant := _reshaped(b, operand, shape)) is not None:
        return constant
    fact = TensorFact(operand.fact.dtype if isinstance(operand.fact, TensorFact) else None, shape)
    return b.word("unsqueeze", operand, facts=[fact], axes=tuple(range(rank - len(dims))))[0]


def _reshaped(b: Builder, operand: Value, shape: tuple[object, ...]) -> Value | None:
    numbers = [dim for dim in shape if isinstance(dim, int)]
    return b.reshaped(operand, numbers) if len(numbers) == len(shape) else None


def spelled(page: Page, word: str) -> None:
    """Register `word` of NNEF for an elementwise page, both ways."""

    @lower("nnef", word)
    def lowered(b: Builder, *operands: Value) -> Value:
        return b(page, *trailed(b, *operands))

    @lift("nnef", page.name)
    def lifted(b: Builder, *operands: Value) -> tuple[Value, ...]:
        return b.word(word, *led(b, *operands))


def explicit_broadcast(page: Page, until: int) -> None:
    """Register the form of a binary operator that broadcasts `b` only if `broadcast` is set, from `axis` of `a` on."""

    @lower("onnx", page.name, until=until)
    def lowered(
        builder: Builder,
        a: Value,
        b: Value,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: tuple[int, ...] | None = None,
    ) -> Value:
        del consumed_inputs
        if not broadcast or axis is None:
            return builder(page, a, b)
        rank, dims = len(builder.dims(a)), builder.dims(b)
        behind = rank - (axis + rank if axis < 0 else axis) - len(dims)
        return builder(page, a, _trailed_by(builder, b, max(behind, 0)))


def _trailed_by(b: Builder, operand: Value, count: int) -> Value:
    """`operand` with `count` axes of 1 behind its last one."""
    dims = b.dims(operand)
    if not count:
        return operand
    if (constant := _reshaped(b, operand, (*dims, *[1] * count))) is not None:
        return constant
    return b(Unsqueeze, operand, b.constant(np.arange(len(dims), len(dims) + count, dtype=np.int64)))

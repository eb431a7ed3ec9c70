"""Copies along an axis that tract would lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ir.graph import Node
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_FARTHEST = 32
"""So many readers are looked at."""


def protect_copies(b: Builder, copies: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return max(value, value) instead of plain copies that are part of a MatMul factor.

    tract pushes the copy through the concatenation and the product, and then finds one element instead of several.
    """
    (value,) = copies
    dtype = value.dtype
    if dtype not in (DType.FLOAT32, DType.FLOAT16) or not _is_part_of_a_factor(b):
        return copies
    return b.emit("max", value, value)


def _is_part_of_a_factor(b: Builder) -> bool:
    """Whether the result is concatenated and then used as a MatMul factor, possibly transposed."""
    b.looks_around = True
    pending = [] if b.before is None else [(value, False) for value in b.before.results]
    for _ in range(_FARTHEST):
        if not pending:
            return False
        value, is_joined = pending.pop()
        users = [user for user, _ in value.uses if isinstance(user, Node)]
        for user in users:
            op_def = registry.op_defs().get(user.op)
            if op_def is None:
                continue
            if is_joined and op_def.macs is not None:
                return True
            if op_def.moves_data:
                pending += [(result, is_joined or user.op == "Concat") for result in user.results]
    return False

"""The operands and the result of a kernel as its code sees them."""

from __future__ import annotations

from dataclasses import dataclass

from graphport.expression.fused.vector import BITS

STRIP = 256
"""Elements of an intermediate value that segments hand on."""
ALIGNMENT = 64
"""Bytes to which buffers are aligned, and the result where stores bypass the cache."""


@dataclass(frozen=True, slots=True)
class Memory:
    """An operand or the result: its place in the tables of pointers and strides, and its element."""

    position: int
    index: int
    """Which argument of the function that Python calls it is."""
    element: str
    mode: str

    @property
    def bytes(self) -> int:
        return BITS[self.element] // 8


def fetched(name: str, of: str, table: str, offset: int) -> list[str]:
    """Emit a load of a table entry at `offset` bytes."""
    return [f"  {name}.at = getelementptr i8, ptr {table}, i64 {offset}", f"  {name} = load {of}, ptr {name}.at"]

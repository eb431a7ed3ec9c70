"""What NNEF keeps from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.declare import lower
from graphport.ops.pages.reshape import Identity

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("nnef", "update")
def update(b: Builder, variable: Value, value: Value) -> Value:
    """The new value. That the next run begins with it is said by the graph around: the variable is an input of it."""
    return b(Identity, value)

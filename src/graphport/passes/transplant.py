"""Nodes of a body, put into the graph around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.transplant import transplant
from graphport.passes.substitution import take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Value


def hand_over(old: Value, new: Value) -> None:
    """Let `new` stand for `old`, by its name if it is free to take it."""
    # What is read or returned already, or is no result, has a name of its own to keep.
    if new.producer is not None and new.graph is old.graph and not new.uses:
        take_over(old, new)
    else:
        rewrite.replace(old, new)


__all__ = ["hand_over", "transplant"]

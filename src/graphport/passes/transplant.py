"""Move the nodes of a body into the surrounding graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.transplant import transplant
from graphport.passes.substitution import take_over

if TYPE_CHECKING:
    from graphport.ir.graph import Value


def replace_keeping_name(old: Value, new: Value) -> None:
    """Replace `old` by `new`, with the name of `old` if it is free."""
    # A value that is used or an output already, or is not a result, keeps its name.
    if new.producer is not None and new.graph is old.graph and not new.uses:
        take_over(old, new)
    else:
        rewrite.replace(old, new)


__all__ = ["replace_keeping_name", "transplant"]

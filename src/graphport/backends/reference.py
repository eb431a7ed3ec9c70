"""The reference interpreter: operator definitions computed node by node; slow, the baseline of comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.backends.interpreter import InterpreterSession, check
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def prepare(graph: Graph) -> InterpreterSession:
    """`graph` ready to run.

    Raises:
        DiagnosticError: RUN0003 names every operator that has no page.
    """
    check(graph)
    return InterpreterSession(graph, registry.op_defs())

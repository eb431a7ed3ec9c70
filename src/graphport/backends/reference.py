"""The pages and nothing else, one node after another: slow, and what the others are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.backends.pages import PagesSession, check
from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def prepare(graph: Graph) -> PagesSession:
    """`graph` ready to run.

    Raises:
        DiagnosticError: RUN0003 names every operator that has no page.
    """
    check(graph)
    return PagesSession(graph, registry.pages())

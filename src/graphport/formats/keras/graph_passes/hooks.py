"""Passes after the import rules of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.ops.layout import settle
from graphport.ops.layout_constants import fold_layouts, merge_into_reshapes
from graphport.ops.layout_of_operators import OperatorLayouts

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def after(graph: Graph) -> None:
    """Cancel the Transposes around convolutions and poolings: convert the operators between them to channels-first."""
    for inner in walk(graph):
        fold_layouts(inner)
        settle(inner, OperatorLayouts())
        merge_into_reshapes(inner)
    rewrite.remove_dead(graph)

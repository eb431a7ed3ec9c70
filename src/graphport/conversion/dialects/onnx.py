"""ONNX models define functions, and call them like operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx import inline_functions

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def before(graph: Graph) -> None:
    """Put the content of each function in the place of its calls."""
    inline_functions(graph)

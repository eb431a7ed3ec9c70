"""tract's NNEF says beside its operations how tensors are quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion import quantization_file

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def before(graph: Graph) -> None:
    """Spell quantizations out."""
    quantization_file.expand_quantization(graph)

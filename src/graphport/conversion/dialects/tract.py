"""tract's NNEF says beside its operations how tensors are quantized, and recurrent layers as loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.conversion import quantization_file
from graphport.conversion.settled import settle_inputs
from graphport.ops.loops.recurrent import recognize

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def before(graph: Graph) -> None:
    """Spell quantizations out."""
    quantization_file.expand_quantization(graph)


def before_lifting(graph: Graph) -> None:
    """Let inputs have the extents that operators leave them: tract holds what is written against its own arithmetic."""
    settle_inputs(graph)


def after(graph: Graph) -> None:
    """Let loops that are recurrent layers be these."""
    recognize(graph)

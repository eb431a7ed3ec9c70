"""Nodes that the written file computes in narrower floats than the source does anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Node
    from graphport.proof.side import Side

_NARROW = (DType.FLOAT16, DType.BFLOAT16)
_MAX_LISTED = 3


def narrowed_nodes(a: Side, b: Side) -> tuple[str, ...]:
    """Phrases of the nodes of `b` that compute in float16 or bfloat16 although `a` computes in wider floats.

    Runtimes may compute such nodes in float32 and so hide the rounding that the file states.
    """
    if any(True for _ in _narrow_nodes(a.graph)):
        return ()
    names = [node.name or node.outputs[0].name for node in _narrow_nodes(b.graph) if node.outputs and node.outputs[0]]
    if not names:
        return ()
    more = f" and {len(names) - _MAX_LISTED} more nodes" if len(names) > _MAX_LISTED else ""
    return (f"the rounding to half precision that {b.label} states at {', '.join(names[:_MAX_LISTED])}{more}",)


def _narrow_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes that compute, and not only cast, narrow floats."""
    for inner in walk(graph):
        for node in inner:
            if node.op != "Cast" and any(value.dtype in _NARROW for value in node.results):
                yield node

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
_WIDE = (DType.FLOAT32, DType.FLOAT64)
_MAX_LISTED = 3


def narrowed_nodes(a: Side, b: Side) -> tuple[str, ...]:
    """Return phrases of the nodes of `b` that compute in float16 or bfloat16 although `a` uses float32 or float64.

    Runtimes may compute them in float32 and so skip the rounding that the file specifies.
    """
    if any(True for _ in _narrow_nodes(a.graph)):
        return ()
    names = [node.name or node.outputs[0].name for node in _narrow_nodes(b.graph) if node.outputs and node.outputs[0]]
    if not names:
        return ()
    more = f" and {len(names) - _MAX_LISTED} more nodes" if len(names) > _MAX_LISTED else ""
    return (f"the rounding to half precision that {b.label} states at {', '.join(names[:_MAX_LISTED])}{more}",)


def _narrow_nodes(graph: Graph) -> Iterator[Node]:
    """Return the nodes that compute narrow floats, and the casts that round other nodes' results."""
    for inner in walk(graph):
        for node in inner:
            if any(value.dtype in _NARROW for value in node.results) and (node.op != "Cast" or _rounds(node)):
                yield node


def _rounds(cast: Node) -> bool:
    """Whether a cast rounds an inner value of a wider float type; casts at inputs and outputs do not count."""
    operand, result = cast.operands[0], cast.results[0]
    return operand.producer is not None and not result.is_output and operand.dtype in _WIDE

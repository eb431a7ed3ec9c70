"""One way to quantize a graph, and what it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.quantization.placement import moves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Value
    from graphport.quantization.engine import Noise
    from graphport.quantization.insert_qdq import Quantization
    from graphport.quantization.layerwise import Follower
    from graphport.quantization.observe import Statistics


@dataclass(slots=True, eq=False)
class Candidate:
    """One way to quantize: the real graph that it begins with, what was decided, and what it is worth.

    `floating` names the layers that were decided to stay real although they need not.
    """

    graph: Graph
    quantization: Quantization
    states: dict[Value, Statistics]
    noise: Noise | None = None
    follower: Follower | None = None
    floating: tuple[str, ...] = ()


def root_with_qparams(value: Value, all_qparams: Mapping[Value, object]) -> Value | None:
    """The value, above `value` over nodes that only move numbers, that has a grid."""
    while value not in all_qparams:
        if value.producer is None or not moves(value.producer):
            return None
        value = value.producer.operands[0]
    return value

"""A candidate: a placement with qparams and its measured noise."""

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
    """A candidate result: the float graph, the quantization decisions for it, and the measured noise.

    `floating` contains the names of layers that stay float by choice.
    """

    graph: Graph
    quantization: Quantization
    states: dict[Value, Statistics]
    noise: Noise | None = None
    follower: Follower | None = None
    floating: tuple[str, ...] = ()


def root_with_qparams(value: Value, all_qparams: Mapping[Value, object]) -> Value | None:
    """Return the value with qparams that `value` is derived from by data movement only."""
    while value not in all_qparams:
        if value.producer is None or not moves(value.producer):
            return None
        value = value.producer.operands[0]
    return value

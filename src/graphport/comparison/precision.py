"""How equal a rewritten network can be that computes in fewer bits than single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph

LEAST: Mapping[DType, float] = {DType.FLOAT16: 50.0, DType.BFLOAT16: 30.0}
"""Decibels by element type: one rounding has 77 with 11 bits and 59 with 8, every tenfold of roundings costs 10."""


def least_snr(graph: Graph) -> float | None:
    """Decibels that outputs of a rewriting of `graph` reach: it rounds as often, but at other places.

    `None` where nothing is computed in half precision: then the usual tolerance holds.
    """
    dtypes = {
        value.fact.dtype
        for inner in walk(graph)
        for node in inner
        for value in node.results
        if isinstance(value.fact, TensorFact)
    }
    return min((LEAST[dtype] for dtype in LEAST if dtype in dtypes), default=None)

"""How equal a rewritten network can be that computes in fewer bits than single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import walk
from graphport.ops.definitions.quantization import QuantizeLinear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph

LEAST: Mapping[DType, float] = {DType.FLOAT16: 50.0, DType.BFLOAT16: 30.0}
"""Decibels by element type: one rounding has 77 with 11 bits and 59 with 8, every tenfold of roundings costs 10."""


QUANTIZED = 25.0
"""Decibels where integers of eight bits are rounded to neighbours here and there."""


def quantized_snr(graph: Graph) -> float | None:
    """Return the SNR in dB of outputs if each quantized value may be off by one step; `None` for float models."""
    words = {node.op_type for inner in walk(graph) for node in inner if not node.dialect}
    return QUANTIZED if QuantizeLinear.name in words else None


def least_snr(graph: Graph) -> float | None:
    """Return the minimum SNR in dB of the outputs of a rewritten `graph`, whose roundings occur at other nodes.

    `None` if no node computes in float16: then the default tolerance applies.
    """
    dtypes = {
        value.fact.dtype
        for inner in walk(graph)
        for node in inner
        for value in node.results
        if isinstance(value.fact, TensorFact)
    }
    return min((LEAST[dtype] for dtype in LEAST if dtype in dtypes), default=None)

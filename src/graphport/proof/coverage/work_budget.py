"""A limit of a search's work that is independent of the machine's load, so that repeated proofs try equal inputs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Node

_SECONDS_PER_NODE = 2e-5
_ELEMENTS_PER_SECOND = 1e8
_MACS_PER_SECOND = 1e9
_WEIGHT_BYTES_PER_SECOND = 5e8
"""Each run reads the pages of a mapped file."""
_MAX_SLOWDOWN = 8.0
"""Times the estimate that the processor may really take."""


@dataclass(slots=True)
class WorkBudget:
    """Estimated seconds of the reference interpreter, counted node by node."""

    seconds: float
    spent: float = 0.0
    _start: float = 0.0

    def begin(self) -> None:
        """Begin to count."""
        self._start = time.process_time()

    @property
    def is_over(self) -> bool:
        """Whether the budget is exhausted."""
        return self.spent >= self.seconds

    def count(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Count one run of a node.

        Raises:
            TimeoutError: the budget is exhausted.
        """
        elements = sum(getattr(array, "size", 0) for array in results)
        self.spent += _SECONDS_PER_NODE + elements / _ELEMENTS_PER_SECOND
        self.spent += elements * _macs_per_element(node, operands) / _MACS_PER_SECOND
        if self.is_over or time.process_time() - self._start > _MAX_SLOWDOWN * self.seconds:
            raise TimeoutError


def estimate(nodes: int, elements: float, macs: float, weight_bytes: float) -> float:
    """Estimate the seconds of the reference interpreter for one run of a graph."""
    reading = weight_bytes / _WEIGHT_BYTES_PER_SECOND
    return nodes * _SECONDS_PER_NODE + elements / _ELEMENTS_PER_SECOND + macs / _MACS_PER_SECOND + reading


def _macs_per_element(node: Node, operands: Sequence[Any]) -> int:
    match node.op:
        case "MatMul" | "Gemm" | "MatMulInteger" | "QLinearMatMul":
            shape = getattr(operands[0], "shape", ())
            return shape[-1] if shape else 1
        case "Conv" | "ConvTranspose" | "ConvInteger" | "QLinearConv":
            index = 3 if node.op == "QLinearConv" else 1
            return prod(getattr(operands[index], "shape", ())[1:])
        case _:
            return 0

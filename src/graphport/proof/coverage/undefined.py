"""Results that a specification leaves undefined, so that runtimes may legitimately differ in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.ir.graph import Node


@dataclass(slots=True)
class Undefined:
    """Watches a run for undefined results."""

    reason: str | None = None

    def watch(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Look at one run of a node."""
        if self.reason is not None:
            return
        match node.op:
            case "Cast" | "CastLike":
                self._cast(node, operands[0], results[0])
            case "Div" | "Mod":
                divisor = np.asarray(operands[1])
                if divisor.dtype.kind in "iu" and not np.all(divisor):
                    self.reason = f"{node.name} divides integers by 0"
            case "Range":
                if not np.all(operands[2]):
                    self.reason = f"{node.name} has a step of 0"
            case "BitShift":
                if np.any(np.asarray(operands[1]) >= np.asarray(operands[0]).itemsize * 8):
                    self.reason = f"{node.name} shifts by all bits"
            case _:
                pass

    def _cast(self, node: Node, x: Any, y: Any) -> None:
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind != "f" or y.dtype.kind not in "iu":
            return
        low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
        with np.errstate(all="ignore"):
            if not np.all((x >= low) & (x <= high)):
                self.reason = f"{node.name} converts floats beyond the range of {y.dtype.name}"


_UNBOUNDED = frozenset({"Log", "Div", "Reciprocal", "Atanh", "Mod"})
"""Operators that compute infinity of finite elements without an overflow."""


@dataclass(slots=True)
class Overflow:
    """Watches a run for finite elements of which a node computes infinity because the element type ends."""

    is_seen: bool = False

    def watch(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Look at one run of a node."""
        if self.is_seen or node.op in _UNBOUNDED or any(map(is_unbounded, operands)):
            return
        self.is_seen = any(map(is_unbounded, results))


_MIXING = frozenset({
    "Softmax", "LogSoftmax", "ReduceLogSumExp", "DFT", "STFT", "LayerNormalization", "GroupNormalization",
    "InstanceNormalization", "RMSNormalization", "MeanVarianceNormalization", "LpNormalization", "Attention",
})  # fmt: skip
"""Operators whose results depend on several elements, so that formulas differ in what they compute of infinite ones."""


@dataclass(slots=True)
class Mixture:
    """Watches a run for operators that combine elements of which one is NaN or infinite."""

    is_seen: bool = False

    def watch(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG002
        """Look at one run of a node."""
        page = None if node.dialect else registry.pages().get(node.op)
        is_mixing = node.op in _MIXING or (page is not None and page.role == "weighted")
        self.is_seen = self.is_seen or (is_mixing and any(map(is_unbounded, operands)))


def has_nan(arrays: Mapping[str, Any]) -> bool:
    """Whether an element of some arrays is NaN."""
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays.values())


def is_unbounded(x: Any) -> bool:
    """Whether an element is NaN or infinite."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind == "f" and not bool(np.isfinite(x).all())

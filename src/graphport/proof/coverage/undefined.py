"""Results that a specification leaves undefined, so that runtimes may legitimately differ in them."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.backends.reference import prepare
from graphport.core.diagnostics import DiagnosticError
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphport.ir.graph import Graph, Node


@dataclass(slots=True)
class Undefined:
    """Watches a run for undefined results."""

    reason: str | None = None
    rounded: str | None = None
    """Why the result depends on the order of additions, if so."""

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
            case "QuantizeLinear":
                if is_unbounded(np.asarray(operands[0])):
                    self.reason = f"{node.name} quantizes NaN or infinity"
            case "Softmax" | "LogSoftmax":
                self._exponentiate(node, np.asarray(operands[0]))
            case "BitShift":
                if np.any(np.asarray(operands[1]) >= np.asarray(operands[0]).itemsize * 8):
                    self.reason = f"{node.name} shifts by all bits"
            case _:
                pass

    def result(self) -> UndefinedResult | None:
        """Return why the result of the run is undefined; `None` if it is defined."""
        reason = self.reason or self.rounded
        return None if reason is None else UndefinedResult(reason, is_rounded=self.reason is None)

    def _exponentiate(self, node: Node, x: Any) -> None:
        # An error of 1 in an exponent is a factor of e.
        if x.dtype.kind == "f" and x.size and float(np.max(x)) * float(np.finfo(x.dtype).eps) >= 1:
            size = f"{float(np.max(x)):.2g}"
            self.rounded = f"{node.name} exponentiates numbers of {size}, which are rounded by 1 and more"

    def _cast(self, node: Node, x: Any, y: Any) -> None:
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind != "f" or y.dtype.kind not in "iu":
            return
        low, high = np.iinfo(y.dtype).min, np.iinfo(y.dtype).max
        with np.errstate(all="ignore"):
            # float32 rounds the largest int32 up; float64 does not hold that of 64 bits.
            wide = x.astype(np.float64)
            if not np.all((wide >= low) & (wide < float(high) + 1)):
                self.reason = f"{node.name} converts floats beyond the range of {y.dtype.name}"


MAX_SECONDS = 10.0
"""Seconds of the reference interpreter that look for an undefined result."""
_OUT_OF_RANGE = "RUN0005"
"""Code of inputs for which an operator has no result, such as an index out of range."""


_WITH_DOMAIN = frozenset({"Sqrt", "Log", "Pow", "Acos", "Acosh", "Asin", "Atanh", "BatchNormalization"})
"""Operators that compute NaN of finite elements outside of their domain."""


class UndefinedResult(NamedTuple):
    """Why the result of a graph is undefined for some inputs."""

    reason: str
    is_nan: bool = False
    """Whether only the elements that are NaN are undefined."""
    is_rounded: bool = False
    """Whether the result is finite, and depends on the order of additions only."""


def undefined_result(graph: Graph, arrays: Mapping[str, Any]) -> UndefinedResult | None:
    """Return why the result of a graph is undefined for some inputs; `None` if it is defined or unknown.

    NaN in an output is undefined if an operator computes it of a number outside of its domain.
    """
    undefined = Undefined()
    outside: list[str] = []
    deadline = perf_counter() + MAX_SECONDS

    def watch(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        undefined.watch(node, operands, results)
        if not outside and node.op in _WITH_DOMAIN and not any(map(is_unbounded, operands)) and _has_nan(results):
            outside.append(node.name)
        if undefined.reason is not None or perf_counter() > deadline:
            raise TimeoutError

    try:
        found = prepare(graph).run(arrays, watch=watch)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        reason = first.message if first.code == _OUT_OF_RANGE else undefined.reason
        return None if reason is None else UndefinedResult(reason)
    except TimeoutError:
        return undefined.result()
    if outside and _has_nan(found.values()):
        return UndefinedResult(f"{outside[0]} computes NaN, which reaches an output", is_nan=True)
    return undefined.result()


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
"""Operators with results of several elements: equivalent formulas propagate infinities differently."""


@dataclass(slots=True)
class Mixture:
    """Watches a run for operators that combine elements of which one is NaN or infinite."""

    is_seen: bool = False

    def watch(self, node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG002
        """Look at one run of a node."""
        op_def = None if node.dialect else registry.op_defs().get(node.op)
        is_mixing = node.op in _MIXING or (op_def is not None and op_def.role == "weighted")
        self.is_seen = self.is_seen or (is_mixing and any(map(is_unbounded, operands)))


def _has_nan(results: Iterable[Any]) -> bool:
    arrays = [array for array in results if getattr(getattr(array, "dtype", None), "kind", "") == "f"]
    return any(bool(np.isnan(array).any()) for array in arrays)


def has_nan(arrays: Mapping[str, Any]) -> bool:
    """Whether an element of some arrays is NaN."""
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays.values())


def is_unbounded(x: Any) -> bool:
    """Whether an element is NaN or infinite."""
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind == "f" and not bool(np.isfinite(x).all())

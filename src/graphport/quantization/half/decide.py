"""Decide which nodes of a graph compute in half precision, with reasons for the exceptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.onnx.container import domains, schema
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.ops.declare import OPSET
from graphport.proof.faults import ends_onnx_runtime
from graphport.quantization.dispatch import ComputeDomain, dispatch
from graphport.quantization.placement import is_float32, moves
from graphport.quantization.wide_operators import angles, sums_of_squares

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value
    from graphport.ops.declare import OpDef
    from graphport.quantization.half.ranges import Range


class Reason(Enum):
    """Why a node remains in single precision."""

    ASKED = "the settings keep it"
    INDEX = "it computes shapes, axes or indices"
    TYPE = "the operator does not support 16-bit floats there"
    BODY = "it has subgraphs, or a subgraph reads its result"
    OVERFLOW = "its values exceed the 16-bit range"
    SUM = "its sums may exceed the 16-bit range"
    SMALL = "its values underflow in 16 bits"
    CONSTANT = "a constant of the node underflows or overflows in 16 bits"
    GUARD = "a small constant, which underflows in 16 bits, keeps its input from 0"
    ANGLE = "position angles need more precision than 16-bit floats have"
    SQUARES = "a sum of squares exceeds the 16-bit range"
    GOAL = "the SNR goal requires it"
    BETWEEN = "its neighbours keep float32"
    RUNTIME = "ONNX Runtime crashes when it fuses this float16 Transpose with the following MatMul"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a narrow type: `most` is its maximum, `step` its least subnormal.

    `least_snr` is the minimum SNR of a constant in dB: uniform rounding gives 73 and 55.
    """

    most: float
    step: float
    least_snr: float


LIMITS: Mapping[DType, Limits] = MappingProxyType(
    {DType.FLOAT16: Limits(65504.0, 2.0**-24, 66.0), DType.BFLOAT16: Limits(3.38e38, 0.0, 48.0)}
)
_SEEN, _GUESSED = 2.0, 16.0
"""Headroom factor over the observed maximum: of samples, and of random inputs."""
_LONGEST = 64
"""Maximum number of nodes between a small constant and the division that it guards."""
_STEPS = 16.0
"""Number of steps below which an effective value loses its precision."""
_SIGNAL = 2000.0
"""Minimum root mean square of a value in steps: then float16 keeps 66 dB."""


@dataclass(slots=True, eq=False)
class Decisions:
    """The nodes that compute in half precision, and reasons for float nodes that do not.

    `wide` are outputs beyond the range of float16, which keep their type.
    """

    halves: dict[Node, None]
    kept: dict[Node, Reason]
    wide: list[Value] = field(default_factory=list["Value"])


def decide(
    graph: Graph,
    to: DType,
    seen: Mapping[Value, Range],
    *,
    is_measured: bool,
    keep: Collection[str] = (),
    goal: Collection[Node] = (),
) -> Decisions:
    """Decide which nodes compute in `to`.

    Args:
        graph: canonical; facts are set.
        to: a narrow floating type.
        seen: ranges of its values.
        is_measured: whether these are from samples rather than random inputs.
        keep: names of nodes, of their first results, or of operators, or patterns of these, that stay in single
            precision.
        goal: nodes that stay in single precision to reach the accuracy goal.
    """
    worker = _Decider(graph, LIMITS[to], to, seen, _SEEN if is_measured else _GUESSED, keep, goal)
    return worker.run()


class _Decider:
    def __init__(
        self,
        graph: Graph,
        limits: Limits,
        to: DType,
        seen: Mapping[Value, Range],
        margin: float,
        keep: Collection[str],
        goal: Collection[Node],
    ) -> None:
        self.graph = graph
        self.limits = limits
        self.to = to
        self.seen = seen
        self.margin = margin
        self.keep = keep
        self.goal = set(goal)
        self.index = {node for node, d in dispatch(graph).items() if d.place is ComputeDomain.INDEX}
        self.captured = {value for node in graph for value in rewrite.captured(node)}
        self.ruled = dict.fromkeys(angles(graph, {value: found.rms for value, found in seen.items()}), Reason.ANGLE)
        self.ruled |= dict.fromkeys(sums_of_squares(graph), Reason.SQUARES)
        self._constants: dict[Value, bool] = {}

    def run(self) -> Decisions:
        found = Decisions({}, {})
        for node in self.graph:
            reads = [value for value in node.operands if is_float32(value)]
            gives = [value for value in node.results if is_float32(value)]
            if not reads and not gives:
                continue
            reason = self._reason(node, reads, gives)
            if reason is None:
                found.halves[node] = None
            else:
                found.kept[node] = reason
        self._widen_guards(found)
        self._merge(found)
        outputs = [value for value in dict.fromkeys(self.graph.outputs) if value.producer in found.kept]
        found.wide = [value for value in outputs if is_float32(value) and self._is_lost(value)]
        return found

    def _is_lost(self, value: Value) -> bool:
        """Whether a float32 value's observed range overflows in the narrow type, or is near its least subnormal."""
        found = self.seen.get(value)
        if found is None:
            return False
        return found.largest * _SEEN > self.limits.most or 0 < found.rms < _STEPS * self.limits.step

    def _reason(self, node: Node, reads: Sequence[Value], gives: Sequence[Value]) -> Reason | None:
        if any(fnmatchcase(name, pattern) for pattern in self.keep for name in _names(node)):
            return Reason.ASKED
        if node in self.index:
            return Reason.INDEX
        if any(True for _ in node.bodies()) or any(value in self.captured for value in gives):
            return Reason.BODY
        if self._misfits(node, reads):
            return Reason.TYPE
        if node in self.ruled:
            return self.ruled[node]
        if any(self._is_large(value) for value in [*reads, *gives] if not value.is_constant):
            return Reason.OVERFLOW
        if self._overflows_in_sum(node, reads, gives):
            return Reason.SUM
        if any(self._is_small(value) for value in [*reads, *gives] if not value.is_constant):
            return Reason.SMALL
        if any(self._loses(value) for value in reads if value.is_constant):
            return Reason.CONSTANT
        if ends_onnx_runtime(node):
            return Reason.RUNTIME
        return Reason.GOAL if node in self.goal else None

    def _misfits(self, node: Node, reads: Sequence[Value]) -> bool:
        """Whether ONNX does not define the operator for narrow floats, or its result type is an attribute."""
        if node.dialect != domains.CANONICAL or not schema.operator("", node.op_type, OPSET).is_known:
            return True
        # The element type of sequences is not tracked.
        if not reads or not all(isinstance(value.fact, TensorFact) for value in (*node.operands, *node.results)):
            return True
        types = [*map(self._type, node.inputs), *map(self._type, node.outputs)]
        return schema.misfit(node.op_type, OPSET, types, len(node.inputs)) is not None

    def _type(self, value: Value | None) -> str | None:
        if value is None:
            return None
        if not isinstance(value.fact, TensorFact) or value.fact.dtype is None:
            return ""
        dtype = self.to if is_float32(value) else value.fact.dtype
        return f"tensor({_SUPPORTED.get(dtype, str(dtype))})"

    def _is_large(self, value: Value) -> bool:
        found = self.seen.get(value)
        return found is not None and found.largest * self.margin > self.limits.most

    def _is_small(self, value: Value) -> bool:
        found = self.seen.get(value)
        return found is not None and 0 < found.rms < _SIGNAL * self.limits.step

    def _overflows_in_sum(self, node: Node, reads: Sequence[Value], gives: Sequence[Value]) -> bool:
        """Whether the largest operand magnitude times the reduced element count exceeds the narrow type."""
        op_def = registry.op_defs().get(node.op_type)
        if op_def is None or ".reduction" not in op_def.function.__module__ or not gives:
            return False
        range_ = self.seen.get(reads[0])
        entries = _num_elements(reads[0]) / max(_num_elements(gives[0]), 1)
        return range_ is not None and range_.largest * entries > self.limits.most

    def _loses(self, value: Value) -> bool:
        if value not in self._constants:
            storage = value.storage
            self._constants[value] = storage is None or loses(storage, self.to)
        return self._constants[value]

    def _widen_guards(self, found: Decisions) -> None:
        """Keep divisions and logarithms in single precision if a small constant guards them against 0.

        `x / max(norm, 1e-12)` of a row of zeros is a row of zeros; 1e-12 is 0 in float16, and 0 / 0 is NaN.
        """
        waiting: list[tuple[Value, float, tuple[Node, ...]]] = []
        for node, reason in found.kept.items():
            bound = _least([value for value in node.operands if value.is_constant and is_float32(value)])
            if reason is Reason.CONSTANT and 0 < bound < self.limits.step:
                waiting += [(value, bound, ()) for value in node.results if is_float32(value)]
        seen: set[Value] = set()
        while waiting:
            value, bound, path = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            for user in value.users:
                if user in found.halves:
                    waiting += self._next_guarded(found, user, value, bound, (*path, user))

    def _next_guarded(
        self, found: Decisions, node: Node, value: Value, bound: float, path: tuple[Node, ...]
    ) -> list[tuple[Value, float, tuple[Node, ...]]]:
        """Return the next values after a consumer of `bound`.

        If 0 instead changes the result, the path stays float32.
        """
        op_def = registry.op_defs().get(node.op_type)
        results = [each for each in node.results if is_float32(each)]
        if op_def is None or node.dialect or len(path) > _LONGEST:
            return []
        if moves(node):
            return [(each, bound, path) for each in results]
        at_zero, at_bound = (_value_at(op_def, node, value, number) for number in (0.0, bound))
        if at_zero is None or at_bound is None or not np.isfinite(at_bound):
            return []
        if np.isfinite(at_zero) and abs(at_bound) < self.limits.step:
            return [(each, abs(at_bound), path) for each in results] if at_bound else []
        if not np.isfinite(at_zero) or abs(at_zero) < self.limits.step:
            for each in path:
                if each in found.halves:
                    del found.halves[each]
                    found.kept[each] = Reason.GUARD
        return []

    def _merge(self, found: Decisions) -> None:
        """Keep nodes without weights in float32 if all their producers and consumers are float32."""
        for node in list(found.halves):
            sources = [value.producer for value in node.operands if is_float32(value) and not value.is_constant]
            readers = [user for value in node.results if is_float32(value) for user in value.users]
            is_weighted = any(value.is_constant and is_float32(value) for value in node.operands)
            if is_weighted or not sources or not readers or any(value.is_output for value in node.results):
                continue
            if all(other in found.kept for other in [*sources, *readers]):
                del found.halves[node]
                found.kept[node] = Reason.BETWEEN


_SUPPORTED = {DType.FLOAT32: "float", DType.FLOAT64: "double"}
"""ONNX's names of the types."""


def loses(storage: Storage, to: DType) -> bool:
    """Whether a constant overflows in `to`, or an index of its first or last axis falls below the minimum SNR."""
    limits = LIMITS[to]
    x = storage.numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        y = x.astype(np.float32).astype(to.numpy).astype(np.float64)
    finite = np.isfinite(x)
    if not np.isfinite(y[finite]).all():
        return True
    x, y = np.where(finite, x, 0.0), np.where(finite, y, 0.0)
    for axis in {0, max(x.ndim - 1, 0)}:
        others = tuple(i for i in range(x.ndim) if i != axis)
        signal, noise = np.sum(x**2, axis=others), np.sum((x - y) ** 2, axis=others)
        if np.any(noise > signal * 10 ** (-limits.least_snr / 10)):
            return True
    return False


def _least(constants: Sequence[Value]) -> float:
    """Return the least nonzero magnitude of one-element constants; 0 if there are none."""
    arrays = [
        np.abs(each.storage.numpy()) for each in constants if each.storage is not None and each.storage.count == 1
    ]
    return min((float(array.max()) for array in arrays if array.max() > 0), default=0.0)


def _value_at(op_def: OpDef, node: Node, value: Value, number: float) -> float | None:
    """Evaluate a node with `number` for `value`, and 1 for other operands; `None` if that is not possible."""
    operands = [
        None if each is None else np.full(1, number if each is value else 1.0, np.float64) for each in node.inputs
    ]
    try:
        with np.errstate(all="ignore"):
            found = op_def(*operands, **node.attributes)
    except Exception:  # noqa: BLE001  a NumPy function may raise anything for unexpected operands
        return None
    return float(found.reshape(-1)[0]) if isinstance(found, np.ndarray) and found.size == 1 else None


def _num_elements(value: Value) -> int:
    shape = value.shape
    return prod(dim if isinstance(dim, int) else 1 for dim in shape or ())


def _names(node: Node) -> list[str]:
    return [node.name, node.op_type, *(value.name for value in node.results[:1])]

"""Constant folding."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import store_array
from graphport.core.storage import Storage
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.passes.driver import NODE_BYTES
from graphport.passes.journal import Journal, NotApplicable, SizeLimitExceeded, apply
from graphport.passes.substitution import add_constant, graph_of, take_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph, Node, Value
    from graphport.ops.declare import OpDef

MAX_RESULT_BYTES = 1 << 28
"""Size limit of a folded result, in bytes."""

MAX_OPERAND_BYTES = 1 << 20
"""Size limit of operands, in bytes, for results of statically unknown size."""

_STORED = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"))

_NARROW = 8
_MAX_SHAPE_ELEMENTS = 64
"""Integer constants of up to 8 bits count as quantized weights unless they have at most this many elements."""


def fold_constants(graph: Graph, journal: Journal) -> None:
    """Compute nodes with constant operands and replace them by their results.

    Before  v = Transpose(w);  y = MatMul(x, v)
    After   y = MatMul(x, v)   with v among the constants

    The reference interpreter computes. Does not apply to dequantization and casts of packed weights to wider types, to
    results that would enlarge the weights by more than a tenth, to random operators and to nodes with bodies. Preserves
    values up to rounding.
    """
    consumers = _FoldedConsumers()

    def rule(node: Node) -> str | None:
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        if op_def is None or not _is_constant(node):
            return None
        _check_kind(node)
        freed = _freed_bytes(node, consumers)
        _check_size(node, freed, journal.room)
        results = _computed(node, op_def)
        graph = graph_of(node)
        journal.room -= sum(storage.nbytes for _, storage in results) - freed
        for value, storage in results:
            take_over(value, add_constant(graph, storage, value.name))
        consumers.remove(node)
        graph.remove(node)
        return "folded to a constant"

    apply(graph, journal, rule)


def _is_constant(node: Node) -> bool:
    """Whether all operands are constant and the node is a pure function of them."""
    if not node.operands or not node.results or any(True for _ in node.bodies()):
        return False
    return all(value.storage is not None and value.is_constant for value in node.operands)


def _check_kind(node: Node) -> None:
    """Refuse nodes that dequantize weights or draw random numbers."""
    if node.op in _STORED:
        raise NotApplicable("it dequantizes a stored weight")
    op_def = registry.op_defs().get(node.op_type)
    if (op_def is not None and op_def.is_random) or (node.op == "Dropout" and node.operand(2) is not None):
        raise NotApplicable("its results may be random")
    wide = max((_bits(value) for value in node.results), default=0)
    for value in node.operands:
        storage = value.storage
        if storage is None or not storage.dtype.is_integer or storage.count <= _MAX_SHAPE_ELEMENTS:
            continue
        if storage.dtype.bits <= _NARROW < wide:
            raise NotApplicable(f"{value.name} has {storage.dtype.bits} bits per element, its result has more")


def _check_size(node: Node, freed: int, room: int) -> None:
    sizes = [_nbytes(value) for value in node.results]
    if None in sizes:
        if sum(value.storage.nbytes for value in node.operands if value.storage is not None) > MAX_OPERAND_BYTES:
            raise NotApplicable("the size of its result is unknown")
        return
    size = sum(size for size in sizes if size is not None)
    if size > MAX_RESULT_BYTES:
        raise NotApplicable(f"its result would take {size} bytes")
    if size - freed > max(room, 0):
        raise SizeLimitExceeded(f"its result of {size} bytes would enlarge the weights by {size - freed}", size - freed)


def _bits(value: Value) -> int:
    dtype = value.dtype
    return 0 if dtype is None else dtype.bits


def _nbytes(value: Value) -> int | None:
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
        return None
    size = prod(fact.shape)
    return fact.dtype.size(size) if isinstance(size, int) else None


class _FoldedConsumers:
    """Cached consumer counts of constants whose consumers are all folded."""

    def __init__(self) -> None:
        self._counts: dict[Value, int] = {}
        self._kept: dict[Value, Node] = {}

    def count(self, value: Value) -> int:
        """Return the number of consumers; 0 unless all consumers are folded."""
        known = self._counts.get(value)
        if known is not None:
            return known
        kept = self._kept.get(value)
        if kept is not None and kept.graph is not None and value in kept.inputs and not _is_removed_with(kept):
            return 0
        users = value.users
        kept = next((user for user in users if not _is_removed_with(user)), None)
        if kept is not None:
            self._kept[value] = kept
            return 0
        self._counts[value] = len(users)
        return len(users)

    def remove(self, node: Node) -> None:
        """Update the counts before a folded node is removed."""
        for value in dict.fromkeys(node.operands):
            if value in self._counts:
                self._counts[value] -= 1


def _freed_bytes(node: Node, consumers: _FoldedConsumers) -> int:
    """Return the bytes freed with `node`: its own, and its share of operands whose consumers are all folded."""
    freed = NODE_BYTES
    for value in dict.fromkeys(node.operands):
        if value.storage is not None and not value.is_output and (count := consumers.count(value)):
            freed += value.storage.nbytes // count
    return freed


def _is_removed_with(node: Node) -> bool:
    if node.dialect or not _is_constant(node):
        return False
    try:
        _check_kind(node)
    except NotApplicable:
        return False
    return True


def _computed(node: Node, op_def: OpDef) -> list[tuple[Value, Storage]]:
    try:
        operands = [None if value is None or value.storage is None else value.storage.numpy() for value in node.inputs]
        attributes = {name: a.numpy() if isinstance(a, Storage) else a for name, a in node.attributes.items()}
        with np.errstate(all="ignore"):
            answer: Any = op_def(*operands, **attributes)
    except (ShapeError, ValueError, IndexError, ArithmeticError, TypeError, MemoryError) as error:
        raise NotApplicable(f"it cannot be computed: {error}") from error
    # A list is one sequence result; several results are a tuple.
    answers: Sequence[Any] = cast("tuple[Any, ...]", answer) if isinstance(answer, tuple) else (answer,)
    if len(answers) < len(node.outputs) or any(isinstance(each, list) or each is None for each in answers):
        raise NotApplicable("its result is not a tensor")
    return [(value, _stored(np.asarray(answers[value.index]), value)) for value in node.results]


def _stored(array: Any, value: Value) -> Storage:
    dtype = value.dtype
    # An operator may return a view of an operand with any order of axes.
    return store_array(np.ascontiguousarray(array).reshape(array.shape), dtype)

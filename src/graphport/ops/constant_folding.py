"""Constant folding on demand: constants computed from other constants when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from graphport.core.budget import max_generated_elements
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import CHUNK, Bytes, Storage, storage_of
from graphport.ir.graph import Node, Value
from graphport.ops import registry
from graphport.ops.declare import ShapeError

_MADE_OF_NOTHING = frozenset({"Constant"})
_MAX_DEPTH = 16
"""The maximum depth of operators between stored and folded constants: changes of layout and dtype."""
MAX_COMPUTED_BYTES = 4096
"""The size in bytes of the largest constant that a rule may compute with."""


class UncomputedError(DiagnosticError, ValueError):
    """A constant cannot be computed because its operator rejects the elements; raised on reading."""


class Computed(Storage):
    """A storage computed by `function` from other storages on each read."""

    __slots__ = ("depth", "function", "sources")

    def __init__(
        self, function: Callable[..., Any], sources: tuple[Storage, ...], dtype: DType, shape: tuple[int, ...]
    ) -> None:
        super().__init__(dtype, shape)
        self.function = function
        self.sources = sources
        self.depth: int = 1 + _deepest(sources)
        """The nesting depth of computed storages."""

    def numpy(self) -> np.ndarray[Any, Any]:
        return self._compute({})

    def _compute(self, known: dict[int, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Return the elements.

        Shared sources are computed once; a chain of sums `x + x` would need 2^n steps otherwise.
        """
        operands: list[np.ndarray[Any, Any]] = []
        for source in self.sources:
            if not isinstance(source, Computed):
                operands.append(source.numpy())
                continue
            if id(source) not in known:
                known[id(source)] = source._compute(known)
            operands.append(known[id(source)])
        found = self.function(*operands)
        return np.ascontiguousarray(found, self.dtype.numpy).reshape(self.shape)

    def chunks(self, limit: int = CHUNK) -> Iterator[memoryview]:
        flat = self.numpy().reshape(-1)
        little = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        yield from Bytes(little.view(np.uint8).data).chunks(0, self.nbytes, limit)


class Widened(Computed):
    """A float storage converted exactly to a wider type; a writer that supports the narrow type writes `source`."""

    __slots__ = ("source",)

    def __init__(self, source: Storage, dtype: DType) -> None:
        super().__init__(partial(_as, dtype), (source,), dtype, source.shape)
        self.source = source


def _as(dtype: DType, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float32).astype(dtype.numpy)


def _deepest(sources: Iterable[Storage]) -> int:
    return max((source.depth for source in sources if isinstance(source, Computed)), default=0)


def folded(value: Value, known: dict[Value, Storage | None] | None = None) -> Storage | None:
    """Return the elements of a constant or of a value computed from constants alone; `None` for other values.

    Pass the same `known` for several values of a graph: the total work is then linear in nodes.
    """
    return _folded(value, 0, {} if known is None else known)


def _folded(value: Value, depth: int, known: dict[Value, Storage | None]) -> Storage | None:
    if value in known:
        return known[value]
    found = _fold_operands(value, depth, known)
    # A failure at depth 0 is final; a failure at a greater depth may be due to the depth limit.
    if found is not None or depth == 0:
        known[value] = found
    return found


def _fold_operands(value: Value, depth: int, known: dict[Value, Storage | None]) -> Storage | None:
    if value.storage is not None and (value.is_constant or value.graph is None):
        return value.storage
    node, fact = value.producer, value.fact
    if isinstance(fact, TensorFact) and fact.elements is not None and fact.dtype is not None:
        numbers = [n for n in fact.elements if isinstance(n, int)]
        if len(numbers) == len(fact.elements):
            shape = tuple(dim for dim in fact.dims if isinstance(dim, int))
            return storage_of(np.array(numbers).reshape(shape if len(shape) == fact.rank else (-1,)), fact.dtype)
    if node is None or depth > _MAX_DEPTH or node.dialect or any(True for _ in node.bodies()):
        return None
    if not isinstance(fact, TensorFact) or fact.dtype is None or not fact.is_static:
        return None
    op_def = registry.op_defs().get(node.op_type)
    if op_def is None or op_def.is_random or (not node.inputs and node.op_type not in _MADE_OF_NOTHING):
        return None
    sources: list[Storage | None] = []
    for operand in node.inputs:
        source = None if operand is None else _folded(operand, depth + 1, known)
        if source is None and operand is not None:
            return None
        sources.append(source)
    shape = tuple(dim for dim in fact.dims if isinstance(dim, int))
    present = tuple(source for source in sources if source is not None)
    # The runtime computes a large tensor that is generated from few elements.
    if prod(shape) > max(max_generated_elements(), *(source.count for source in present), 0):
        return None
    if _deepest(present) >= _MAX_DEPTH:
        return None
    meaning = _meaning(node, [source is not None for source in sources], value.index, shape)
    return Computed(meaning, present, fact.dtype, shape)


def _meaning(node: Node, is_there: list[bool], index: int, shape: tuple[int, ...]) -> Callable[..., Any]:
    """A function that computes result `index` of a node from its present operands.

    It raises UncomputedError with SHAPE0001 where the operator refuses them or its result has other elements than
    `shape`, which a file declares.
    """
    op_def = registry.op_defs()[node.op_type]
    attributes = dict(node.attributes)

    def compute(*arrays: Any) -> Any:
        given = iter(arrays)
        numbers = {name: a.numpy() if isinstance(a, Storage) else a for name, a in attributes.items()}
        try:
            answer = op_def.function(*(next(given) if there else None for there in is_there), **numbers)
            result = answer[index] if isinstance(answer, tuple | list) else answer
            _check_size(result, shape)
        except (ShapeError, ValueError, IndexError, TypeError, ArithmeticError) as error:
            raise UncomputedError(Diagnostic("SHAPE0001", f"{node.op}: {error}", node.origin)) from error
        return result

    return compute


def _check_size(result: Any, shape: tuple[int, ...]) -> None:
    if np.size(result) != prod(shape):
        message = f"computed shape {list(np.shape(result))}, declared shape {list(shape)}"
        raise ShapeError(message)

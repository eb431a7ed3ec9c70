"""Basic edits for passes: read and set constants, replace values."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import rounded_pieces, store_array, store_converted
from graphport.ir import rewrite
from graphport.ops.products import constant_elements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value

    Array: TypeAlias = NDArray[Any]

_PIECE = 1 << 20


def is_real_constant(value: Value | None) -> bool:
    """Whether `float_elements` returns an array for this value; does not read the storage."""
    if value is None or value.storage is None or not value.is_constant:
        return False
    return value.storage.dtype.is_floating


def float_elements(value: Value | None) -> NDArray[np.float64] | None:
    """Return the elements of a float constant as float64, or None."""
    if not is_real_constant(value):
        return None
    found = constant_elements(value)
    return None if found is None else found.astype(np.float64)


def graph_of(node: Node) -> Graph:
    """Return the graph that contains a node; raise ValueError if there is none."""
    if node.graph is None:
        message = f"{node!r} is in no graph"
        raise ValueError(message)
    return node.graph


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """`w * factor` in float64, computed in blocks: a weight may be as large as memory.

    `factor` has the rank of `w` and broadcasts to its shape.
    """

    w: Array
    factor: NDArray[np.float64]

    def rounded(self, dtype: DType) -> Storage | None:
        """Return the products in `dtype`, or None if one is infinite or NaN."""
        with suppress(_TooLargeError):
            return rounded_pieces(lambda: self._blocks(dtype), self.w.shape, dtype)
        return None

    def _blocks(self, dtype: DType) -> Iterator[Array]:
        w, factor = self.w, self.factor
        while w.ndim > 1 and len(w) == 1:
            w, factor = w[0], factor[0]
        step = max(_PIECE // max(prod(w.shape[1:]), 1), 1)
        for at in range(0, len(w), step):
            along = factor if len(factor) == 1 else factor[at : at + step]
            with np.errstate(all="ignore"):
                piece = (w[at : at + step].astype(np.float64) * along).astype(dtype.numpy).reshape(-1)
                is_finite = np.isfinite(piece.astype(np.float64)).all()
            if not is_finite:
                raise _TooLargeError
            yield piece


class _TooLargeError(Exception):
    """A product is not finite."""


def rounded(array: Array, dtype: DType) -> Storage | None:
    """Return `array` in `dtype`, or None if an element is infinite or NaN."""
    flat = np.asarray(array).reshape(-1)
    # In blocks: a weight of a gigabyte must not be copied to float64 as a whole.
    with np.errstate(all="ignore"):
        for at in range(0, flat.size, _PIECE):
            if not np.isfinite(flat[at : at + _PIECE].astype(dtype.numpy).astype(np.float64)).all():
                return None
        return store_converted(np.asarray(array), dtype)


def add_constant(graph: Graph, data: Storage | Array, name: str) -> Value:
    """Add a constant to `graph`, with a unique name derived from `name`."""
    storage = store_array(data) if isinstance(data, np.ndarray) else data
    return graph.add_constant(name, TensorFact.of(storage), storage)


def set_constant(node: Node, index: int, storage: Storage, name: str) -> None:
    """Set operand `index` of `node` to a new constant, with the old name if the old constant has no other consumer.

    Args:
        node: a node in a graph.
        index: index of the operand, which may be absent.
        storage: the elements.
        name: the name of the constant if there was none.
    """
    old = node.operand(index)
    graph = graph_of(node)
    fresh = graph.add_constant(name if old is None else old.name, TensorFact.of(storage), storage)
    node.set_input(index, fresh)
    if old is not None and old.is_constant and not old.uses and old.graph is graph:
        graph.remove_constant(old)
        graph.rename(fresh, old.name)


def take_over(old: Value, new: Value) -> None:
    """Replace `old` by `new`, a result without consumers: elements, name, notes and consumers."""
    rewrite.swap_names(old, new)
    new.origin = old.origin
    if new.has_notes:
        new.notes.clear()
    if old.has_notes:
        new.notes.update(old.notes)
    if isinstance(new.fact, TensorFact) and (new.fact.shape is None or new.fact.dtype is None):
        new.fact = old.fact
    old.replace_uses(new)


def bypass(node: Node, new: Value) -> bool:
    """Remove `node` and use `new` for its first result; return whether that was possible.

    It is not if an Identity separates two public names (inputs, outputs).
    """
    old = node.output
    if old.is_output and node.op == "Identity" and (new.is_input or new.is_output or new.graph is not old.graph):
        return False
    rewrite.replace(old, new)
    rewrite.erase(node)
    return True

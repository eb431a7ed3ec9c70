"""Small edits that many passes are made of: read numbers, set numbers, let one value stand for another."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.spill import kept, rounded_pieces, rounded_to
from graphport.ir import rewrite
from graphport.ops.products import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage
    from graphport.ir.graph import Graph, Node, Value

    Array: TypeAlias = NDArray[Any]

_PIECE = 1 << 20


def is_real_constant(value: Value | None) -> bool:
    """Whether `reals` gives its numbers, which asking does not read."""
    if value is None or value.storage is None or not value.is_constant:
        return False
    return value.storage.dtype.is_floating


def reals(value: Value | None) -> NDArray[np.float64] | None:
    """The numbers of a floating constant in double precision; `None` for anything else."""
    if not is_real_constant(value):
        return None
    found = numbers(value)
    return None if found is None else found.astype(np.float64)


def graph_of(node: Node) -> Graph:
    """The graph that a node is in; a `ValueError` where it is in none."""
    if node.graph is None:
        message = f"{node!r} is in no graph"
        raise ValueError(message)
    return node.graph


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """`w * factor` in double precision, made in pieces: a weight may be as large as memory.

    `factor` has the rank of `w`, and extents that broadcast to its.
    """

    w: Array
    factor: NDArray[np.float64]

    def rounded(self, dtype: DType) -> Storage | None:
        """The products as numbers of `dtype`; `None` where one becomes infinite or NaN."""
        with suppress(_TooLargeError):
            return rounded_pieces(lambda: self._pieces(dtype), self.w.shape, dtype)
        return None

    def _pieces(self, dtype: DType) -> Iterator[Array]:
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
    """`array` as numbers of `dtype`; `None` where one becomes infinite or NaN."""
    flat = np.asarray(array).reshape(-1)
    # In pieces: a weight of a gigabyte must not become one in double precision once more.
    with np.errstate(all="ignore"):
        for at in range(0, flat.size, _PIECE):
            if not np.isfinite(flat[at : at + _PIECE].astype(dtype.numpy).astype(np.float64)).all():
                return None
        return rounded_to(np.asarray(array), dtype)


def add_constant(graph: Graph, data: Storage | Array, name: str) -> Value:
    """A new constant of `graph`, called `name` or like it."""
    storage = kept(data) if isinstance(data, np.ndarray) else data
    return graph.add_constant(name, TensorFact.of(storage), storage)


def set_constant(node: Node, index: int, storage: Storage, name: str) -> None:
    """Let operand `index` of `node` be a new constant; it takes the name of the one before if nobody else reads that.

    Args:
        node: in a graph.
        index: of the operand, which may be absent.
        storage: the numbers.
        name: what the constant is called where there was none.
    """
    old = node.operand(index)
    graph = graph_of(node)
    fresh = graph.add_constant(name if old is None else old.name, TensorFact.of(storage), storage)
    node.set_input(index, fresh)
    if old is not None and old.is_constant and not old.uses and old.graph is graph:
        graph.remove_constant(old)
        graph.rename(fresh, old.name)


def take_over(old: Value, new: Value) -> None:
    """Let `new`, a result that nobody reads any more, carry the numbers, name, notes and readers of `old`."""
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
    """Remove `node`, whose first result `new` stands for from now on; return whether that was worth it.

    It is not where nothing but another copy could carry a public name.
    """
    old = node.output
    if old.is_output and node.op == "Identity" and (new.is_input or new.is_output or new.graph is not old.graph):
        return False
    rewrite.replace(old, new)
    rewrite.erase(node)
    return True

"""Derive the inputs of a language model from tokens: masks, positions, empty key/value caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph, Value

Array: TypeAlias = "np.ndarray[Any, Any]"

_TOKENS_RANK, _CACHE_RANK = 2, 3


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """The inputs of a language model: `tokens` [batch, length], and those derived from them."""

    tokens: Value
    masks: tuple[Value, ...]
    positions: tuple[Value, ...]
    caches: tuple[Value, ...]

    def inputs(self, rows: Array) -> dict[str, Array]:
        """Return all inputs for `rows` of tokens: a mask of ones, consecutive positions, and empty caches."""
        found = {self.tokens.name: rows}
        for value in self.masks:
            found[value.name] = np.ones(rows.shape)
        positions = np.arange(int(rows.shape[1]), dtype=np.int64)
        for value in self.positions:
            found[value.name] = np.tile(positions, (len(rows), 1))
        for value in self.caches:
            found[value.name] = np.zeros(_empty(value, len(rows)))
        return {name: array.astype(self._types[name]) for name, array in found.items()}

    @property
    def _types(self) -> dict[str, np.dtype[Any]]:
        values = (self.tokens, *self.masks, *self.positions, *self.caches)
        facts = {value.name: value.fact for value in values}
        return {name: f.dtype.numpy for name, f in facts.items() if isinstance(f, TensorFact) and f.dtype is not None}


def decoder_of(graph: Graph) -> Decoder | None:
    """Recognize the inputs of a language model; `None` if one of them has another purpose.

    Masks and positions are recognized by name; caches by a float type, one open length besides the batch, and an output
    of equal shape but for that length.
    """
    free = [value for value in graph.inputs if value.storage is None]
    masks = tuple(value for value in free if _is_named(value, "mask"))
    positions = tuple(value for value in free if _is_named(value, "position"))
    caches = tuple(value for value in free if _is_cache(value, graph.outputs))
    rest = [value for value in free if value not in (*masks, *positions, *caches)]
    return Decoder(rest[0], masks, positions, caches) if len(rest) == 1 and _is_rows(rest[0]) else None


def _is_named(value: Value, name: str) -> bool:
    return name in value.name.lower() and _is_rows(value)


def _is_rows(value: Value) -> bool:
    fact = value.fact
    is_whole = isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.kind in "iu"
    return is_whole and isinstance(fact, TensorFact) and fact.rank == _TOKENS_RANK


def _is_cache(value: Value, outputs: Sequence[Value]) -> bool:
    dims, fact = value.shape, value.fact
    if dims is None or not isinstance(fact, TensorFact) or fact.dtype is None or not fact.dtype.is_floating:
        return False
    lengths = [axis for axis, dim in enumerate(dims) if axis and isinstance(dim, Symbolic)]
    if len(dims) < _CACHE_RANK or len(lengths) != 1:
        return False
    length = lengths[0]
    others = [found for output in outputs if (found := output.shape) is not None and len(found) == len(dims)]
    return any(
        all(a == b for axis, (a, b) in enumerate(zip(dims, found, strict=True)) if axis and axis != length)
        for found in others
    )


def _empty(value: Value, batch: int) -> list[int]:
    dims = value.shape or ()
    return [batch if not axis else 0 if isinstance(dim, Symbolic) else dim for axis, dim in enumerate(dims)]

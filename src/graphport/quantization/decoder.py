"""Derive the inputs of a language model from tokens: masks, positions, empty key/value caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dims import Symbolic, symbols
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Value

Array: TypeAlias = "np.ndarray[Any, Any]"

_TOKENS_RANK, _CACHE_RANK = 2, 3


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """The inputs of a language model: `tokens` [batch, length], and those derived from them."""

    tokens: Value
    masks: tuple[Value, ...]
    positions: tuple[Value, ...]
    caches: Mapping[Value, Sequence[int]]
    """With the dims of each empty cache, without the batch."""
    constant_caches: frozenset[Value] = frozenset()
    """Caches of an encoder, of constant length."""

    def inputs(self, rows: Array) -> dict[str, Array]:
        """Return all inputs for `rows` of tokens: a mask of ones, consecutive positions, and empty caches."""
        found = {self.tokens.name: rows}
        for value in self.masks:
            found[value.name] = np.ones(rows.shape)
        positions = np.arange(int(rows.shape[1]), dtype=np.int64)
        for value in self.positions:
            found[value.name] = np.tile(positions, (len(rows), 1))
        random = np.random.default_rng(0)
        for value, dims in self.caches.items():
            length = int(rows.shape[1]) if value in self.constant_caches else 0
            found[value.name] = random.normal(size=(len(rows), *(dim or length for dim in dims)))
        return {name: array.astype(self._types[name]) for name, array in found.items()}

    @property
    def _types(self) -> dict[str, np.dtype[Any]]:
        values = (self.tokens, *self.masks, *self.positions, *self.caches)
        facts = {value.name: value.fact for value in values}
        return {name: f.dtype.numpy for name, f in facts.items() if isinstance(f, TensorFact) and f.dtype is not None}


def decoder_of(graph: Graph) -> Decoder | None:
    """Recognize the inputs of a language model; `None` if an input has another purpose.

    Masks and positions are recognized by name; caches by a float type, an open length besides the batch, and an output
    of equal shape but for that length.
    """
    free = [value for value in graph.inputs if value.storage is None]
    masks = tuple(value for value in free if _is_named(value, "mask"))
    positions = tuple(value for value in free if _is_named(value, "position"))
    caches = {value: dims for value in free if (dims := _cache_dims(value, graph.outputs)) is not None}
    rest = [value for value in free if value not in (*masks, *positions, *caches)]
    if len(rest) != 1 or not _is_rows(rest[0]):
        return None
    return Decoder(rest[0], masks, positions, caches, _constant_caches(graph, caches))


def _constant_caches(graph: Graph, caches: Collection[Value]) -> frozenset[Value]:
    """Return caches whose length no output extends, if outputs extend others."""
    returned = {dim for value in graph.outputs for dim in value.shape or () if isinstance(dim, Symbolic)}
    extended = {symbol for dim in returned for symbol in symbols(graph.extents.expanded(dim)).values() if symbol != dim}
    constant = {value for value in caches if extended.isdisjoint(_open_dims(value))}
    return frozenset(constant) if len(constant) < len(caches) else frozenset()


def _open_dims(value: Value) -> list[Dim]:
    return [dim for dim in (value.shape or ())[1:] if isinstance(dim, Symbolic)]


def _is_named(value: Value, name: str) -> bool:
    return name in value.name.lower() and _is_rows(value)


def _is_rows(value: Value) -> bool:
    fact = value.fact
    is_whole = isinstance(fact, TensorFact) and fact.dtype is not None and fact.dtype.kind in "iu"
    return is_whole and isinstance(fact, TensorFact) and fact.rank == _TOKENS_RANK


def _cache_dims(value: Value, outputs: Sequence[Value]) -> Sequence[int] | None:
    """Return the dims of an empty cache without the batch; `None` if `value` is no cache."""
    dims, fact = value.shape, value.fact
    if dims is None or not isinstance(fact, TensorFact) or fact.dtype is None or not fact.dtype.is_floating:
        return None
    shapes = [shape for output in outputs if (shape := output.shape) is not None and len(shape) == len(dims)]
    found = [_empty_dims(dims[1:], shape[1:]) for shape in shapes] if len(dims) >= _CACHE_RANK else []
    return next((each for each in found if each is not None), None)


def _empty_dims(dims: Sequence[Dim], returned: Sequence[Dim]) -> Sequence[int] | None:
    """Return `dims` with a length of 0 and the other open dims as `returned`; `None` if the two do not match.

    The length is open in both, or the only open one in `dims`.
    """
    is_open = [isinstance(dim, Symbolic) for dim in dims]
    lengths = [axis for axis, dim in enumerate(returned) if is_open[axis] and isinstance(dim, Symbolic)]
    if not lengths:
        lengths = [axis for axis, each in enumerate(is_open) if each]
    if len(lengths) != 1:
        return None
    found: list[int] = []
    for axis, (dim, other) in enumerate(zip(dims, returned, strict=True)):
        if axis == lengths[0]:
            found.append(0)
        elif isinstance(other, int) and (is_open[axis] or dim == other):
            found.append(other)
        else:
            return None
    return found

"""Sizes that depend on open dims, computed at run time as int32: SHAPE, GATHER and integer arithmetic."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dims import Symbolic, TooLong
from graphport.core.dims.symbolic import dim_from, single
from graphport.core.dims.terms import MAXIMUM, Quotient, Variable
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.emitting import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.dims.terms import Atom, Monomial, Terms
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_MAX_INT32 = (1 << 31) - 1


def ints(b: Builder, numbers: Sequence[int] | Sequence[Sequence[int]] | int) -> Value:
    """Create an int32 constant; larger elements saturate, as slice ends do."""
    return b.constant(np.clip(np.array(numbers, np.int64), -_MAX_INT32, _MAX_INT32).astype(np.int32))


def lengths_of(b: Builder, value: Value) -> Value:
    """Return the shape of a value as int32, computed at run time."""
    return emit(b, "SHAPE", value, out_type=2, types=(DType.INT32,))


def size_table(b: Builder, rows: Sequence[Sequence[Dim]], *near: Value) -> Value:
    """Return rows of equal length as an int32 matrix: a constant, or computed at run time like `size_vector`."""
    numbers = [[n for n in row if isinstance(n, int)] for row in rows]
    if all(len(row) == len(known) for row, known in zip(rows, numbers, strict=True)):
        return ints(b, numbers)
    flat = size_vector(b, [n for row in rows for n in row], *near)
    return emit(b, "RESHAPE", flat, ints(b, [len(rows), len(rows[0])]))


def size_vector(b: Builder, dims: Sequence[Dim], *near: Value) -> Value:
    """Return `dims` as an int32 vector: a constant, or computed from the shapes of inputs and of the values `near`.

    Raises:
        UnsupportedError: no value has a symbol as a dim.
    """
    numbers = [n for n in dims if isinstance(n, int)]
    if len(numbers) == len(dims):
        return ints(b, numbers)
    sizes = _Sizes(b, near)
    for value in sizes.sources:
        if value.shape is not None and tuple(dims) == value.shape:
            return sizes.shape_of(value)
    parts: list[Value] = []
    run: list[int] = []
    for dim in dims:
        if isinstance(dim, int):
            run.append(dim)
            continue
        parts += [ints(b, run)] if run else []
        run = []
        parts.append(sizes.vector(dim))
    parts += [ints(b, run)] if run else []
    return parts[0] if len(parts) == 1 else emit(b, "CONCATENATION", *parts, axis=0)


class _Sizes:
    """Emitter of dims as int32 vectors of one element; equal subexpressions are emitted once."""

    def __init__(self, b: Builder, near: Sequence[Value]) -> None:
        self._b = b
        ports = [] if b.graph is None else [each for each in b.graph.inputs if isinstance(each.fact, TensorFact)]
        b.looks_around = True
        # Layout passes do not change inputs, while the shape of another value may keep a transposed copy alive.
        self.sources = [each for each in dict.fromkeys([*ports, *near]) if not each.is_constant]
        self._shapes: dict[Value, Value] = {}
        self._known: dict[Dim, Value] = {}

    def shape_of(self, value: Value) -> Value:
        """Return the shape of a value."""
        if value not in self._shapes:
            self._shapes[value] = lengths_of(self._b, value)
        return self._shapes[value]

    def vector(self, dim: Dim) -> Value:
        """Return a dim as a vector of one element."""
        if dim not in self._known:
            self._known[dim] = self._computed(dim)
        return self._known[dim]

    def _computed(self, dim: Dim) -> Value:
        if isinstance(dim, int):
            return ints(self._b, [dim])
        for value in self.sources:
            if value.shape is not None and dim in value.shape:
                return emit(self._b, "GATHER", self.shape_of(value), ints(self._b, [value.shape.index(dim)]), axis=0)
        defined = self._expanded(dim)
        if defined != dim:
            return self.vector(defined)
        atom = single(dim)
        return self._sum(dim.terms) if atom is None else self._atom(atom)

    def _expanded(self, dim: Symbolic) -> Dim:
        try:
            return dim if self._b.graph is None else self._b.graph.root.extents.expanded(dim)
        except TooLong:
            return dim

    def _sum(self, terms: Terms) -> Value:
        """Add the positive terms, then subtract the negative ones."""
        positive = [self._product(n, monomial) for monomial, n in terms if n > 0]
        negative = [self._product(-n, monomial) for monomial, n in terms if n < 0]
        total = reduce(partial(emit, self._b, "ADD"), positive) if positive else self.vector(0)
        return reduce(partial(emit, self._b, "SUB"), negative, total)

    def _product(self, coefficient: int, monomial: Monomial) -> Value:
        factors = [self.vector(dim_from((((atom,), 1),))) for atom in monomial]
        if coefficient != 1 or not factors:
            factors.append(self.vector(coefficient))
        return reduce(partial(emit, self._b, "MUL"), factors)

    def _atom(self, atom: Atom) -> Value:
        if isinstance(atom, Variable):
            message = f"the dim {atom.name} is a dim of no input"
            raise UnsupportedError(message)
        if isinstance(atom, Quotient):
            parts = [self.vector(dim_from(atom.numerator)), self.vector(dim_from(atom.denominator))]
            return emit(self._b, "FLOOR_DIV", *parts)
        op_type = "MAXIMUM" if atom.kind == MAXIMUM else "MINIMUM"
        return reduce(partial(emit, self._b, op_type), [self.vector(dim_from(part)) for part in atom.operands])

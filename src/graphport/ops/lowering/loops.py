"""Export rules of loops that several dialects share: stacked scan outputs, Scan as Loop, optional values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Sub
from graphport.ops.definitions.control.loops import Loop
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Concat, Identity, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.captures import copied
from graphport.ops.lowering.operands import transposed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Value

Axes: TypeAlias = "tuple[int, ...] | None"
_FAR = -(1 << 62)


@dataclass(frozen=True, slots=True)
class RowStack:
    """Stacked results: rows, or flat elements and a shape if the shape of a row is known at run time only."""

    value: Value
    dtype: DType
    dims: tuple[Dim, ...]

    @classmethod
    def of(cls, value: Value) -> RowStack:
        """Return the stack of `value`.

        Raises:
            UnsupportedError: the dtype or the rank is unknown.
        """
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
            message = "the element type and the rank of a scan output are unknown"
            raise UnsupportedError(message)
        return cls(value, fact.dtype, fact.shape)

    @property
    def has_static_shape(self) -> bool:
        """Whether the shape of a row is static."""
        return all(isinstance(n, int) for n in self.dims)

    @property
    def facts(self) -> list[Fact]:
        """Return the facts of the states."""
        if self.has_static_shape:
            return [TensorFact(self.dtype, (OPEN, *self.dims))]
        return [TensorFact(self.dtype, (OPEN,)), TensorFact(DType.INT64, (len(self.dims),))]

    def begins(self, b: Builder) -> list[Value]:
        """Return the initial states."""
        dims = [n for n in self.dims if isinstance(n, int)] if self.has_static_shape else []
        empty = b.constant(np.zeros((0, *dims), self.dtype.numpy), self.dtype)
        # The shape of a row if the loop has no iterations: open dims are 0.
        row = np.array([n if isinstance(n, int) else 0 for n in self.dims], np.int64)
        return [empty] if self.has_static_shape else [empty, b.constant(row)]

    def append_row(self, inside: Builder, states: Sequence[Value]) -> list[Value]:
        """Return the states after one iteration."""
        if self.has_static_shape:
            row = inside(Unsqueeze, self.value, inside.constant(np.array([0])))
            return [inside(Concat, states[0], row, axis=0)]
        flat = inside(Reshape, self.value, inside.constant(np.array([-1])))
        return [inside(Concat, states[0], flat, axis=0), inside(Shape, self.value)]

    def joined(self, b: Builder, states: Sequence[Value], rounds: Value) -> Value:
        """Return the stacked rows from the final states."""
        count = b(Unsqueeze, rounds, b.constant(np.array([0])))
        return b(Reshape, states[0], b(Concat, count, states[1], axis=0), allowzero=1)


def export_has_element(b: Builder, input: Value | None = None) -> Value | None:
    """Export OptionalHasElement as a constant: a tensor operand is present, an omitted one is not."""
    if input is not None and not isinstance(input.fact, TensorFact):
        return None
    return b(Identity, b.constant(np.bool_(input is not None)))


def export_get_element(b: Builder, input: Value) -> Value | None:
    """Export OptionalGetElement of a tensor as Identity."""
    return b(Identity, input) if isinstance(input.fact, TensorFact) else None


def export_scan(
    b: Builder,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Axes = None,
    scan_input_directions: Axes = None,
    scan_output_axes: Axes = None,
    scan_output_directions: Axes = None,
) -> tuple[Value, ...]:
    """Export Scan as a Loop whose body gathers a slice of each scanned operand."""
    states = len(operands) - num_scan_inputs
    scanned = operands[states:]
    axes = [axis % len(b.dims(x)) for axis, x in zip(scan_input_axes or (0,) * len(scanned), scanned, strict=True)]
    length = b.dims(scanned[0])[axes[0]]
    rounds = b.constant(np.int64(length)) if isinstance(length, int) else _length(b, scanned[0], axes[0])
    steps = list(zip(scanned, axes, scan_input_directions or (0,) * len(scanned), strict=True))
    twin = _body(b, body, states, steps, rounds)
    results = b.results(Loop, b.count, rounds, None, *operands[:states], body=twin)
    count = len(results) - states
    directions, output_axes = scan_output_directions or (0,) * count, scan_output_axes or (0,) * count
    stacked = [_stacked(b, *each) for each in zip(results[states:], directions, output_axes, strict=True)]
    return (*results[:states], *stacked)


def _stacked(b: Builder, y: Value, is_reversed: int, place: int) -> Value:
    """Reorder stacked results: iterations run along axis 0; reverse them or transpose to another axis."""
    if is_reversed:
        y = b(Slice, y, [-1], [_FAR], [0], [-1])
    rank = len(b.dims(y))
    axis = place % rank
    return transposed(b, y, (*range(1, axis + 1), 0, *range(axis + 1, rank))) if axis else y


def _length(b: Builder, x: Value, axis: int) -> Value:
    return b(Gather, b(Shape, x), axis)


def _body(b: Builder, body: Graph, states: int, steps: list[tuple[Value, int, int]], rounds: Value) -> Graph:
    """Build the loop body: it receives the iteration number and captures the scanned operands."""
    twin = copied(b, body)
    given = list(twin.inputs)
    number = twin.add_input(twin.fresh("round"), TensorFact(DType.INT64, ()))
    goes_on = twin.add_input(twin.fresh("goes_on"), TensorFact(DType.BOOL, ()))
    inside = Builder(b.inference, twin, next(iter(twin), None), origin=b.origin, stem=b.stem)
    found = [twin.add_input(twin.fresh(value.name), value.fact) for value in given[:states]]
    for x, axis, is_reversed in steps:
        at = inside(Sub, inside(Sub, rounds, 1), number) if is_reversed else number
        found.append(inside(Gather, x, at, axis=axis))
    for old, new in zip(given, found, strict=True):
        old.replace_uses(new)
        twin.remove_input(old)
    twin.set_outputs([goes_on, *twin.outputs])
    return twin

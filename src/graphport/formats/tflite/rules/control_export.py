"""Export rules of control flow to TFLite, whose subgraphs have explicit inputs for all values that they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.formats.tflite.rules.control import own_results
from graphport.formats.tflite.rules.emitting import shaped
from graphport.ir.graph import Graph
from graphport.ir.transplant import transplant
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Sub
from graphport.ops.definitions.comparison import And, Less
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop, Scan
from graphport.ops.definitions.control.optionals import OptionalGetElement, OptionalHasElement
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reshape import Concat, Identity, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.captures import captured, close, copied, facts_of_results
from graphport.ops.lowering.operands import transposed, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Value


Exported: TypeAlias = "tuple[Value, ...] | None"


def _check_tensors(values: Sequence[Value]) -> None:
    if not all(isinstance(value.fact, TensorFact) for value in values):
        message = "sequences cannot be passed to subgraphs"
        raise UnsupportedError(message)


@If.export_rule("tflite")
def export_if(b: Builder, cond: Value, *, then_branch: Graph, else_branch: Graph) -> Exported:
    """Export If: both branches receive all values that either uses.

    Of a constant condition only one branch is inlined.
    """
    known = folded(cond)
    if known is not None and known.count == 1 and b.before is not None:
        taken = then_branch if bool(known.numpy().reshape(-1)[0]) else else_branch
        moved = transplant(taken, b.before, {})
        own = [moved[value] for value in taken.outputs if value in moved and moved[value].producer is not None]
        if len(set(own)) == len(taken.outputs):
            return tuple(own)
        return tuple(b(Identity, moved.get(value, value)) for value in taken.outputs)
    branches = [copied(b, each) for each in (then_branch, else_branch)]
    given = list(dict.fromkeys(value for branch in branches for value in captured(branch)))
    for branch in branches:
        _check_tensors([*given, *branch.outputs])
        _add_captured_inputs(branch, given)
        branch.set_outputs(own_results(b, branch, branch.outputs))
    then_subgraph, else_subgraph = branches
    operands = [shaped(b, cond, ()) if b.dims(cond) else cond, *given]
    return b.emit("IF", *operands, facts=facts_of_results(b), then_subgraph=then_subgraph, else_subgraph=else_subgraph)


def _add_captured_inputs(body: Graph, given: Sequence[Value]) -> list[Value]:
    """Add a body input for each of `given`, even if the body does not use it."""
    positions = close(body, list(given))
    made = dict(zip(positions, body.inputs[len(body.inputs) - len(positions) :], strict=True))
    for value in made.values():
        body.remove_input(value) if not value.uses else None
    found: list[Value] = []
    for place, value in enumerate(given):
        new = body.add_input(value.name, value.fact)
        old = made.get(place)
        if old is not None:
            old.replace_uses(new)
            if old in body.inputs:
                body.remove_input(old)
        found.append(new)
    return found


@Loop.export_rule("tflite")
def export_loop(
    b: Builder, m: Value | None = None, cond: Value | None = None, *v_initial: Value | None, body: Graph
) -> Exported:
    """Export Loop: the states are iteration number, condition, carried values, stacked results and captured values."""
    if any(value is None for value in v_initial):
        message = "a carried value is absent"
        raise UnsupportedError(message)
    carried = [value for value in v_initial if value is not None]
    twin = copied(b, body)
    outside = list(captured(twin))
    stacked = twin.outputs[1 + len(carried) :]
    _check_tensors([*carried, *outside, *twin.outputs])
    most = b.constant(np.int64(np.iinfo(np.int64).max)) if m is None else m
    most = shaped(b, most, ()) if b.dims(most) else most
    begins = b.constant(np.bool_(True)) if cond is None else shaped(b, cond, ()) if b.dims(cond) else cond
    stacks = [_Stack.of(value) for value in stacked]
    empty = [state for stack in stacks for state in stack.begins(b)]
    given = [b.constant(np.int64(0)), begins, *carried, *empty, most, *outside]
    inner = _round(b, twin, len(carried), stacks, most, outside)
    holds = Graph(b.graph.fresh("holds") if b.graph is not None else "holds")
    if b.graph is not None:
        b.graph.share_names(holds)
    states = [holds.add_input(value.name, value.fact) for value in inner.inputs]
    asks = Builder(b.inference, holds, origin=b.origin, stem=b.stem)
    holds.set_outputs([asks(And, asks(Less, states[0], states[2 + len(carried) + len(empty)]), states[1])])
    own, grown = facts_of_results(b), 2 + len(carried)
    facts: list[Fact] = [value.fact for value in given[:2]]
    facts += own[: len(carried)]
    for stack, fact in zip(stacks, own[len(carried) :], strict=True):
        facts += [fact] if stack.has_static_shape else stack.facts
    facts += [value.fact for value in given[len(facts) :]]
    results = b.emit("WHILE", *given, facts=facts, cond_subgraph=holds, body_subgraph=inner)
    found, states = [*results[2:grown]], list(results[grown:])
    for stack in stacks:
        last, states = states[: len(stack.facts)], states[len(stack.facts) :]
        found.append(last[0] if stack.has_static_shape else stack.joined(b, last, results[0]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Stack:
    """Stacked scan outputs: rows, or flat elements and a shape if the row shape is known at run time only."""

    value: Value
    dtype: DType
    dims: tuple[Dim, ...]

    @classmethod
    def of(cls, value: Value) -> _Stack:
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
            message = "the type and the rank of a stacked value must be known"
            raise UnsupportedError(message)
        return cls(value, fact.dtype, fact.shape)

    @property
    def has_static_shape(self) -> bool:
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
        return [empty] if self.has_static_shape else [empty, b.constant(np.zeros(len(self.dims), np.int64))]

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


def _round(
    b: Builder, twin: Graph, carried: int, stacks: Sequence[_Stack], most: Value, outside: Sequence[Value]
) -> Graph:
    """Convert the loop body to a subgraph of all states."""
    inside = Builder(b.inference, twin, origin=b.origin, stem=b.stem)
    sums = [[twin.add_input(f"{stack.value.name}_rows", fact) for fact in stack.facts] for stack in stacks]
    limit = twin.add_input(most.name, most.fact)
    rest = _add_captured_inputs(twin, outside)
    number, goes_on, *results = twin.inputs[0], *twin.outputs[: 1 + carried]
    rows = [state for stack, states in zip(stacks, sums, strict=True) for state in stack.append_row(inside, states)]
    following = inside(Add, number, inside.constant(np.int64(1)))
    goes_on = shaped(inside, goes_on, ()) if inside.dims(goes_on) else goes_on
    twin.set_outputs(own_results(b, twin, [following, goes_on, *results, *rows, limit, *rest]))
    return twin


@OptionalHasElement.export_rule("tflite")
def export_has_element(b: Builder, input: Value | None = None) -> Exported:
    """Export OptionalHasElement as a constant: a tensor operand is present, an omitted one is not."""
    if input is not None and not isinstance(input.fact, TensorFact):
        return None
    return (b(Identity, b.constant(np.bool_(input is not None))),)


@OptionalGetElement.export_rule("tflite")
def export_get_element(b: Builder, input: Value) -> Exported:
    return (b(Identity, input),) if isinstance(input.fact, TensorFact) else None


Axes: TypeAlias = "tuple[int, ...] | None"
_MIN_TRIP_COUNT = -(1 << 62)


@Scan.export_rule("tflite")
def export_scan(
    b: Builder,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Axes = None,
    scan_input_directions: Axes = None,
    scan_output_axes: Axes = None,
    scan_output_directions: Axes = None,
) -> Exported:
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
        y = b(Slice, y, vector(b, [-1]), vector(b, [_MIN_TRIP_COUNT]), vector(b, [0]), vector(b, [-1]))
    rank = len(b.dims(y))
    axis = place % rank
    return transposed(b, y, (*range(1, axis + 1), 0, *range(axis + 1, rank))) if axis else y


def _length(b: Builder, x: Value, axis: int) -> Value:
    return b(Gather, b(Shape, x), b.constant(np.int64(axis)))


def _body(b: Builder, body: Graph, states: int, steps: list[tuple[Value, int, int]], rounds: Value) -> Graph:
    """Build the loop body: it receives the iteration number and captures the scanned operands."""
    twin = copied(b, body)
    given = list(twin.inputs)
    shape: tuple[Dim, ...] = ()
    number = twin.add_input(twin.fresh("round"), TensorFact(DType.INT64, shape))
    goes_on = twin.add_input(twin.fresh("goes_on"), TensorFact(DType.BOOL, shape))
    inside = Builder(b.inference, twin, next(iter(twin), None), origin=b.origin, stem=b.stem)
    found = [twin.add_input(twin.fresh(value.name), value.fact) for value in given[:states]]
    for x, axis, is_reversed in steps:
        at = inside(Sub, inside(Sub, rounds, inside.constant(np.int64(1))), number) if is_reversed else number
        found.append(inside(Gather, x, at, axis=axis))
    for old, new in zip(given, found, strict=True):
        old.replace_uses(new)
        twin.remove_input(old)
    twin.set_outputs([goes_on, *twin.outputs])
    return twin

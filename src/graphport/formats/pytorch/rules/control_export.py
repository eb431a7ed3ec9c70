"""Export rules of branches and loops: higher-order operators, whose bodies get their operands in `closing`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.rules.emitting import DIALECT, ITEM
from graphport.ir.graph import Graph, Value
from graphport.ir.transplant import transplant
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Sub
from graphport.ops.definitions.comparison import And, Less
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop, Scan
from graphport.ops.definitions.control.optionals import OptionalGetElement, OptionalHasElement
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Concat, Identity, Reshape, Shape, Unsqueeze
from graphport.ops.lowering.captures import copied, facts_of_results
from graphport.ops.lowering.operands import as_scalar, transposed, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact

Axes: TypeAlias = "tuple[int, ...] | None"
COND, WHILE = "higher_order.cond", "higher_order.while_loop"
_FAR = -(1 << 62)


def _check_tensors(values: Sequence[Value]) -> None:
    if not all(isinstance(value.fact, TensorFact) for value in values):
        message = "branches and loops in PyTorch pass tensors only, not sequences"
        raise UnsupportedError(message)


@If.export_rule(DIALECT)
def export_if(b: Builder, cond: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    """Export If as `torch.cond`; for a constant condition, inline the branch."""
    known = folded(cond)
    if known is not None and known.count == 1 and b.before is not None:
        taken = then_branch if bool(known.numpy().reshape(-1)[0]) else else_branch
        moved = transplant(taken, b.before, {})
        return tuple(b(Identity, moved.get(value, value)) for value in taken.outputs)
    branches = [copied(b, each) for each in (then_branch, else_branch)]
    for branch in branches:
        _check_tensors(branch.outputs)
    condition = as_scalar(b, cond) if b.dims(cond) else cond
    attributes = {"1": branches[0], "2": branches[1], KEYS: ("0",)}
    return b.emit(COND, condition, facts=facts_of_results(b), **attributes)


@Loop.export_rule(DIALECT)
def export_loop(
    b: Builder, m: Value | None = None, cond: Value | None = None, *v_initial: Value | None, body: Graph
) -> tuple[Value, ...]:
    """Export Loop as `torch.while_loop`: it carries iteration number, condition, carried values and stacked results."""
    carried = [value for value in v_initial if value is not None]
    if len(carried) < len(v_initial):
        message = "a loop-carried value is absent"
        raise UnsupportedError(message)
    twin = copied(b, body)
    _check_tensors([*carried, *twin.outputs])
    stacks = [_Stack.of(value) for value in twin.outputs[1 + len(carried) :]]
    begins = b.constant(np.bool_(True)) if cond is None else as_scalar(b, cond)
    empty = [state for stack in stacks for state in stack.begins(b)]
    given = [b.constant(np.int64(0)), begins, *carried, *empty]
    _make_round(b, twin, stacks, len(carried))
    goes_on = _condition(b, twin, None if m is None else as_scalar(b, m))
    own, grown = facts_of_results(b), 2 + len(carried)
    facts: list[Fact] = [TensorFact(DType.INT64, ()), TensorFact(DType.BOOL, ()), *own[: len(carried)]]
    for stack, fact in zip(stacks, own[len(carried) :], strict=True):
        facts += [fact] if stack.has_static_shape else stack.facts
    keys = tuple(f"2{ITEM}" for _ in given)
    results = b.emit(WHILE, *given, facts=facts, **{"0": goes_on, "1": twin, "3": (), KEYS: keys})
    found, states = [*results[2:grown]], list(results[grown:])
    for stack in stacks:
        last, states = states[: len(stack.facts)], states[len(stack.facts) :]
        found.append(last[0] if stack.has_static_shape else stack.joined(b, last, results[0]))
    return tuple(found)


def _condition(b: Builder, body: Graph, limit: Value | None) -> Graph:
    """Build the condition graph: the iteration number is below the trip count, and the condition value is true."""
    holds = Graph(b.graph.fresh("condition") if b.graph is not None else "condition")
    if b.graph is not None:
        b.graph.share_names(holds)
    states = [holds.add_input(value.name, value.fact) for value in body.inputs]
    inside = Builder(b.inference, holds, origin=b.origin, stem=b.stem)
    if limit is None:
        holds.set_outputs([inside(Identity, states[1])])
    else:
        holds.set_outputs([inside(And, inside(Less, states[0], limit), states[1])])
    return holds


@dataclass(frozen=True, slots=True)
class _Stack:
    """Stacked results: rows, or flat elements and a shape if the shape of a row is known at run time only."""

    value: Value
    dtype: DType
    dims: tuple[Dim, ...]

    @classmethod
    def of(cls, value: Value) -> _Stack:
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.dtype is None or fact.shape is None:
            message = "the element type and the rank of a scan output are unknown"
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


def _make_round(b: Builder, body: Graph, stacks: Sequence[_Stack], carried: int) -> None:
    """Add all states to the inputs and outputs of the loop body."""
    inside = Builder(b.inference, body, origin=b.origin, stem=b.stem)
    sums = [[body.add_input(f"{stack.value.name}_rows", fact) for fact in stack.facts] for stack in stacks]
    number, again, *results = body.inputs[0], *body.outputs[: 1 + carried]
    for value, dtype in zip(body.inputs[:2], (DType.INT64, DType.BOOL), strict=True):
        value.fact = TensorFact(dtype, ())
    rows = [state for stack, states in zip(stacks, sums, strict=True) for state in stack.append_row(inside, states)]
    following = inside(Add, number, inside.constant(np.int64(1)))
    goes_on = as_scalar(inside, again) if inside.dims(again) else again
    body.set_outputs([following, goes_on, *results, *rows])


@OptionalHasElement.export_rule(DIALECT)
def export_has_element(b: Builder, input: Value | None = None) -> Value | None:
    """Export OptionalHasElement as a constant: a tensor operand is present, an omitted one is not."""
    if input is not None and not isinstance(input.fact, TensorFact):
        return None
    return b(Identity, b.constant(np.bool_(input is not None)))


@OptionalGetElement.export_rule(DIALECT)
def export_get_element(b: Builder, input: Value) -> Value | None:
    return b(Identity, input) if isinstance(input.fact, TensorFact) else None


@Scan.export_rule(DIALECT)
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
        y = b(Slice, y, vector(b, [-1]), vector(b, [_FAR]), vector(b, [0]), vector(b, [-1]))
    rank = len(b.dims(y))
    axis = place % rank
    return transposed(b, y, (*range(1, axis + 1), 0, *range(axis + 1, rank))) if axis else y


def _length(b: Builder, x: Value, axis: int) -> Value:
    return b(Gather, b(Shape, x), b.constant(np.int64(axis)))


def _body(b: Builder, body: Graph, states: int, steps: list[tuple[Value, int, int]], rounds: Value) -> Graph:
    """Build the loop body: it receives the iteration number and captures the scanned operands."""
    twin = copied(b, body)
    given = list(twin.inputs)
    number = twin.add_input(twin.fresh("round"), TensorFact(DType.INT64, ()))
    goes_on = twin.add_input(twin.fresh("goes_on"), TensorFact(DType.BOOL, ()))
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

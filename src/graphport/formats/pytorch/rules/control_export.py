"""Export rules of branches and loops: higher-order operators, whose bodies get their operands in `closing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.pytorch.rules.binding import KEYS
from graphport.formats.pytorch.rules.emitting import DIALECT, ITEM
from graphport.ir.graph import Graph, Value
from graphport.ir.transplant import transplant
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.comparison import And, Less
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop, Scan
from graphport.ops.definitions.control.optionals import OptionalGetElement, OptionalHasElement
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.captures import copied, facts_of_results
from graphport.ops.lowering.loops import RowStack, export_get_element, export_has_element, export_scan
from graphport.ops.lowering.operands import as_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact

COND, WHILE = "higher_order.cond", "higher_order.while_loop"


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
    stacks = [RowStack.of(value) for value in twin.outputs[1 + len(carried) :]]
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


def _make_round(b: Builder, body: Graph, stacks: Sequence[RowStack], carried: int) -> None:
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


OptionalHasElement.export_rule(DIALECT)(export_has_element)
OptionalGetElement.export_rule(DIALECT)(export_get_element)
Scan.export_rule(DIALECT)(export_scan)

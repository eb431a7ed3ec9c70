"""Export rules of control flow to TFLite, whose subgraphs have explicit inputs for all values that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.control import own_results
from graphport.formats.tflite.rules.emitting import shaped
from graphport.ir.graph import Graph
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
from graphport.ops.lowering.captures import captured, close, copied, facts_of_results
from graphport.ops.lowering.loops import RowStack, export_get_element, export_has_element, export_scan

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    stacks = [RowStack.of(value) for value in stacked]
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


def _round(
    b: Builder, twin: Graph, carried: int, stacks: Sequence[RowStack], most: Value, outside: Sequence[Value]
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


OptionalHasElement.export_rule("tflite")(export_has_element)
OptionalGetElement.export_rule("tflite")(export_get_element)
Scan.export_rule("tflite")(export_scan)

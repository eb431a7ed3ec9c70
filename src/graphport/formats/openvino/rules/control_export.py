"""Export rules of Loop, Scan and If; their bodies must not capture outer values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value, walk
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.control.branches import If
from graphport.ops.definitions.control.loops import Loop, Scan
from graphport.ops.definitions.reshape import Squeeze, Unsqueeze
from graphport.ops.lowering.captures import captured, close, copied, facts_of_results
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import index, vector

if TYPE_CHECKING:
    from graphport.formats.openvino.rules.control import Map


@If.export_rule("openvino")
def export_if(b: Builder, cond: Value, *, then_branch: Graph, else_branch: Graph) -> tuple[Value, ...]:
    """Export If: captured values become operands, captured constants are copied into the branches."""
    branches = (copied(b, then_branch), copied(b, else_branch))
    order = list(dict.fromkeys(value for branch in branches for value in captured(branch)))
    attributes: dict[str, Any] = {}
    for name, branch in zip(("then", "else"), branches, strict=True):
        given = close(branch, order)
        attributes[f"{name}_body"] = branch
        attributes[f"{name}_inputs"] = tuple((place + 1, inner) for inner, place in enumerate(given))
        attributes[f"{name}_outputs"] = tuple((place, place) for place in range(len(branch.outputs)))
    facts = facts_of_results(b)
    return b.emit("opset8.If", cond, *order, facts=facts, **attributes)


@Loop.export_rule("openvino")
def export_loop(
    b: Builder, m: Value | None = None, cond: Value | None = None, *v_initial: Value | None, body: Graph
) -> tuple[Value, ...]:
    """Export Loop: carried values are back edges; scan outputs are concatenated along a new leading axis of 1."""
    inner = copied(b, body)
    if any(value is None for value in v_initial):
        message = "a loop-carried value without an initial value"
        raise UnsupportedError(message)
    outside = list(captured(inner))
    carried = [value for value in v_initial if value is not None]
    emit_end = Builder(b.inference, inner, None, origin=b.origin, stem=b.stem)
    outputs = inner.outputs
    stacked = outputs[1 + len(carried) :]
    axis = vector(emit_end, [0])
    joined = [emit_end(Unsqueeze, value, axis) for value in stacked]
    inner.set_outputs([*outputs[: 1 + len(carried)], *joined])
    for value, dtype in zip(inner.inputs[:2], (DType.INT64, DType.BOOL), strict=True):
        value.fact = TensorFact(dtype, ())
    positions = close(inner, outside)
    trips = index(b, -1) if m is None or _is_unbounded(m) else m
    condition = b.constant(np.array(True)) if cond is None else cond
    first = 2 + len(carried)
    inputs: Map = (
        *((2 + place, 2 + place) for place in range(len(carried))),
        *((first + place, first + index) for index, place in enumerate(positions)),
    )
    return b.emit(
        "opset5.Loop",
        trips,
        condition,
        *carried,
        *outside,
        facts=facts_of_results(b),
        body=inner,
        inputs=(*inputs, (1, 1)),
        outputs=(
            *((place, 1 + place) for place in range(len(carried))),
            *((place, 1 + place, 0, 0, -1, 1, 1) for place in range(len(carried), len(carried) + len(joined))),
        ),
        back_edges=((0, 1), *((1 + place, 2 + place) for place in range(len(carried)))),
        current_iteration=0,
        execution_condition=0,
    )


def _is_unbounded(trip_count: Value) -> bool:
    """Whether a trip count is a constant of at least 2^31 - 1: OpenVINO reserves memory for as many results."""
    known = trip_count.fact.elements if isinstance(trip_count.fact, TensorFact) else None
    return bool(known) and isinstance(known[0], int) and known[0] >= np.iinfo(np.int32).max


@Scan.export_rule("openvino")
def export_scan(
    b: Builder,
    *initial_state_and_scan_inputs: Value | None,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> tuple[Value, ...]:
    """Export Scan as TensorIterator or Loop: parts have length 1, which the body squeezes."""
    operands = [value for value in initial_state_and_scan_inputs if value is not None]
    if len(operands) < len(initial_state_and_scan_inputs):
        message = "a state without an initial value"
        raise UnsupportedError(message)
    inner = copied(b, body)
    outside = list(captured(inner))
    states, count = len(operands) - num_scan_inputs, len(inner.outputs)
    pairs = zip(operands[states:], scan_input_axes or (0,) * num_scan_inputs, strict=True)
    axes = [axis % len(b.dims(operand)) for operand, axis in pairs]
    if not any(value.uses for value in inner.inputs[states:]):
        message = "a Scan whose body ignores its scan inputs: OpenVINO loses the trip count"
        raise UnsupportedError(message)
    for value, operand, axis in zip(inner.inputs[states:], operands[states:], axes, strict=True):
        _take_axis_away(b, inner, value, operand, axis)
    ends: list[int] = []
    outputs = inner.outputs
    end = Builder(b.inference, inner, None, origin=b.origin, stem=b.stem)
    for place, axis in zip(range(states, count), scan_output_axes or (0,) * (count - states), strict=True):
        ends.append(axis % (len(end.dims(outputs[place])) + 1))
        outputs[place] = end(Unsqueeze, outputs[place], vector(end, [ends[-1]]))
    is_nested = any(_walks(node) for each in walk(inner) for node in each)
    if is_nested:
        outputs.append(end.constant(np.array(True)))
    inner.set_outputs(outputs)
    positions = close(inner, outside)
    cuts = [_cut(*each) for each in zip(axes, scan_input_directions or (0,) * num_scan_inputs, strict=True)]
    joins = [_cut(*each) for each in zip(ends, scan_output_directions or (0,) * len(ends), strict=True)]
    # A TensorIterator cannot be nested in another one; a Loop with a trip count can.
    before = (b(Squeeze, extent(b, operands[states], axes[0])), b.constant(np.array(True))) if is_nested else ()
    at = len(before)
    return b.emit(
        "opset5.Loop" if is_nested else "opset1.TensorIterator",
        *before,
        *operands,
        *outside,
        facts=facts_of_results(b),
        body=inner,
        inputs=(
            *((at + place, place) for place in range(states)),
            *((at + states + i, states + i, *cut) for i, cut in enumerate(cuts)),
            *((at + len(operands) + place, len(operands) + i) for i, place in enumerate(positions)),
        ),
        outputs=(
            *((place, place) for place in range(states)),
            *((states + i, states + i, *join) for i, join in enumerate(joins)),
        ),
        back_edges=tuple((place, place) for place in range(states)),
        current_iteration=None,
        execution_condition=count if is_nested else None,
    )


def _walks(node: Node) -> bool:
    return node.op == "Scan" or node.op_type == "opset1.TensorIterator"


def _cut(axis: int, direction: int) -> tuple[int, ...]:
    """Return (axis, start, end, stride, size) of slices of length 1; backward if `direction` is 1."""
    return (axis, -1, 0, -1, 1) if direction else (axis, 0, -1, 1, 1)


def _take_axis_away(b: Builder, body: Graph, value: Value, operand: Value, axis: int) -> None:
    """Change a body input from an entry to a slice of length 1, and squeeze it for its consumers."""
    dims, fact = b.dims(operand), operand.fact
    part = (*dims[:axis], 1, *dims[axis + 1 :])
    users = list(value.uses)
    value.fact = TensorFact(fact.dtype if isinstance(fact, TensorFact) else None, part)
    front = Builder(b.inference, body, body.first_node, origin=b.origin, stem=b.stem)
    entry = front(Squeeze, value, vector(front, [axis]))
    for use in users:
        use.read(entry)

"""Scans in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import DIALECT
from graphport.ops.constant_folding import folded
from graphport.ops.declare import export_rule
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.operands import vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph, Value
    from graphport.ops.builder import Builder


@export_rule(DIALECT, "Scan")
def export_scan(
    b: Builder,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> Any:
    """Complete the default attributes of a Scan, whose body the writer writes as a fragment."""
    count = len(body.outputs) - (len(operands) - num_scan_inputs)
    entries = operands[len(operands) - num_scan_inputs :]
    axes = scan_input_axes or (0,) * num_scan_inputs
    given: dict[str, Any] = {
        "num_scan_inputs": num_scan_inputs,
        "scan_input_axes": tuple(axis % len(b.dims(x)) for axis, x in zip(axes, entries, strict=True)),
        "scan_input_directions": scan_input_directions or (0,) * num_scan_inputs,
        "scan_output_axes": scan_output_axes or (0,) * count,
        "scan_output_directions": scan_output_directions or (0,) * count,
    }
    free = TensorFact(None, None)
    states = operands[: len(operands) - num_scan_inputs]
    operands = (*states, *(_computed(b, entry, operands) for entry in entries))
    if any(axis < 0 for axis in given["scan_output_axes"]):
        return None
    return b.emit("tract_core_scan", *operands, facts=[free] * b.count, body=body, **given)


def _computed(b: Builder, entry: Value, operands: Sequence[Value]) -> Value:
    """Make a constant scan operand a computed value: tract 0.23 adds an axis to constants moved into the body.

    A constant is the choice between itself and itself, by a comparison of an element of another operand.
    """
    if folded(entry) is None:
        return entry
    b.looks_around = True
    emit = OpBuilder(b)
    for other in operands:
        dtype = other.dtype
        if folded(other) is not None or dtype is None or dtype.kind not in "fiu" or 0 in b.dims(other):
            continue
        rank = len(b.dims(other))
        axes = vector(b, range(rank))
        first = emit("Slice", other, [0] * rank, [1] * rank, axes) if rank else other
        element = emit("Reshape", first, [1] * len(b.dims(entry)))
        return emit("Where", emit("Equal", element, element), entry, entry)
    return entry

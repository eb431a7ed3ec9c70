"""Scans in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.facts import TensorFact
from graphport.ops.declare import lift
from graphport.ops.dialects.tract.binding import DIALECT

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value
    from graphport.ops.builder import Builder


@lift(DIALECT, "Scan")
def lift_scan(
    b: Builder,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] | None = None,
    scan_input_directions: tuple[int, ...] | None = None,
    scan_output_axes: tuple[int, ...] | None = None,
    scan_output_directions: tuple[int, ...] | None = None,
) -> Any:
    """The same, with all that ONNX leaves out; the writer makes a fragment of the body."""
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
    if any(axis < 0 for axis in given["scan_output_axes"]):
        return None
    return b.word("tract_core_scan", *operands, facts=[free] * b.count, body=body, **given)

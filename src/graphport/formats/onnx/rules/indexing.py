"""Older forms of picking elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.facts import UNKNOWN
from graphport.formats.onnx.rules.older import RULES, from_front, integers, unsupported
from graphport.ops.definitions.indexing import Slice
from graphport.ops.views.indexing import ScatterElementsView, SliceView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@Slice.lower("onnx", until=9)
def slice_1(
    b: Builder, data: Value, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Value:
    """Slice-1: bounds are attributes, without steps."""
    operands = [b.constant(np.array(numbers, np.int64)) for numbers in (starts, ends)]
    return b(Slice, data, *operands, None if axes is None else b.constant(np.array(axes, np.int64)))


RULES.lower("""
# The older name, which newer opsets no longer know.
Scatter(data, indices, updates, *, axis=0) -> ScatterElements(data, indices, updates, axis=axis)
""")


@SliceView.export_rule("onnx", until=9)
def slice_with_attributes(b: Builder, op: SliceView) -> Value:
    """Export Slice to opsets 1 to 9: bounds and axes are attributes; every step must be 1."""
    unsupported(
        (
            op.steps is not None and any(n != 1 for n in integers(op.steps, "steps")),
            "steps other than 1 are not supported",
        )
    )
    given = {"starts": integers(op.starts, "starts"), "ends": integers(op.ends, "ends")}
    if op.axes is not None:
        given["axes"] = from_front(b, integers(op.axes, "axes"), op.data)
    return b.emit("Slice", op.data, facts=[UNKNOWN], **given)[0]


@ScatterElementsView.export_rule("onnx", until=10)
def scatter_elements_as_scatter(b: Builder, op: ScatterElementsView) -> Value:
    """Export ScatterElements as Scatter, its name up to opset 10."""
    unsupported((op.reduction != "none", "reduction is not supported"))
    return b.emit("Scatter", op.data, op.indices, op.updates, facts=[op.data.fact], axis=op.axis)[0]

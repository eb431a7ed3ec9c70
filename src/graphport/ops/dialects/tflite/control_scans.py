"""Scans of ONNX in TFLite: loops over the steps of what is scanned."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops.builder import Builder
from graphport.ops.dialects.operands import transposed, vector
from graphport.ops.pages.arithmetic import Sub
from graphport.ops.pages.control.loops import Loop, Scan
from graphport.ops.pages.indexing.gathering import Gather
from graphport.ops.pages.indexing.slicing import Slice
from graphport.ops.pages.reshape import Shape

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Value

Lifted: TypeAlias = "tuple[Value, ...] | None"
Axes: TypeAlias = "tuple[int, ...] | None"
_FARTHEST = -(1 << 62)


@Scan.lift("tflite")
def lift_scan(
    b: Builder,
    *operands: Value,
    body: Graph,
    num_scan_inputs: int,
    scan_input_axes: Axes = None,
    scan_input_directions: Axes = None,
    scan_output_axes: Axes = None,
    scan_output_directions: Axes = None,
) -> Lifted:
    """A loop whose body picks its step of each operand; results that are stacked otherwise are turned behind it."""
    states = len(operands) - num_scan_inputs
    scanned = operands[states:]
    axes = [axis % len(b.dims(x)) for axis, x in zip(scan_input_axes or (0,) * len(scanned), scanned, strict=True)]
    length = b.dims(scanned[0])[axes[0]]
    rounds = b.constant(np.int64(length)) if isinstance(length, int) else _length(b, scanned[0], axes[0])
    steps = list(zip(scanned, axes, scan_input_directions or (0,) * len(scanned), strict=True))
    twin = _body(b, body, states, steps, rounds)
    results = b.results(Loop, b.count, rounds, None, *operands[:states], body=twin)
    count = len(results) - states
    directions, places = scan_output_directions or (0,) * count, scan_output_axes or (0,) * count
    stacked = [_stacked(b, *each) for each in zip(results[states:], directions, places, strict=True)]
    return (*results[:states], *stacked)


def _stacked(b: Builder, y: Value, is_reversed: int, place: int) -> Value:
    """What has its steps along the first axis, with the last one first, or along another axis."""
    if is_reversed:
        y = b(Slice, y, vector(b, [-1]), vector(b, [_FARTHEST]), vector(b, [0]), vector(b, [-1]))
    rank = len(b.dims(y))
    axis = place % rank
    return transposed(b, y, (*range(1, axis + 1), 0, *range(axis + 1, rank))) if axis else y


def _length(b: Builder, x: Value, axis: int) -> Value:
    return b(Gather, b(Shape, x), b.constant(np.int64(axis)))


def _body(b: Builder, body: Graph, states: int, steps: list[tuple[Value, int, int]], rounds: Value) -> Graph:
    """The body of the loop: it is given the round, and reads what is scanned from around it."""
    twin = rewrite.copy(body)
    if b.graph is not None:
        b.graph.share_names(twin)
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

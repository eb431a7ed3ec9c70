"""Every so many-th entry of a range."""

from __future__ import annotations

from typing import Annotated

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_less, maximum, minimum
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_indices
from graphport.ops.types import ALL_4, INDICES, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]

FAR = 2**31 - 1
"""Exporters write the largest integer of 32 or 64 bits for "to the end"; no axis is so long."""


def _slice_shape(
    data: TensorFact,
    starts: TensorFact,
    ends: TensorFact,
    axes: TensorFact | None = None,
    steps: TensorFact | None = None,
) -> TensorFact:
    dims = list(data.dims)
    count = _count(starts, ends, axes, steps)
    if count is None or (axes is not None and axes.elements is None):
        return data.with_shape([OPEN] * len(dims))
    chosen = axis_indices(range(count) if axes is None else axes.integer_elements, len(dims))
    for number, axis in enumerate(chosen):
        start, end = (None if fact.elements is None else fact.elements[number] for fact in (starts, ends))
        dims[axis] = _length(dims[axis], start, end, _step(steps, number))
    return data.with_shape(dims)


def _count(*operands: TensorFact | None) -> int | None:
    """Return the number of sliced axes, or None if it is unknown."""
    known = {
        fact.dims[0] if fact.rank else 1
        for fact in operands
        if fact is not None and fact.shape is not None and not (fact.shape and isinstance(fact.shape[0], Symbolic))
    }
    if len(known) > 1:
        message = f"starts, ends, axes and `steps` have different element counts: {', '.join(sorted(map(str, known)))}"
        raise ShapeError(message, "one each for every axis")
    return next((number for number in known if isinstance(number, int)), None)


def _step(steps: TensorFact | None, number: int) -> Dim | None:
    if steps is None:
        return 1
    return None if steps.elements is None else steps.elements[number]


def _length(n: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Dim:
    """Entries that `start:end:step` takes of `n` (ONNX Slice-13: negative positions count from the end, then clamp)."""
    if step == 0:
        message = "the slice stride is 0"
        raise ShapeError(message, "expected a positive or negative stride")
    if start is None or end is None or step is None or isinstance(step, Symbolic):
        return OPEN
    first, last = _from_front(start, n), _from_front(end, n)
    if first is None or last is None:
        return OPEN
    if step > 0:
        # A start beyond the end selects nothing, clamped or not.
        return maximum(ceil_div(minimum(last, n) - maximum(first, 0), step), 0)
    return maximum(ceil_div(minimum(maximum(first, 0), n - 1) - maximum(last, -1), -step), 0)


def _from_front(position: Dim, n: Dim) -> Dim | None:
    if isinstance(position, int) and abs(position) >= FAR:
        return n if position > 0 else -1
    is_negative = decide_less(position, 0)
    if is_negative is None:
        return None
    return position + n if is_negative else position


@op(
    picks=True,
    turns="axes",
    shape=_slice_shape,
    since=10,
    outputs=("output",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("starts", "ends", "axes", "steps"),
    ranks={"data": (1, None), "starts": 1, "ends": 1, "axes": 1, "steps": 1},
)
def Slice(data: T, starts: Tind, ends: Tind, axes: Tind | None = None, steps: Tind | None = None) -> T:
    """Select elements from `starts` to `ends` (exclusive) with `steps` along each of `axes`.

    Negative positions count from the end; positions are clamped to the axis. A negative step iterates backwards; an end
    before the first element selects through index 0, as the specification defines it. ONNX Runtime also accepts the
    largest integer for that.

    Shapes: data [*s], the others [k] → [*s], shorter at `axes`.

    Raises:
        ShapeError: a step of 0, an axis out of range or repeated, or operands of different lengths.

    Source: ONNX Slice-13.
    """
    indices = range(len(starts)) if axes is None else [int(axis) for axis in axes]
    strides = [1] * len(starts) if steps is None else [int(step) for step in steps]
    window = [slice(None)] * data.ndim
    for axis, start, end, step in zip(indices, starts, ends, strides, strict=True):
        window[axis] = _window(int(start), int(end), step, data.shape[axis])
    return data[tuple(window)]


def _window(start: int, end: int, step: int, n: int) -> slice:
    first, last = (position + n if position < 0 else position for position in (start, end))
    if step > 0:
        return slice(max(first, 0), max(last, 0), step)
    first, last = min(max(first, 0), n - 1), max(last, -1)
    # Python takes an end before the first entry for one that counts from the back.
    return slice(0, 0) if first < 0 else slice(first, None if last < 0 else last, step)

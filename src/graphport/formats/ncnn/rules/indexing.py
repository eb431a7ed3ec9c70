"""Pieces of ncnn's blobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dims import Dim, bounds, ceil_div, maximum, minimum, product
from graphport.core.facts import Fact, TensorFact
from graphport.formats.ncnn.rules import indexing_gather
from graphport.formats.ncnn.rules.annotations import batch_of
from graphport.formats.ncnn.rules.binding import AXES, NONE, Layer, layer
from graphport.formats.ncnn.rules.emitting import (
    blob_axis,
    blob_dims,
    computed,
    constant_float32,
    emitted,
    placed,
    refuse_constants,
    reshaped,
    restore_leading_batch,
    restored,
    static_sizes,
)
from graphport.formats.ncnn.rules.integers import is_bits
from graphport.formats.ncnn.rules.shape_expressions import Length, joined, lengths_of_text, list_of
from graphport.formats.pytorch.rules.binding import length
from graphport.formats.pytorch.rules.functions.indexing_slices import flip as flipped
from graphport.formats.pytorch.rules.functions.padding import padded
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Div, Mul
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Flatten, Reshape, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, needed, sizes
from graphport.ops.pattern import constant_numbers
from graphport.ops.views.indexing import SliceView

_LAST = 2147483647


@layer("Crop")
def crop(at: Layer) -> Value:
    """Crop: between bounds on some axes; or from an offset with sizes, end margins, or the second blob's sizes."""
    x, b = at.x, at.b
    if len(at.inputs) == 2 and at.integer(0) != NONE and not any(str(key) in at.parameters for key in (9, 10, 19, 20)):
        return _like(at)
    first, last, along = (at.text(key) for key in (19, 20, 21))
    if first is not None and last is not None:
        axes = [] if along is None else list_of(at, along)
        return _slice(at, lengths_of_text(at, first), lengths_of_text(at, last), axes)
    if len(at.inputs) != 1:
        message = "the slice bounds depend on another blob"
        raise UnsupportedError(message)
    starts, ends = at.array(9), at.array(10)
    if starts or ends:
        return _slice(at, [int(n) for n in starts], [int(n) for n in ends], [int(n) for n in at.array(11)])
    names = AXES[at.rank]
    keys = {"w": (0, 3, 6), "h": (1, 4, 7), "d": (13, 14, 15), "c": (2, 5, 8)}
    if not any(at.integer(key) for name in names for key in keys[name][1:]):
        message = "the crop sizes are missing"
        raise ShapeError(message)
    for axis, name in enumerate(names, 1):
        offset, size, rest = (at.integer(key) for key in keys[name])
        extent = length(b.dims(x), axis)
        stop = extent - rest if size == NONE else min(offset + size, extent - rest)
        x = _cropped(b, x, axis, offset, stop)
    return x


def _cropped(b: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    if not start and stop == length(b.dims(x), axis):
        return x
    return b(Slice, x, [start], [stop], [axis])


def _like(at: Layer) -> Value:
    """Crop to the sizes of the second blob from an offset on; channels only if the ranks are equal."""
    b, x = at.b, at.x
    keys = {"w": 0, "h": 1, "d": 13, "c": 2}
    own, other = AXES[at.rank], b.dims(at.inputs[1])
    lengths = dict(zip(AXES[len(other) - 1], range(1, len(other)), strict=True))
    for axis, name in enumerate(own, 1):
        if name == "c" and len(other) - 1 != at.rank:
            continue
        offset = at.integer(keys[name])
        stop = offset + (length(other, lengths[name]) if name in lengths else 1)
        x = _cropped(b, x, axis, offset, stop)
    return x


def _slice(at: Layer, starts: Sequence[Length], ends: Sequence[Length], axes: list[int]) -> Value:
    count = max(len(starts), len(ends))
    axes = axes or list(range(count))
    first = [0 if n == NONE else n for n in starts] or [0] * count
    # An end of 0 is the end of the axis: ends that are not above 0 are counted from there.
    last = [_LAST if n in (NONE, 0) else n for n in ends] or [_LAST] * count
    # An axis beyond the rank is ignored: pnnx counts the batch if sizes are open.
    kept = [index for index, axis in enumerate(axes) if axis < at.rank]
    axis_numbers = [at.axis(axes[index]) for index in kept]
    if not axis_numbers:
        return at.x
    first, last = ([each[index] for index in kept] for each in (first, last))
    return at.b(Slice, at.x, joined(at, first), joined(at, last), axis_numbers)


@layer("Flip")
def flip(at: Layer) -> Value:
    axes = [at.axis(int(axis)) for axis in at.array(0)]
    return flipped(at.b, at.x, axes)


@layer("Embed")
def embed(at: Layer) -> Value:
    """Embed: rows of a table; indices are integers in float storage."""
    is_int8 = at.choice(18, {0: False, 2: True}, "quantization of Embed")
    if not dtype_of(at.x).is_integer:
        message = "the indices are not declared as integers"
        raise UnsupportedError(message)
    rows = at.b(Gather, at.weight(0, [at.integer(1), at.integer(0)]), at.x)
    if is_int8:
        rows = at.b(Div, rows, at.b.constant(at.stored(1 + bool(at.integer(2)))))
    return at.b(Add, rows, at.weight(1, [at.integer(0)])) if at.integer(2) else rows


@layer("Diag")
def diag(at: Layer) -> Value:
    """Diag: a matrix with a vector on diagonal `k` (parameter 0), or that diagonal of a matrix."""
    b, x, place = at.b, at.x, at.integer(0)
    if at.rank == 1:
        size = length(b.dims(x), 1) + abs(place)
        extended = padded(b, x, [(max(place, 0), max(-place, 0))])
        reserve(size, size)
        mask = b.constant(np.eye(size, k=place)[None], dtype_of(x))
        return b(Mul, b(Unsqueeze, extended, [1]), mask)
    rows, columns = (length(b.dims(x), axis) for axis in (1, 2))
    first = np.arange(max(-place, 0), rows)
    chosen = (first * columns + first + place)[first + place < columns]
    if at.rank != 2 or not chosen.size:
        message = f"diagonal {place} does not exist in a {rows} x {columns} matrix"
        raise ShapeError(message)
    return b(Gather, b(Flatten, x), chosen.tolist(), axis=1)


# ── export rules ──────────────────────────────────────────────────────────────────────────────────────────────────────


@SliceView.export_rule("ncnn")
def export_slice(b: Builder, op: SliceView) -> Value | None:
    """Export Slice: crop, then select by stride; reverse an axis before a negative step."""
    blob_dims(b, op.data)
    starts, ends = constant_numbers(op.starts), constant_numbers(op.ends)
    steps = () if op.steps is None else constant_numbers(op.steps)
    if steps is None:
        return None
    has_steps = any(step != 1 for step in steps)
    if starts is None or ends is None:
        return None if has_steps else _computed(b, op)
    if has_steps:
        return _stepped(b, op.data, zip(_axes(b, op), starts, ends, steps, strict=True))
    dims, batch = b.dims(op.data), batch_of(op.data)
    pieces: dict[int, tuple[int, int]] = {}
    for axis, start, end in zip(_axes(b, op), starts, ends, strict=True):
        if axis == batch:
            if slice(start, end).indices(1)[:2] != (0, 1):
                return None
            continue
        found = _crop_bounds(start, end, dims[axis])
        if found is None:
            return _computed(b, op)
        pieces[blob_axis(axis, len(dims), batch)] = found
    if 0 in b.outcome.dims:
        return None
    if not pieces:
        return emitted(b, "Noop", op.data)
    begin, stop = zip(*pieces.values(), strict=True)
    return restore_leading_batch(
        b, emitted(b, "Crop", op.data, fact=b.outcome, p9=begin, p10=stop, p11=tuple(pieces)), batch
    )


def _axes(b: Builder, op: SliceView) -> list[int]:
    axes = range(length(b.dims(op.starts), 0)) if op.axes is None else needed(op.axes, "the sliced axes")
    return [axis % len(b.dims(op.data)) for axis in axes]


def _computed(b: Builder, op: SliceView) -> Value | None:
    """Export Slice with symbolic bounds, which must not be negative; `None` if it is not expressible."""
    first, last = (
        value.fact.elements if isinstance(value.fact, TensorFact) else None for value in (op.starts, op.ends)
    )
    if first is None or last is None or not b.outcome.shape:
        return None
    dims, batch, where = b.dims(op.data), batch_of(op.data), _axes(b, op)
    computed_indices = [place for place in [*first, *last] if not isinstance(place, int)]
    if batch in where or any((-1 if (low := bounds(place)[0]) is None else low) < 0 for place in computed_indices):
        return None
    starts = [_index_within(start, dims[axis]) for start, axis in zip(first, where, strict=True)]
    stops = [_index_within(end, dims[axis]) for end, axis in zip(last, where, strict=True)]
    return restore_leading_batch(b, crop_axes(b, op.data, (where, starts, stops), b.outcome), batch)


def _index_within(index: Dim, extent: Dim) -> Dim:
    """Return an index of a slice, counted from the start and limited to the axis."""
    if not isinstance(index, int):
        return index
    if index >= _LAST:
        return extent
    return minimum(index, extent) if index >= 0 else maximum(extent + index, 0)


def crop_axes(b: Builder, x: Value, pieces: tuple[list[int], list[Dim], list[Dim]], fact: Fact) -> Value:
    """Crop axes from starts to stops, which are expressions over blob sizes; 0 is the end of an axis."""
    where, starts, stops = pieces
    dims, batch = b.dims(x), batch_of(x)
    own = [blob_axis(axis, len(dims), batch) for axis in where]
    begin, blobs = computed(b, starts, x)
    ends = [0 if stop == dims[axis] else stop for axis, stop in zip(where, stops, strict=True)]
    stop, blobs = computed(b, ends, *blobs)
    return placed(emitted(b, "Crop", *blobs, fact=fact, p19=begin, p20=stop, p21=computed(b, own)[0]), batch)


def _crop_bounds(start: int, end: int, extent: Dim) -> tuple[int, int] | None:
    """Return begin and end of a slice as ncnn parameters.

    An end of 0 or below counts from the end of the axis. `None` if the size is open, and bounds may exceed it.
    """
    if isinstance(extent, int):
        return slice(start, end).indices(extent)[:2]
    least = bounds(extent)[0] or 0
    is_open = end >= _LAST
    if start < 0 or start > least or (not is_open and end > least) or (end < 0 and start - end > least) or end == 0:
        return None
    return start, 0 if is_open else end


def _stepped(b: Builder, x: Value, cuts: Iterable[tuple[int, int, int, int]]) -> Value | None:
    """Stride one axis after another: adjacent axes are strided by a pooling layer with window size 1."""
    refuse_constants(x)
    y, batch, rank = x, batch_of(x), len(b.dims(x))
    for axis, start, end, step in cuts:
        extent = b.dims(y)[axis]
        if not isinstance(extent, int) and axis != batch:
            y = _open_steps(b, y, axis, (start, end, step))
            continue
        taken = range(*slice(start, end, step).indices(extent if isinstance(extent, int) else 1))
        if axis == batch:
            if list(taken) != [0]:
                return None
            continue
        if not taken:
            return None
        if step < 0:
            own = blob_axis(axis, rank, batch)
            y = placed(emitted(b, "Flip", y, p0=(own,)), batch)
            (last,) = static_sizes(y, [extent - 1])
            taken = range(last - taken[0], last + 1 - taken[-1], -step)
        y = _select_strided(b, y, axis, taken)
    return restore_leading_batch(b, y, batch)


def _open_steps(b: Builder, x: Value, axis: int, cut: tuple[int, int, int]) -> Value:
    """Slice an axis of open size with a step; for a negative step, flip the axis first."""
    start, end, step = cut
    dims, batch = b.dims(x), batch_of(x)
    if step < 0:
        x = placed(emitted(b, "Flip", x, p0=(blob_axis(axis, len(dims), batch),)), batch)
        start, end = -1 - start, -1 - end
    begin, stop = _index_within(start, dims[axis]), _index_within(end, dims[axis])
    if (begin, stop) != (0, dims[axis]):
        fact = TensorFact(dtype_of(x), (*dims[:axis], stop - begin, *dims[axis + 1 :]))
        x = crop_axes(b, x, ([axis], [begin], [stop]), fact)
    return x if abs(step) == 1 else _strided(b, x, axis, abs(step))


def _strided(b: Builder, x: Value, axis: int, step: int) -> Value:
    """Select each `step`-th element of an axis by a pooling layer with window size 1."""
    dims, batch, lengths = b.dims(x), batch_of(x), blob_dims(b, x)
    own = blob_axis(axis, len(dims), batch)
    outer, inner, count = product(lengths[:own]), product(lengths[own + 1 :]), ceil_div(dims[axis], step)
    wide = reshaped(b, x, [outer, lengths[own], inner])
    few = TensorFact(dtype_of(x), (1, outer, count, inner))
    kept = emitted(b, "Pooling", wide, fact=few, p0=1, p1=1, p11=1, p2=1, p12=step, p5=1)
    return restored(b, kept, TensorFact(dtype_of(x), (*dims[:axis], count, *dims[axis + 1 :])), batch)


def _select_strided(b: Builder, x: Value, axis: int, taken: range) -> Value:
    """Select elements at equidistant indices of an axis."""
    begin, end = taken[0], taken[-1] + 1
    if (begin, end) != (0, b.dims(x)[axis]):
        x = _cut(b, x, axis, begin, end)
    if taken.step == 1:
        return x
    return _strided(b, x, axis, taken.step)


def _cut(b: Builder, x: Value, axis: int, start: int, end: int) -> Value:
    """Crop an axis."""
    dims, batch = b.dims(x), batch_of(x)
    fact = TensorFact(dtype_of(x), (*dims[:axis], end - start, *dims[axis + 1 :]))
    y = emitted(b, "Crop", x, fact=fact, p9=(start,), p10=(end,), p11=(blob_axis(axis, len(dims), batch),))
    return placed(y, batch)


_MOST_PIECES = 64
"""Maximum number of index runs that are cropped separately."""
_TABLE = 2
"""Axes of a table whose rows are looked up."""


@Gather.export_rule("ncnn")
def export_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    """Export Gather: Embed of a constant table; or crops of runs of constant indices, concatenated."""
    dims, found = b.dims(data), constant_numbers(indices)
    place, batch, wanted = axis % len(dims), batch_of(data), b.dims(indices)
    if found is None:
        is_table = folded(data) is not None and len(dims) == _TABLE and place == 0
        if is_table and is_bits(indices) and len(blob_dims(b, indices)) == 1 and batch_of(indices) == 0:
            return _looked_up(b, data, indices)
        return indexing_gather.gathered(b, data, indices, place)
    refuse_constants(data)
    if len(wanted) > 1:
        flat = b(Gather, data, found, axis=axis)
        return b(Reshape, flat, sizes([*dims[:place], *wanted, *dims[place + 1 :]], "the sizes"))
    blob_dims(b, data)
    extent = dims[place]
    if not isinstance(extent, int):
        message = f"{data.name} is {data.fact}: gather requires a constant size of the indexed axis"
        raise UnsupportedError(message)
    rows = [n % extent for n in found]
    runs = _runs(rows)
    if not runs:
        message = "the indices are empty; ncnn has no blobs of size 0"
        raise UnsupportedError(message)
    if len(runs) > _MOST_PIECES and place != batch:
        return indexing_gather.gather_constant_indices(b, data, rows, place)
    is_scalar = not wanted
    if place == batch:
        return _without_batch(b, data, is_scalar=is_scalar, count=len(found))
    y = _concat_crops(b, data, runs, place)
    left = batch if batch is None or not is_scalar else batch - (batch > place)
    if not is_scalar:
        y.fact = b.outcome
        return restore_leading_batch(b, y, batch)
    return restore_leading_batch(b, restored(b, y, b.outcome, left), left)


def _without_batch(b: Builder, x: Value, *, is_scalar: bool, count: int) -> Value:
    """Gather along the batch axis of size 1 once, which leaves the blob unchanged.

    Raises:
        UnsupportedError: `count`, the number of indices, is not 1.
    """
    if count != 1:
        message = f"the batch of size 1 is gathered {count} times"
        raise UnsupportedError(message)
    y = emitted(b, "Noop", x, fact=b.outcome)
    return restore_leading_batch(b, y, None if is_scalar else batch_of(x))


def _runs(indices: list[int]) -> list[tuple[int, int]]:
    """Return runs of consecutive indices as (start, stop)."""
    runs: list[tuple[int, int]] = []
    for place in indices:
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return runs


def _concat_crops(b: Builder, x: Value, runs: list[tuple[int, int]], place: int) -> Value:
    parts = [_cut(b, x, place, start, end) for start, end in runs]
    if len(parts) == 1:
        return parts[0]
    dims, batch = b.dims(x), batch_of(x)
    total = sum(end - start for start, end in runs)
    fact = TensorFact(dtype_of(x), (*dims[:place], total, *dims[place + 1 :]))
    return placed(emitted(b, "Concat", *parts, fact=fact, p0=blob_axis(place, len(dims), batch)), batch)


def _looked_up(b: Builder, table: Value, indices: Value) -> Value:
    """Emit an Embed layer: rows of a constant table by integer index; ncnn clamps negative indices to 0."""
    rows, width = constant_float32(table).shape
    return emitted(b, "Embed", indices, p0=width, p1=rows, p2=0, p3=rows * width, w0=constant_float32(table))

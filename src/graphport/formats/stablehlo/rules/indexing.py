"""Slices at computed offsets, gather and scatter, by index arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.stablehlo.program import dictionary
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.control import counted_loop
from graphport.formats.stablehlo.rules.elementwise import wide_type
from graphport.formats.stablehlo.rules.emitter import Emitter, complex_rule, rule
from graphport.formats.stablehlo.rules.reductions import binary_of
from graphport.formats.stablehlo.rules.shapes import checked_axes, integer_of, ints_of
from graphport.formats.stablehlo.rules.values import Held, Pair
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.formats.stablehlo.program import Block, Operation


def clamped(e: Emitter, start: Value, dim: int | Value, size: int | Value) -> Value:
    """The start, clamped so that `size` entries fit into `dim`: int64, in [0, dim - size]."""
    known = e.constant_elements(start)
    if isinstance(dim, int) and isinstance(size, int):
        if size > dim:
            refuse("SH0007", f"a slice of {size} elements exceeds the axis size {dim}")
        last: int | Value = dim - size
        if known is not None:
            return e.constant(np.clip(known.astype(np.int64), 0, dim - size), DType.INT64)
    else:
        last = e("Sub", *[e.ints(n) if isinstance(n, int) else n for n in (dim, size)])
        last = e("Squeeze", last, e.ints(0))
    if start.dtype is DType.UINT64:
        start = e("Min", start, e.constant(1 << 62, DType.UINT64))
    return e("Min", e("Max", e.index(start), 0), last)


MAX_COUNTED = 1 << 16
"""Indices of a constant; more are computed by an operator."""


def _counting(e: Emitter, size: int | Value) -> Value:
    """0, 1, ... below a size."""
    if isinstance(size, int) and size <= MAX_COUNTED:
        return e.constant(np.arange(size), DType.INT64)
    limit = e.constant(size, DType.INT64) if isinstance(size, int) else e("Squeeze", size, e.ints(0))
    return e("Range", e.constant(0, DType.INT64), limit, e.constant(1, DType.INT64))


@rule("dynamic_slice", moves=True)
def dynamic_slice(e: Emitter, op: Operation, x: Value, *starts: Value) -> Value:
    """Slice from a computed start, clamped so that the slice is inside the operand."""
    sizes = ints_of(op.attribute("slice_sizes"), "slice_sizes")
    if len(sizes) != e.rank(x) or len(starts) != len(sizes) or min(sizes, default=0) < 0:
        refuse("SH0007", f"dynamic_slice: {len(starts)} starts and {len(sizes)} sizes for rank {e.rank(x)}")
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size == e.dims(x)[axis]:
            continue
        place = clamped(e, start, e.dim(x, axis), size)
        known = e.scalar(place)
        if known is not None:
            x = e.slice(x, axis, int(known), int(known) + size)
        else:
            x = e("Gather", x, e("Add", e.reshape(place, [1]), _counting(e, size)), axis=axis)
    return x


@rule("dynamic_update_slice", moves=True)
def dynamic_update_slice(e: Emitter, op: Operation, x: Value, update: Value, *starts: Value) -> Value:
    """Replace a slice at a computed start, clamped so that the update is inside the operand."""
    rank = e.rank(x)
    if e.rank(update) != rank or len(starts) != rank:
        refuse("SH0007", f"{op.shown()}: {len(starts)} starts and an update of rank {e.rank(update)} for rank {rank}")
    sizes = e.sizes(update)
    partial = [axis for axis in range(rank) if e.dims(update)[axis] != e.dims(x)[axis]]
    if not partial:
        return update
    count = partial[-1] + 1
    grids: list[Value] = []
    for axis in range(count):
        place = _counting(e, sizes[axis])
        if axis in partial:
            place = e("Add", clamped(e, starts[axis], e.dim(x, axis), sizes[axis]), place)
        grids.append(e.reshape(place, [-1 if k == axis else 1 for k in range(count)]))
    return e("ScatterND", x, _joined_indices(e, grids, sizes[:count]), update)


def _joined_indices(e: Emitter, parts: Sequence[Value], sizes: Sequence[int | Value]) -> Value:
    """Indices of each axis, broadcast to one shape and joined along a new last axis."""
    rank = len(sizes)
    known = [e.constant_elements(part) for part in parts]
    if all(isinstance(size, int) for size in sizes) and all(part is not None for part in known):
        numbers = [size for size in sizes if isinstance(size, int)]
        if prod(numbers) * len(parts) <= 1 << 16:
            arrays = [np.broadcast_to(part, numbers) for part in known if part is not None]
            return e.constant(np.stack(arrays, -1), DType.INT64)
    columns = [e.unsqueeze(e.expand(part, sizes), rank) for part in parts]
    return columns[0] if len(columns) == 1 else e("Concat", *columns, axis=rank)


@dataclass(frozen=True)
class _DimensionNumbers:
    """The `dimension_numbers` of a gather or a scatter."""

    offset: list[int]
    collapsed: list[int]
    operand_batch: list[int]
    indices_batch: list[int]
    start_map: list[int]
    vector_dim: int


def _dimension_numbers(
    e: Emitter, op: Operation, group: str, names: Sequence[str], indices: Value
) -> _DimensionNumbers:
    """Read the dimension attributes of a gather or a scatter.

    Raises:
        RefusedError: SH0007 a dimension number is no integer, or exceeds the rank of the indices.
    """
    found = dictionary(op.attribute(group))
    offset, collapsed, operand_batch, indices_batch, start_map = (
        ints_of(found.get(name) or [], name) for name in names
    )
    vector_dim = integer_of(found.get("index_vector_dim", 0), "index_vector_dim")
    rank = e.rank(indices)
    if not 0 <= vector_dim <= rank:
        refuse("SH0007", f"{op.shown()}: index_vector_dim is {vector_dim}, but the indices have rank {rank}")
    checked_axes(e, indices_batch, rank, op)
    if len(operand_batch) != len(indices_batch) or vector_dim in indices_batch:
        refuse("SH0007", f"{op.shown()}: the batching dims {operand_batch} and {indices_batch} do not match")
    return _DimensionNumbers(offset, collapsed, operand_batch, indices_batch, start_map, vector_dim)


_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)
_SCATTER = (
    "update_window_dims",
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)


class _WindowIndices:
    """Indices of the windows of a gather or a scatter, in an operand transposed to begin with the indexed axes.

    `axes` are the indexed axes; other axes are complete. `windows` are those indexed axes that windows extend
    along. The indices have the axes of the batch, then the axes `windows`.
    """

    def __init__(
        self,
        e: Emitter,
        op: Operation,
        x: Value,
        indices: Value,
        numbers: _DimensionNumbers,
        sizes: Sequence[int | Value],
    ) -> None:
        rank = e.rank(x)
        self.e = e
        checked_axes(e, [*numbers.collapsed, *numbers.operand_batch], rank, op)
        checked_axes(e, numbers.start_map, rank, op)
        batch_rank = e.rank(indices) - (numbers.vector_dim < e.rank(indices))
        count = 1 if numbers.vector_dim == e.rank(indices) else e.dims(indices)[numbers.vector_dim]
        if count != len(numbers.start_map):
            refuse("SH0007", f"{op.shown()}: index vectors of size {count} for {len(numbers.start_map)} axes")
        self.batch_rank = batch_rank
        self.batch_sizes = [e.dim(indices, k) for k in range(e.rank(indices)) if k != numbers.vector_dim]
        self.sizes = list(sizes)
        self.skipped = [*numbers.collapsed, *numbers.operand_batch]
        self.starts = self._axis_starts(indices, numbers)
        self.axes = [
            axis
            for axis in range(rank)
            if axis in numbers.operand_batch
            or (axis in numbers.start_map and not self._is_full_axis(x, axis))
            or axis in numbers.collapsed
            or not self._is_full_axis(x, axis)
        ]
        self.windows = [axis for axis in self.axes if axis not in self.skipped]
        self.whole = [axis for axis in range(rank) if axis not in self.axes]
        self.numbers = numbers
        self.x = x

    def _is_full_axis(self, x: Value, axis: int) -> bool:
        size = self.sizes[axis]
        return axis not in self.skipped and isinstance(size, int) and size == self.e.dims(x)[axis]

    def _axis_starts(self, indices: Value, numbers: _DimensionNumbers) -> dict[int, Value]:
        """The column of starts for each axis of the operand, in the shape of the batch."""
        e = self.e
        if numbers.vector_dim == e.rank(indices):
            return {numbers.start_map[0]: indices}
        columns: dict[int, Value] = {}
        for place, axis in enumerate(numbers.start_map):
            column = indices if len(numbers.start_map) == 1 else e.slice(indices, numbers.vector_dim, place, place + 1)
            columns[axis] = e("Squeeze", column, e.ints(numbers.vector_dim))
        return columns

    def start_indices(self, axis: int) -> Value:
        """The starts along an indexed axis, as int64 in the shape of the batch."""
        e = self.e
        if axis in self.numbers.operand_batch:
            place = self.numbers.indices_batch[self.numbers.operand_batch.index(axis)]
            place -= place > self.numbers.vector_dim
            counted = _counting(e, self.batch_sizes[place])
            return e.reshape(counted, [-1 if k == place else 1 for k in range(self.batch_rank)])
        if axis in self.starts:
            return self.starts[axis]
        return e.constant(np.zeros([1] * self.batch_rank), DType.INT64)

    def joined(self, starts: dict[int, Value]) -> Value:
        """Indices of all elements of the windows: [batch, windows, axes]."""
        e = self.e
        rank = self.batch_rank + len(self.windows)
        parts: list[Value] = []
        for axis in self.axes:
            part = starts[axis]
            if e.rank(part):
                part = e.unsqueeze(part, *range(self.batch_rank, rank))
            if axis in self.windows and self.sizes[axis] != 1:
                shape = [-1 if k == self.batch_rank + self.windows.index(axis) else 1 for k in range(rank)]
                part = e("Add", part, e.reshape(_counting(e, self.sizes[axis]), shape))
            parts.append(part)
        return _joined_indices(e, parts, [*self.batch_sizes, *(self.sizes[axis] for axis in self.windows)])

    def window_order(self) -> list[int]:
        """Axes of windows in the order of the operand, by their positions in [batch, windows, whole axes]."""
        places = {axis: self.batch_rank + k for k, axis in enumerate([*self.windows, *self.whole])}
        return [places[axis] for axis in sorted(places)]

    def result_order(self, offset: Sequence[int]) -> list[int]:
        """The permutation from [batch, windows, whole axes] to a result whose window axes are at `offset`."""
        rank = self.batch_rank + len(self.windows) + len(self.whole)
        distinct = {axis for axis in offset if 0 <= axis < rank}
        if not len(offset) == len(distinct) == rank - self.batch_rank:
            refuse("SH0007", f"the offset dims {list(offset)} do not match the {rank - self.batch_rank} window dims")
        windows = iter(self.window_order())
        batch = iter(range(self.batch_rank))
        return [next(windows) if axis in offset else next(batch) for axis in range(rank)]


@rule("gather", moves=True)
def gather(e: Emitter, op: Operation, x: Value, indices: Value) -> Value:
    """Gather windows at computed starts, clamped so that the windows are inside the operand."""
    return _gathered(e, op, x, indices, list(ints_of(op.attribute("slice_sizes"), "slice_sizes")))


@rule("dynamic_gather", moves=True)
def dynamic_gather(e: Emitter, op: Operation, x: Value, indices: Value, sizes: Value) -> Value:
    """Take windows of computed sizes at computed offsets."""
    known = e.constant_elements(sizes)
    if known is not None:
        return _gathered(e, op, x, indices, [int(n) for n in known.reshape(-1)])
    wanted = e.index(sizes)
    fact = wanted.fact
    elements: Sequence[Dim | None] = [None] * e.rank(x)
    if isinstance(fact, TensorFact) and fact.elements is not None:
        elements = fact.elements
    parts: list[int | Value] = []
    for axis, element in enumerate(elements):
        if isinstance(element, int):
            parts.append(element)
        elif element is not None and element == e.dims(x)[axis]:
            parts.append(_WHOLE)
        else:
            parts.append(e.slice(wanted, 0, axis, axis + 1))
    return _gathered(e, op, x, indices, parts)


_WHOLE = -1
"""A size that is that of the operand, whatever a run gives it."""


def _gathered(e: Emitter, op: Operation, x: Value, indices: Value, sizes: list[int | Value]) -> Value:
    numbers = _dimension_numbers(e, op, "dimension_numbers", _GATHER, indices)
    if len(sizes) != e.rank(x):
        refuse("SH0007", f"gather: {len(sizes)} sizes for an operand of rank {e.rank(x)}")
    for axis, size in enumerate(sizes):
        dim = e.dims(x)[axis]
        if size == _WHOLE:
            sizes[axis] = dim if isinstance(dim, int) else e.dim(x, axis)
        elif isinstance(size, int) and (size < 0 or (isinstance(dim, int) and size > dim)):
            refuse("SH0007", f"gather: slice size {size} exceeds the axis size {dim}")
        if axis in (*numbers.collapsed, *numbers.operand_batch) and size not in (0, 1):
            refuse("SH0007", f"gather: axis {axis} is collapsed, but its slice size is {size}")
    places = _WindowIndices(e, op, x, indices, numbers, sizes)
    order = places.result_order(numbers.offset)
    if not places.axes:
        found = e.expand(e.unsqueeze(x, *range(places.batch_rank)), [*places.batch_sizes, *e.sizes(x)])
        return e.transpose(found, order)
    starts = {axis: _clamped_start(e, places, x, axis) for axis in places.axes}
    if len(places.axes) == 1 and not places.windows:
        (axis,) = places.axes
        taken = e("Gather", x, starts[axis], axis=axis)
        count = e.rank(x) - 1
        before = [places.batch_rank + k if k >= axis else k for k in range(count)]
        current = [*range(axis, axis + places.batch_rank), *before]
        return e.transpose(taken, [current[k] for k in order])
    moved = e.transpose(x, [*places.axes, *places.whole])
    return e.transpose(e("GatherND", moved, places.joined(starts)), order)


def _clamped_start(e: Emitter, places: _WindowIndices, x: Value, axis: int) -> Value:
    start = places.start_indices(axis)
    if axis in places.numbers.operand_batch:
        return start
    return clamped(e, start, e.dim(x, axis), places.sizes[axis])


@rule("torch_index_select")
def torch_index_select(e: Emitter, op: Operation, x: Value, index: Value) -> Value:
    """Take entries of an axis, for each index of the batch dims."""
    axis, batch = int(op.attribute("dim")), int(op.attribute("batch_dims"))
    if batch:
        refuse("SH0006", "unsupported: torch_index_select with batch dims")
    return e("Gather", x, e.index(index), axis=axis)


# Scatter

_COMBINED = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


def _update_of(block: Block, count: int) -> list[str] | None:
    """How each operand takes updates: `none` to be replaced, or the operation that combines; else `None`."""
    keys = [key for key, _ in block.arguments]
    if len(block.operations) == 1 and len(keys) == 2 * count:
        returned = block.operations[0].operands
        if returned == keys[count:]:
            return ["none"] * count
        if returned == keys[:count]:
            return ["keep"] * count
    return binary_of(block, count)


@rule("scatter")
@complex_rule("scatter")
def scatter(e: Emitter, op: Operation, *operands: Any) -> list[Held]:
    """Combine windows of operands at computed offsets with updates; windows that do not fit are skipped."""
    count = (len(operands) - 1) // 2
    if count < 1 or len(operands) != 2 * count + 1 or not isinstance(operands[count], Value):
        refuse("SH0007", "scatter: expected operands, one indices tensor, and equally many updates")
    xs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    if not all(isinstance(each, (Value, Pair)) for each in operands):
        refuse("SH0007", "scatter: an operand is not a tensor")
    names = _update_of(op.regions[0], count)
    if names is not None and any(_needs_loop(name, x) for name, x in zip(names, xs, strict=True)):
        names = None
    if names is None:
        if not op.attributes.get("unique_indices") and not _is_single(e, indices):
            return _scattered_in_turn(e, op, list(xs), indices, list(updates))
        return _scattered_once(e, op, list(xs), indices, list(updates))
    return [
        _scattered_parts(e, op, x, indices, update, name) for x, update, name in zip(xs, updates, names, strict=True)
    ]


def _needs_loop(name: str, x: Any) -> bool:
    """Whether ScatterND has no reduction for an operation on integers."""
    return name in ("and", "or", "xor") and isinstance(x, Value) and x.dtype is not DType.BOOL


def _scattered_in_turn(e: Emitter, op: Operation, xs: list[Any], indices: Value, updates: list[Any]) -> list[Held]:
    """Scatter with any region to repeated indices: a loop over the updates."""
    numbers = _dimension_numbers(e, op, "scatter_dimension_numbers", _SCATTER, indices)
    if numbers.operand_batch or not all(isinstance(x, Value) for x in [*xs, *updates]):
        refuse("SH0006", "unsupported: scatter with a region of several operations, repeated indices and batching dims")
    for update in updates:
        checked_axes(e, numbers.offset, e.rank(update), op)
    rank = e.rank(indices)
    vector = numbers.vector_dim
    batch = [axis for axis in range(rank) if axis != vector]
    rows = e.transpose(indices, [*batch, vector]) if vector < rank else e.unsqueeze(indices, rank)
    rows = e.reshape(rows, [-1, len(numbers.start_map)])
    windows: list[Value] = []
    for update in updates:
        others = [axis for axis in range(e.rank(update)) if axis not in numbers.offset]
        sizes = [e.static(update, axis) for axis in sorted(numbers.offset)]
        moved = e.transpose(update, [*others, *sorted(numbers.offset)])
        windows.append(e.reshape(moved, [-1, *sizes]))
    given = dictionary(op.attribute("scatter_dimension_numbers"))
    group = given | {"update_window_dims": list(range(1, len(numbers.offset) + 1)), "index_vector_dim": 1}
    one = replace(op, attributes=op.attributes | {"scatter_dimension_numbers": group})

    def step(index: Value, carried: list[Value]) -> list[Held]:
        place = e.reshape(index, [1])
        parts: list[Any] = [e("Gather", window, place, axis=0) for window in windows]
        return _scattered_once(e, one, list(carried), e("Gather", rows, place, axis=0), parts)

    return counted_loop(e, e("Squeeze", e.shape([e.dim(rows, 0)]), e.ints(0)), xs, step)


def _is_single(e: Emitter, indices: Value) -> bool:
    """Whether there is exactly one window."""
    numbers = [dim for dim in e.dims(indices)[:-1] if dim != 1]
    return not numbers


def _scattered_parts(e: Emitter, op: Operation, x: Held, indices: Value, update: Held, name: str) -> Held:
    if isinstance(x, Pair) and isinstance(update, Pair):
        if name not in ("add", "none", "subtract", "keep"):
            refuse("SH0006", f"unsupported: scatter with {name} of complex tensors")
        real = _scattered(e, op, x.real, indices, update.real, name)
        return Pair(real, _scattered(e, op, x.imaginary, indices, update.imaginary, name))
    if isinstance(x, Value) and isinstance(update, Value):
        return _scattered(e, op, x, indices, update, name)
    return refuse("SH0007", "scatter: operands and updates differ in type")


def _scattered(e: Emitter, op: Operation, x: Value, indices: Value, update: Value, name: str) -> Value:
    dtype = e.dtype(x)
    if name == "keep":
        return x
    if name == "subtract":
        update, name = e("Sub", e.constant(0, dtype), update), "add"
    if dtype is DType.BOOL and name != "none":
        name = {"and": "minimum", "or": "maximum", "add": "maximum", "multiply": "minimum"}.get(name, name)
        if name not in ("minimum", "maximum"):
            refuse("SH0006", f"unsupported: scatter with {name} of booleans")
        wide = _scattered(e, op, e.cast(x, DType.INT32), indices, e.cast(update, DType.INT32), name)
        return e.cast(wide, DType.BOOL)
    if name not in (*_COMBINED, "none"):
        refuse("SH0006", f"unsupported: scatter with {name}")
    wide = wide_type(dtype)
    if name != "none" and dtype.kind in "iu":
        wide = DType.INT64 if dtype.bits > 16 and dtype is not DType.INT32 else DType.INT32
        if dtype is DType.UINT64 and name in ("maximum", "minimum"):
            wide = dtype
    found = _scatter_nd(e, op, e.cast(x, wide), indices, e.cast(update, wide), _COMBINED.get(name, "none"))
    return e.cast(found, dtype)


def _scatter_nd(e: Emitter, op: Operation, x: Value, indices: Value, update: Value, reduction: str) -> Value:
    places, windows = _scatter_places(e, op, x, indices, update)
    if not places.axes:
        refuse("SH0006", "unsupported: scatter without scattered dims")
    starts, fits = _scatter_starts(e, places, x)
    moved = e.transpose(x, [*places.axes, *places.whole])
    order = [*places.axes, *places.whole]
    back = [int(n) for n in np.argsort(order)]
    mode = None if reduction == "none" else reduction
    if fits is None:
        return e.transpose(e("ScatterND", moved, places.joined(starts), windows, reduction=mode), back)
    return e.transpose(_skipping(e, places, moved, starts, fits, windows, mode), back)


def _scatter_places(e: Emitter, op: Operation, x: Value, indices: Value, update: Value) -> tuple[_WindowIndices, Value]:
    """The indices of windows, and the updates in the order [batch, windows, whole axes]."""
    numbers = _dimension_numbers(e, op, "scatter_dimension_numbers", _SCATTER, indices)
    rank = e.rank(x)
    skipped = [*numbers.collapsed, *numbers.operand_batch]
    checked_axes(e, numbers.offset, e.rank(update), op)
    window_axes = [axis for axis in range(rank) if axis not in skipped]
    if len(window_axes) != len(numbers.offset):
        refuse("SH0007", f"scatter: {len(numbers.offset)} window dims for {len(window_axes)} axes")
    sizes: list[int | Value] = [1] * rank
    for axis, place in zip(window_axes, sorted(numbers.offset), strict=True):
        size = e.dim(update, place)
        dim = e.dims(x)[axis]
        if isinstance(size, int) and isinstance(dim, int) and size > dim:
            refuse("SH0007", f"scatter: window size {size} exceeds the axis size {dim}")
        sizes[axis] = dim if isinstance(dim, int) and e.dims(update)[place] == dim else size
    places = _WindowIndices(e, op, x, indices, numbers, sizes)
    order = places.result_order(sorted(numbers.offset))
    return places, e.transpose(update, [int(n) for n in np.argsort(order)])


def _scatter_starts(e: Emitter, places: _WindowIndices, x: Value) -> tuple[dict[int, Value], Value | None]:
    """Starts of windows, and whether each window fits; `None` if all do."""
    starts: dict[int, Value] = {}
    fits: Value | None = None
    for axis in places.axes:
        start = places.start_indices(axis)
        starts[axis] = e.index(start)
        if axis not in places.starts:
            continue
        dim, size = e.dim(x, axis), places.sizes[axis]
        known = e.constant_elements(start)
        if known is not None and isinstance(dim, int) and isinstance(size, int) and _all_within(known, dim - size):
            continue
        last = e("Sub", *[e.ints(n) if isinstance(n, int) else n for n in (dim, size)])
        inside = e("LessOrEqual", starts[axis], e("Squeeze", last, e.ints(0)))
        inside = e("And", inside, e("GreaterOrEqual", starts[axis], 0))
        fits = inside if fits is None else e("And", fits, inside)
    return starts, fits


def _all_within(known: np.ndarray[Any, Any], last: int) -> bool:
    """Whether all indices are in [0, last]."""
    return bool(((known >= 0) & (known.astype(np.float64) <= last)).all())


def _skipping(
    e: Emitter,
    places: _WindowIndices,
    moved: Value,
    starts: dict[int, Value],
    fits: Value,
    windows: Value,
    mode: str | None,
) -> Value:
    """Scatter into the flattened indexed axes, extended by one element that receives windows which do not fit."""
    count = len(places.axes)
    sizes = e.sizes(moved)
    indices = places.joined(starts)
    total: int | Value = 1
    strides: list[int | Value] = []
    for size in reversed(sizes[:count]):
        strides.insert(0, total)
        if isinstance(total, int) and isinstance(size, int):
            total = total * size
        else:
            total = e("Mul", *[e.ints(n) if isinstance(n, int) else n for n in (total, size)])
    linear = indices
    if count > 1:
        linear = e("ReduceSum", e("Mul", indices, e.shape(strides)), e.ints(e.rank(indices) - 1), keepdims=1)
    extra = e.rank(indices) - 1 - places.batch_rank
    flags = e.unsqueeze(fits, *range(places.batch_rank, places.batch_rank + extra + 1))
    beyond = e.constant(total, DType.INT64) if isinstance(total, int) else e("Squeeze", total, e.ints(0))
    linear = e("Where", flags, linear, beyond)
    rest = sizes[count:]
    flat = e.reshape(moved, [total, *rest])
    room = e.expand(e.constant(0, moved.dtype), [1, *rest])
    found = e("ScatterND", e("Concat", flat, room, axis=0), linear, windows, reduction=mode)
    stop = e.ints(total) if isinstance(total, int) else total
    return e.reshape(e("Slice", found, e.ints(0), stop, e.ints(0)), sizes)


def _scattered_once(e: Emitter, op: Operation, xs: list[Any], indices: Value, updates: list[Any]) -> list[Held]:
    """Scatter with any region to distinct elements: gather the old ones, combine, and write them back."""
    found: list[Held] = []
    old: list[Held] = []
    windows: list[Held] = []
    for x, update in zip(xs, updates, strict=True):
        if not isinstance(x, Value) or not isinstance(update, Value):
            refuse("SH0006", "unsupported: scatter with a region of several operations on complex tensors")
        places, window = _scatter_places(e, op, x, indices, update)
        moved = e.transpose(x, [*places.axes, *places.whole])
        starts = {axis: _clamped_start(e, places, x, axis) for axis in places.axes}
        old.append(e("GatherND", moved, places.joined(starts)))
        windows.append(window)
    combined = e.vectorized(op.regions[0], [*old, *windows], len(xs))
    offset = _dimension_numbers(e, op, "scatter_dimension_numbers", _SCATTER, indices).offset
    for x, update, value in zip(xs, updates, combined, strict=True):
        places, _ = _scatter_places(e, op, x, indices, update)
        order = places.result_order(sorted(offset))
        if isinstance(value, Value):
            found.append(_scattered(e, op, x, indices, e.transpose(value, order), "none"))
    return found

"""StridedSlice of OpenVINO, with the semantics of Python's slicing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from graphport.ops.declare import ShapeError, lower
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.comparison import Equal, Where
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.reshape import Identity, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import as_int64, check_counts, integers, needed, sizes, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_LAST = int(np.iinfo(np.int64).max)
_FIRST = int(np.iinfo(np.int64).min)


@lower("openvino", "opset1.StridedSlice")
def strided_slice(
    b: Builder,
    data: Value,
    begin: Value,
    end: Value,
    strides: Value | None = None,
    *,
    begin_mask: tuple[int, ...],
    end_mask: tuple[int, ...],
    new_axis_mask: tuple[int, ...] = (),
    shrink_axis_mask: tuple[int, ...] = (),
    ellipsis_mask: tuple[int, ...] = (),
) -> Value:
    """Convert StridedSlice, a slice like NumPy's: open ends, new axes, single indices, and an ellipsis."""
    (count,) = sizes(b.dims(begin, 1), "the number of sliced axes")
    steps = (1,) * count if strides is None else needed(strides, "strides")
    (end_count,) = sizes(b.dims(end, 1), "the number of sliced axes")
    check_counts(count, strides=steps, end=range(end_count))
    marks = [(*mask, *[0] * count)[:count] for mask in (new_axis_mask, shrink_axis_mask, ellipsis_mask)]
    entries = _expand_entries(len(b.dims(data)), count, *marks)
    cut = [entry for entry in entries if entry.kind in ("slice", "shrink")]
    if cut:
        first = [_begin(entry, begin_mask, steps) for entry in cut]
        starts = _ends(b, begin, cut, first)
        stops = _stops(b, starts, end, cut, end_mask, steps)
        strides_of = [1 if entry.kind == "shrink" else steps[entry.place] for entry in cut]
        data = b(Slice, data, starts, stops, [entry.axis for entry in cut], strides_of)
    dropped = [entry.axis for entry in cut if entry.kind == "shrink"]
    if dropped:
        data = b(Squeeze, data, dropped)
    left = [entry.kind for entry in entries if entry.kind != "shrink"]
    added = [axis for axis, kind in enumerate(left) if kind == "new"]
    if added:
        return b(Unsqueeze, data, added)
    return data if cut else b(Identity, data)


@dataclass(frozen=True, slots=True)
class SliceEntry:
    """One element of the subscript: its kind, the `axis` of the data, and its index `place` in masks and operands."""

    kind: Literal["slice", "shrink", "new", "keep"]
    axis: int
    place: int


def _expand_entries(
    rank: int, count: int, adds: Sequence[int], shrinks: Sequence[int], gaps: Sequence[int]
) -> list[SliceEntry]:
    """Return the entries in the order of the result's axes; an ellipsis, or the end, covers unnamed axes.

    Raises:
        ShapeError: there are more entries than axes.
    """
    named = sum(1 for place in range(count) if not gaps[place] and not adds[place])
    if named > rank:
        message = f"{named} axes are sliced of {rank}"
        raise ShapeError(message)
    found: list[SliceEntry] = []
    axis = 0
    for place in range(count):
        if gaps[place]:
            found += [SliceEntry("keep", axis + i, place) for i in range(rank - named)]
            axis += rank - named
        elif adds[place]:
            found.append(SliceEntry("new", axis, place))
        else:
            found.append(SliceEntry("shrink" if shrinks[place] else "slice", axis, place))
            axis += 1
    return [*found, *(SliceEntry("keep", i, count) for i in range(axis, rank))]


def _begin(entry: SliceEntry, mask: Sequence[int], steps: Sequence[int]) -> int | None:
    """Return the begin of an entry whose mask bit is set; `None` if the operand gives it."""
    if entry.place >= len(mask) or not mask[entry.place]:
        return None
    return _LAST if entry.kind == "slice" and steps[entry.place] < 0 else 0


def _ends(b: Builder, operand: Value, cut: Sequence[SliceEntry], fixed: Sequence[int | None]) -> Value:
    """Return the begin or end of each entry: its value in `fixed`, or the element of `operand` where that is `None`."""
    known = integers(operand)
    if known is not None:
        return vector(b, [known[entry.place] if own is None else own for entry, own in zip(cut, fixed, strict=True)])
    stated = b(Gather, as_int64(b, operand), [entry.place for entry in cut])
    if all(own is None for own in fixed):
        return stated
    mask = b.constant(np.array([own is not None for own in fixed]))
    return b(Where, mask, [own or 0 for own in fixed], stated)


def _stops(
    b: Builder, starts: Value, end: Value, cut: Sequence[SliceEntry], mask: Sequence[int], steps: Sequence[int]
) -> Value:
    """Return the end of each entry; an index ends after one element."""
    fixed = [
        None if entry.place >= len(mask) or not mask[entry.place] else (_FIRST if steps[entry.place] < 0 else _LAST)
        for entry in cut
    ]
    if not any(entry.kind == "shrink" for entry in cut):
        return _ends(b, end, cut, fixed)
    known, begins = integers(end), integers(starts)
    if known is None or begins is None:
        stops = _ends(b, end, cut, fixed)
        is_last = b(Equal, starts, [-1])
        behind = b(Where, is_last, vector(b, [_LAST]), b(Add, starts, [1]))
        return b(Where, b.constant(np.array([entry.kind == "shrink" for entry in cut])), behind, stops)
    found: list[int] = []
    for entry, begin, own in zip(cut, begins, fixed, strict=True):
        if entry.kind == "shrink":
            found.append(_LAST if begin == -1 else begin + 1)
        else:
            found.append(known[entry.place] if own is None else own)
    return vector(b, found)

"""Tolerance per slice: a small part of an output is compared relative to its own magnitude, not to the largest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphport.comparison.metrics import ABSOLUTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.ir.graph import Graph, Value

RELATIVE = 1e-3
"""Tolerance as a part of the largest magnitude of a slice. Slices have fewer elements than the tensor, and sums that
cancel: ten times the tolerance of a whole tensor."""
_ULPS = 64.0
"""Ulps of the largest magnitude of the tensor that a channel may differ by: it may be a difference of large values."""
_MAX_SLICES = 4096
_MIN_RANK = 2


class Slice(NamedTuple):
    """A differing slice: a phrase for reports, its largest absolute difference, and its largest magnitude."""

    phrase: str
    max_abs: float
    magnitude: float


def worst_slice(a: Any, b: Any, parts: tuple[int, list[int]] | None, least_snr: float | None) -> Slice | None:
    """Return the slice with the largest difference relative to its magnitude beyond tolerance; `None` without one.

    Args:
        a: an output of floats.
        b: the corresponding output; the whole tensors agree.
        parts: axis and sizes of the operands of the Concat that computes the output, if one does.
        least_snr: minimum SNR in dB of outputs of lower precision, if known.
    """
    if a.shape != b.shape or a.dtype.kind != "f" or a.ndim < _MIN_RANK or not a.size:
        return None
    relative = RELATIVE if least_snr is None else max(RELATIVE, 4 * 10 ** (-least_snr / 20))
    gap, size = _magnitudes(a, b)
    found = list(_concat_operands(gap, size, parts, relative))
    if least_snr is None:
        floor = _ULPS * float(np.finfo(a.dtype).eps) * float(size.max(initial=0.0))
        found += _channels(gap, size, relative, floor)
    return max(found, key=lambda each: each.max_abs / max(each.magnitude, ABSOLUTE), default=None)


def _magnitudes(a: Any, b: Any) -> tuple[Any, Any]:
    """Return |a - b| and |a|, 0 at elements that are not finite (already compared)."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap, size = np.abs(a - b), np.abs(a)
    finite = np.isfinite(gap) & np.isfinite(size)
    return (gap, size) if finite.all() else (np.where(finite, gap, 0), np.where(finite, size, 0))


def _concat_operands(gap: Any, size: Any, parts: tuple[int, list[int]] | None, relative: float) -> Iterator[Slice]:
    """Yield the slices of a Concat's operands whose difference is large relative to the operand's magnitude."""
    if parts is None:
        return
    axis, sizes = parts
    start = 0
    for index, length in enumerate(sizes):
        where = (slice(None),) * axis + (slice(start, start + length),)
        start += length
        wrong, largest = float(gap[where].max(initial=0.0)), float(size[where].max(initial=0.0))
        if wrong > relative * largest + ABSOLUTE:
            yield Slice(f"part {index} of the Concat (axis {axis})", wrong, largest)


def _channels(gap: Any, size: Any, relative: float, floor: float) -> Iterator[Slice]:
    """Yield the index of the second and of the last axis with the largest excess over the slice's tolerance."""
    for axis in dict.fromkeys((1, gap.ndim - 1)):
        if gap.shape[axis] > _MAX_SLICES:
            continue
        others = tuple(each for each in range(gap.ndim) if each != axis)
        wrong, largest = gap.max(axis=others), size.max(axis=others)
        beyond = wrong - (relative * largest + floor + ABSOLUTE)
        index = int(np.argmax(beyond))
        if beyond[index] > 0:
            yield Slice(f"index {index} of axis {axis}", float(wrong[index]), float(largest[index]))


def concat_parts(graph: Graph, position: int, shape: tuple[int, ...]) -> tuple[int, list[int]] | None:
    """Axis and sizes of the operands of the Concat that computes an output of `shape`, if one does."""
    value = graph.outputs[position] if position < len(graph.outputs) else None
    node = None if value is None else value.producer
    while node is not None and node.op in {"Identity", "Cast"} and node.operands[0].producer is not None:
        node = node.operands[0].producer
    stated = None if node is None or node.op != "Concat" else node.attributes.get("axis")
    if node is None or not isinstance(stated, int) or not shape:
        return None
    axis = stated % len(shape)
    sizes = [_size(each, axis) for each in node.operands]
    open_ones = [index for index, size in enumerate(sizes) if size is None]
    known = sum(size for size in sizes if size is not None)
    if len(open_ones) == 1:
        sizes[open_ones[0]] = shape[axis] - known
    found = [size for size in sizes if size is not None]
    return (axis, found) if len(found) == len(sizes) and sum(found) == shape[axis] and min(found) >= 0 else None


def _size(value: Value, axis: int) -> int | None:
    shape = value.shape
    size = None if shape is None or axis >= len(shape) else shape[axis]
    return size if isinstance(size, int) else None

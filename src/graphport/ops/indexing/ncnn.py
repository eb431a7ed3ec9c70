"""Pieces of ncnn's blobs."""

from __future__ import annotations

from graphport.ir.graph import Value
from graphport.ops.blobs import NONE, Layer, blob_axis, layer, lengths_of, said
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.indexing import Gather, Slice
from graphport.ops.indexing.pnnx import flip as flipped
from graphport.ops.pattern import constant_numbers
from graphport.ops.pytorch import dtype_of, length, vector

_LAST = 2147483647


@layer("Crop")
def crop(at: Layer) -> Value:
    """From place to place along given axes; or from an offset on, with a length or up to a distance from the end."""
    if len(at.inputs) != 1 or any(isinstance(at.parameters.get(str(key)), str) for key in (19, 20, 21)):
        message = "the piece depends on another blob"
        raise UnsupportedError(message)
    starts, ends = at.array(9), at.array(10)
    if starts or ends:
        return _between(at, [int(n) for n in starts], [int(n) for n in ends])
    x, b = at.x, at.b
    names = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}[at.rank]
    keys = {"w": (0, 3, 6), "h": (1, 4, 7), "d": (13, 14, 15), "c": (2, 5, 8)}
    for axis, name in enumerate(names, 1):
        offset, size, rest = (at.integer(key) for key in keys[name])
        extent = length(b.dims(x), axis)
        stop = offset + size if size not in (0, NONE) else extent - rest
        if offset or stop != extent:
            x = b(Slice, x, vector(b, [offset]), vector(b, [stop]), vector(b, [axis]))
    return x


def _between(at: Layer, starts: list[int], ends: list[int]) -> Value:
    count = max(len(starts), len(ends))
    axes = [int(axis) for axis in at.array(11)] or list(range(count))
    first = [0 if n == NONE else n for n in starts] or [0] * count
    last = [_LAST if n == NONE else n for n in ends] or [_LAST] * count
    places = [at.axis(axis) for axis in axes]
    return at.b(Slice, at.x, vector(at.b, first), vector(at.b, last), vector(at.b, places))


@layer("Flip")
def flip(at: Layer) -> Value:
    axes = [at.axis(int(axis)) for axis in at.array(0)]
    return flipped(at.b, at.x, axes)


@layer("Embed")
def embed(at: Layer) -> Value:
    """Rows of a table; the places are integers, though ncnn keeps them as it keeps floats."""
    at.refuse(2, 18)
    if not dtype_of(at.x).is_integer:
        message = "places that are not declared as integers"
        raise UnsupportedError(message)
    return at.b(Gather, at.weight(0, [at.integer(1), at.integer(0)]), at.x)


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Slice.lift("ncnn")
def lift_slice(
    b: Builder, data: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value | None:
    """Every entry from place to place."""
    lengths = lengths_of(b, data)
    found = [constant_numbers(each) for each in (starts, ends)]
    by = None if steps is None else constant_numbers(steps)
    if None in found or (steps is not None and (by is None or any(step != 1 for step in by))):
        return None
    first, last = ([int(n) for n in each or ()] for each in found)
    places = list(range(len(first))) if axes is None else [int(n) for n in constant_numbers(axes) or ()]
    if len(places) != len(first):
        return None
    begin: list[int] = []
    stop: list[int] = []
    for place, p, q in zip(places, first, last, strict=True):
        start, end, _ = slice(p, q).indices(lengths[blob_axis(place, len(lengths) + 1)])
        begin.append(start)
        stop.append(end)
    where = tuple(blob_axis(place, len(lengths) + 1) for place in places)
    return said(b, "Crop", data, p9=tuple(begin), p10=tuple(stop), p11=where)

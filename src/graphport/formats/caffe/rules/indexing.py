"""Indexing layers of Caffe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import decide_less
from graphport.core.dtypes import DType
from graphport.formats.caffe.rules.binding import Layer, in_caffe, layer
from graphport.formats.caffe.rules.reshape import sliced
from graphport.formats.caffe.rules.rule_table import RULES
from graphport.ops import pattern
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.indexing.gathering import Compress, Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reshape import Reshape, Shape
from graphport.ops.views.indexing import SliceView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@layer("Crop", "crop_param", bottoms=2)
def crop(at: Layer, *, axis: int = 2, offset: tuple[int, ...] = ()) -> Value:
    """Crop the axes of the first bottom from `axis` on to the sizes of the second bottom."""
    dims, wanted = at.dims(0), at.dims(1)
    start = at.axis(axis)
    axes = range(start, len(dims))
    if len(wanted) != len(dims):
        message = f"the first bottom has rank {len(dims)}, the second has rank {len(wanted)}"
        raise ShapeError(message, "use bottoms of equal rank")
    if len(offset) not in (0, 1, len(axes)):
        message = f"{len(offset)} offsets for {len(axes)} axes"
        raise ShapeError(message, f"1 or {len(axes)}")
    begins = offset * len(axes) if len(offset) == 1 else offset or (0,) * len(axes)
    for place, begin in zip(axes, begins, strict=True):
        if decide_less(dims[place], wanted[place] + begin) is True:
            message = f"axis {place} has size {dims[place]}, too small for a crop of {wanted[place]} at offset {begin}"
            raise ShapeError(message)
    whole = [n for n in wanted[start:] if isinstance(n, int)]
    if len(whole) == len(axes):
        ends = at.integers(*(begin + n for begin, n in zip(begins, whole, strict=True)))
    else:
        ends = at.b(Add, at.b(Shape, at.bottoms[1], start=start), at.integers(*begins))
    return at.b(Slice, at.x, at.integers(*begins), ends, at.integers(*axes))


@layer("Embed", "embed_param")
def embed(at: Layer, *, num_output: int, input_dim: int, bias_term: bool = True) -> Value:
    """Gather rows of the weights by index; optionally add a bias."""
    table = at.blob(0, (input_dim, num_output))
    y = at.b(Gather, table, at.b(Cast, at.x, to=DType.INT64))
    return at.b(Add, y, at.blob(1, (num_output,), "bias")) if bias_term else y


RULES.lower("BatchReindex(x, places) -> Gather(x, Cast(places, to=int64))")


@layer("Filter", bottoms=None)
def filtered(at: Layer) -> tuple[Value, ...]:
    """Select the batch entries for which the last bottom is not 0, in each other bottom."""
    *data, selector = at.bottoms
    chosen = at.b(Cast, at.b(Reshape, selector, [-1]), to=DType.BOOL)
    return tuple(at.b(Compress, x, chosen, axis=0) for x in data)


@SliceView.export_rule("caffe")
def export_slice(b: Builder, op: SliceView) -> tuple[Value, ...] | None:
    """Export Slice with static bounds as Slice layers; other parts are unused."""
    dims = b.dims(op.data)
    begins, stops = pattern.constant_numbers(op.starts), pattern.constant_numbers(op.ends)
    if begins is None or stops is None:
        return None
    indices = tuple(range(len(begins))) if op.axes is None else pattern.constant_numbers(op.axes)
    gaps = (1,) * len(begins) if op.steps is None else pattern.constant_numbers(op.steps)
    if indices is None or gaps is None or any(gap != 1 for gap in gaps):
        return None
    y = (op.data,)
    for place, begin, stop in zip(indices, begins, stops, strict=True):
        axis = place % len(dims)
        extent = dims[axis]
        if not isinstance(extent, int):
            return None
        first, last, _ = slice(begin, stop).indices(extent)
        lengths = (first, last - first, extent - last)
        if last <= first:
            return None
        if lengths[1] == extent:
            continue
        pieces = sliced(b, y[0], axis, tuple(n for n in lengths if n))
        y = (pieces[1 if first else 0],)
    return y if y[0] is not op.data else in_caffe(b, "Split", op.data)

"""The last layer of YOLO in OpenVINO."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.ops.declare import lower
from graphport.ops.dialects.extents import cut
from graphport.ops.dialects.operands import reshaped, sizes
from graphport.ops.pages.activation import Sigmoid, Softmax
from graphport.ops.pages.reshape import Concat
from graphport.ops.shapes import axis_index

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@lower("openvino", "opset1.RegionYolo")
def region_yolo(
    b: Builder,
    x: Value,
    *,
    anchors: tuple[float, ...] = (),
    axis: int,
    coords: int,
    classes: int,
    end_axis: int,
    num: int,
    do_softmax: bool = True,
    mask: tuple[int, ...] = (),
) -> Value:
    """Places, confidence and classes of each box: all but the sizes through a sigmoid, or the classes as shares."""
    del anchors
    n, channels, *places = sizes(b.dims(x), "the shape of a region layer")
    boxes = num if do_softmax else len(mask)
    parts = coords + 1 + classes
    apart = reshaped(b, x, [n, boxes, parts, prod(places)])
    pieces = [
        b(Sigmoid, cut(b, apart, 0, 2, 2)),
        cut(b, apart, 2, coords, 2),
        b(Sigmoid, cut(b, apart, coords, coords + 1, 2)),
    ]
    kinds = cut(b, apart, coords + 1, parts, 2)
    pieces.append(b(Softmax, kinds, axis=2) if do_softmax else b(Sigmoid, kinds))
    whole = b(Concat, *pieces, axis=2)
    dims = [n, channels, *places]
    if not do_softmax:
        return reshaped(b, whole, dims)
    first, last = axis_index(axis, len(dims)), axis_index(end_axis, len(dims))
    return reshaped(b, whole, [*dims[:first], prod(dims[first : last + 1]), *dims[last + 1 :]])

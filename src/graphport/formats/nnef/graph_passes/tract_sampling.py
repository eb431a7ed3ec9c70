"""Resizing and reversing axes of open sizes by computed indices, which tract computes from symbols."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.ir import rewrite
from graphport.ops.builder import Builder
from graphport.ops.definitions.activation import Clip
from graphport.ops.definitions.arithmetic import Add, Cast, Ceil, Div, Floor, Min, Mul, Sub
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.reshape import Unsqueeze
from graphport.ops.infer import Inference
from graphport.ops.lowering.extents import counted, extent
from graphport.ops.lowering.operands import cast, vector
from graphport.ops.pattern import constant_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Graph, Node, Value

_COORDINATES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
_PLAIN = {"mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "extrapolation_value"}
_MAX_DENOMINATOR = 64


def sample_by_indices(graph: Graph, node: Node) -> None:
    """Replace a Resize that tract has no operator for, and a reversed axis.

    Before  Resize(x, sizes=[1, 4, H, W], mode="nearest", "asymmetric", "floor")
    After   Gather(Gather(x, floor(range(H) / (H / h)), axis=2), floor(range(W) / (W / w)), axis=3)

    Linear interpolation is a weighted sum of two Gathers. Does not apply to static sizes, nor to integer factors.
    """
    b = Builder(Inference(), graph, node, origin=node.unasked_origin, stem=node.output.name)
    x = node.operands[0]
    found = _reversed(b, node, x) if node.op == "Slice" else _resized(b, node, x)
    if found is not None:
        rewrite.replace(node.output, found)
        graph.remove(node)


def _reversed(b: Builder, node: Node, x: Value) -> Value | None:
    numbers = [number for value in node.operands[1:] for number in constant_numbers(value) or ()]
    if len(node.operands) != 5 or len(numbers) != 4:
        return None
    start, end, axis, step = numbers
    shape = x.shape or ()
    if not shape or not (start == step == -1 and end < -(2**31)):
        return None
    place = int(axis) % len(shape)
    if not isinstance(shape[place], Symbolic):
        return None
    last = b(Sub, extent(b, x, place), [1])
    return b(Gather, x, b(Sub, last, counted(b, extent(b, x, place))), axis=place)


def _resized(b: Builder, node: Node, x: Value) -> Value | None:
    shape, result = x.shape or (), node.output.shape or ()
    is_open = any(isinstance(dim, Symbolic) for dim in (*shape, *result))
    coordinates = node.attributes.get("coordinate_transformation_mode", "half_pixel")
    mode = node.attributes.get("mode", "nearest")
    changed = {name for name, value in node.attributes.items() if value not in (0, "stretch", None)} - _PLAIN
    given = node.operand(2)
    scales = None if given is None else constant_numbers(given)
    sizes = node.operand(3)
    is_known = mode in ("nearest", "linear") and coordinates in _COORDINATES and not changed
    if not is_open or not is_known or len(shape) != len(result):
        return None
    if scales and (len(scales) != len(shape) or all(scale == int(scale) for scale in scales)):
        return None
    if not scales and (sizes is None or sizes.shape != (len(shape),)):
        return None
    y = x
    for axis, (n, out) in enumerate(zip(shape, result, strict=True)):
        if n == out and not (scales and scales[axis] != 1):
            continue
        length = _length(b, x, axis)
        if scales:
            factor = Fraction(scales[axis])
            if factor.denominator > _MAX_DENOMINATOR:
                return None
            wanted = b(Div, b(Mul, length, [factor.numerator]), [factor.denominator])
            scale = b.constant(scales[axis], DType.FLOAT32)
        else:
            wanted = b(Gather, sizes, [axis]) if isinstance(out, Symbolic) else vector(b, [out])
            scale = b(Div, cast(b, wanted, DType.FLOAT32), cast(b, length, DType.FLOAT32))
        last = cast(b, b(Sub, length, [1]), DType.FLOAT32)
        position = _positions(b, str(coordinates), wanted, scale, last)
        if mode == "nearest":
            nearest = _rounded(b, position, str(node.attributes.get("nearest_mode", "round_prefer_floor")))
            y = b(Gather, y, _index(b, nearest, last), axis=axis)
        else:
            y = _mixed(b, y, axis, position, last)
    return y


def _length(b: Builder, x: Value, axis: int) -> Value:
    n = b.dims(x)[axis]
    return vector(b, [n]) if isinstance(n, int) else extent(b, x, axis)


def _positions(b: Builder, coordinates: str, wanted: Value, scale: Value, last: Value) -> Value:
    """Return the position in the input of each element of the output, as floats."""
    i = cast(b, counted(b, wanted), DType.FLOAT32)
    one, half = b.like(i, 1.0), b.like(i, 0.5)
    if coordinates == "asymmetric":
        return b(Div, i, scale)
    others = b(Sub, cast(b, wanted, DType.FLOAT32), one)
    if coordinates == "align_corners":
        # A single element is at position 0, which is 0 times anything.
        return b(Div, b(Mul, i, last), b(Clip, others, one))
    found = b(Sub, b(Div, b(Add, i, half), scale), half)
    return b(Mul, found, b(Min, others, one)) if coordinates == "pytorch_half_pixel" else found


def _rounded(b: Builder, position: Value, nearest_mode: str) -> Value:
    half = b.like(position, 0.5)
    match nearest_mode:
        case "floor":
            return b(Floor, position)
        case "ceil":
            return b(Ceil, position)
        case "round_prefer_ceil":
            return b(Floor, b(Add, position, half))
        case _:
            return b(Ceil, b(Sub, position, half))


def _index(b: Builder, position: Value, last: Value) -> Value:
    held = b(Min, b(Clip, position, 0.0), last)
    return b(Cast, held, to=DType.INT64)


def _mixed(b: Builder, y: Value, axis: int, position: Value, last: Value) -> Value:
    """Weighted sum of the two nearest elements along an axis."""
    held = b(Min, b(Clip, position, 0.0), last)
    low = b(Floor, held)
    axes: Sequence[int] = range(1, len(b.dims(y)) - axis)
    weight = b(Sub, held, low)
    weight = b(Unsqueeze, weight, list(axes)) if axes else weight
    high = b(Min, b(Add, low, 1.0), last)
    first, second = (b(Gather, y, b(Cast, place, to=DType.INT64), axis=axis) for place in (low, high))
    return b(Add, first, b(Mul, b(Sub, second, first), weight))

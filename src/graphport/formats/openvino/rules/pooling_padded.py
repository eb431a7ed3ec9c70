"""Pooling windows that ONNX cannot place: the data is padded explicitly first."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.convolution_extents import Extents, Vectors, same_padding, spatial
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mod, Mul, Sub
from graphport.ops.definitions.comparison import And, Greater, GreaterOrEqual, Less, Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.padding import Pad
from graphport.ops.definitions.pooling import AveragePool, MaxPool
from graphport.ops.definitions.reduction import ReduceMax, ReduceProd
from graphport.ops.definitions.reshape import Concat, Expand, Shape
from graphport.ops.lowering.operands import as_scalar, cast, dtype_of, ends_of, index, scalar, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Spatial sizes of the data, and its padding at begin and end; `has_pads` is whether padding is specified."""

    extents: Extents
    begins: Extents
    ends: Extents
    has_pads: bool | Value


def surroundings(b: Builder, x: Value, kernel: Sequence[int], stated: dict[str, Any], rounding: str) -> Surroundings:
    """Return the padding that the windows cover, with OpenVINO's rounding of their number."""
    v, rank = Vectors(b), len(kernel)
    strides = np.array(stated["strides"] or (1,) * rank)
    reach = np.array([(k - 1) * d + 1 for k, d in zip(kernel, stated["dilations"] or (1,) * rank, strict=True)])
    extents = spatial(b, x, rank)
    auto_pad = stated.get("auto_pad")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        begins, ends = same_padding(b, extents, reach.tolist(), strides.tolist(), is_upper=auto_pad == "SAME_UPPER")
    else:
        pads = np.array(stated.get("pads") or (0,) * 2 * rank)
        begins, ends = pads[:rank], pads[rank:]
    before = v(Add, extents, begins)
    room = v(Sub, v(Add, before, ends), reach)
    steps = v(Div, room if rounding == "floor" else v(Add, room, strides - 1), strides)
    if rounding == "ceil_torch":
        steps = v(Max, v(Min, steps, v(Div, v(Sub, before, 1), strides)), v(Sub, steps, 1))
    over = v(Sub, v(Add, v(Mul, steps, strides), reach), v(Add, before, ends))
    return Surroundings(extents, begins, v(Add, ends, v(Max, over, 0)), _any(b, v(Add, begins, ends)))


def _any(b: Builder, pads: Extents) -> bool | Value:
    if isinstance(pads, np.ndarray):
        return bool(pads.any())
    return b(Greater, b(ReduceMax, pads, keepdims=0), index(b, 0))


def _padded(b: Builder, x: Value, around: Surroundings, kernel: Sequence[int], filling: Value) -> Value:
    """Pad the spatial axes of the data with a number."""
    none = np.zeros(2, np.int64)
    known = [side for side in (around.begins, around.ends) if isinstance(side, np.ndarray)]
    if len(known) < 2:
        parts = [part for side in (around.begins, around.ends) for part in (none, side)]
        return b(Pad, x, b(Concat, *(Vectors(b).value(part) for part in parts), axis=0), filling)
    pads = np.concatenate([part for side in known for part in (none, side)])
    padded = b(Pad, x, b.constant(pads), filling)
    # ONNX Runtime would join the padding and the pool, and then refuse padding that is as wide as a window.
    is_wide = any((side >= np.array(kernel)).any() for side in known)
    return b(Max, padded, b.like(x, ends_of(dtype_of(x))[0])) if is_wide else padded


def padded_max_pool(
    b: Builder, x: Value, around: Surroundings, kernel: tuple[int, ...], stated: dict[str, Any], *, first: int | None
) -> tuple[Value, ...]:
    """Max pooling after explicit padding; a window that covers only padding gives the lowest number of the dtype.

    With `first` also its place, counted from that axis on, which is the first of the map where there is nothing.
    """
    dtype = dtype_of(x)
    # The lowest finite float32 would be infinite after rounding to a narrower float.
    least = float(np.finfo(np.float32).min) if dtype.is_floating else ends_of(dtype)[0]
    padded = _padded(b, x, around, kernel, scalar(b, least, dtype))
    plain = {"kernel_shape": kernel, "strides": stated["strides"], "dilations": stated["dilations"]}
    if first is None:
        return (b(MaxPool, padded, **plain),)
    y, indices = b.results(MaxPool, 2, padded, **plain)
    return y, _unpadded(b, x, indices, around, first)


def _unpadded(b: Builder, x: Value, indices: Value, around: Surroundings, first: int) -> Value:
    """Convert indices of padded data to indices of the data."""
    v, rank = Vectors(b), len(b.dims(x)) - 2
    lengths = v(Add, v(Add, around.extents, around.begins), around.ends)
    zero, total, step = index(b, 0), None, index(b, 1)
    is_inside: Value | None = None
    for axis in reversed(range(rank)):
        length, begin, n = (_element_at(b, side, axis) for side in (lengths, around.begins, around.extents))
        at = b(Sub, b(Mod, indices, length), begin)
        indices = b(Div, indices, length)
        is_here = b(And, b(GreaterOrEqual, at, zero), b(Less, at, n))
        is_inside = is_here if is_inside is None else b(And, is_inside, is_here)
        if first <= axis + 2:
            total = b(Mul, at, step) if total is None else b(Add, total, b(Mul, at, step))
        step = b(Mul, step, n)
    found = zero if total is None or is_inside is None else b(Where, is_inside, total, zero)
    if first >= 2:
        return found
    lead = indices if first == 0 else b(Mod, indices, as_scalar(b, b(Shape, x, start=1, end=2)))
    return b(Add, b(Mul, lead, step), found)


def _element_at(b: Builder, numbers: Extents, place: int) -> Value:
    if isinstance(numbers, np.ndarray):
        return index(b, int(numbers[place]))
    return b(Gather, numbers, place, axis=0)


def padded_average_pool(
    b: Builder,
    x: Value,
    around: Surroundings,
    kernel: tuple[int, ...],
    stated: dict[str, Any],
    *,
    exclude_pad: bool,
) -> Value:
    """Average pooling after explicit padding; a window that covers only padding gives 0."""
    dtype = dtype_of(x)
    plain = {"kernel_shape": kernel, "strides": stated["strides"], "dilations": stated["dilations"]}
    total = b(AveragePool, _padded(b, x, around, kernel, b.like(x, 0)), **plain)
    counted = False if exclude_pad else around.has_pads
    if counted is True:
        return total
    edge = b.like(x, 0) if isinstance(counted, bool) else cast(b, counted, dtype)
    data = b(Expand, b.like(x, 1), _map(b, around.extents))
    shares = b(AveragePool, _padded(b, data, around, kernel, edge), **plain)
    none = b.like(x, 0)
    return b(Where, b(Greater, shares, none), b(Div, total, shares), none)


def _map(b: Builder, extents: Extents) -> Value:
    """Return the shape [1, 1, *extents]."""
    if isinstance(extents, np.ndarray):
        return vector(b, [1, 1, *extents.tolist()])
    return b(Concat, [1, 1], extents, axis=0)


def entries_from(b: Builder, x: Value, first: int) -> Value:
    """Return the number of elements of the axes from `first` on."""
    dims = b.dims(x)[first:]
    known = [n for n in dims if isinstance(n, int)]
    if len(known) == len(dims):
        return index(b, prod(known))
    return b(ReduceProd, cast(b, b(Shape, x, start=first), DType.INT64), keepdims=0)

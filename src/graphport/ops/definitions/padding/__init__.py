"""Entries added around a tensor, or cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from graphport.core.dims import Dim, decide_less
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.padding.center import CenterCropPad
from graphport.ops.shapes import axis_indices, pairs
from graphport.ops.types import ALL_13, INDICES, INT64, SCALAR, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.padding import PadView

__all__ = ["CenterCropPad", "Pad"]

T = Annotated[Tensor, Types("T", ALL_13)]
Int64 = Annotated[Tensor, Types("tensor(int64)", INT64)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]

_MODES = ("constant", "reflect", "edge", "wrap")


@viewed
def _pad_shape(op: PadView[TensorFact]) -> TensorFact:
    if op.mode not in _MODES:
        message = f"unknown mode {op.mode!r}"
        raise ShapeError(message, ", ".join(_MODES))
    rank = op.data.rank
    _check_count(op.pads, rank if op.axes is None else op.axes)
    if op.axes is not None and op.axes.elements is None:
        return op.data.with_shape([OPEN] * rank)
    chosen = tuple(range(rank)) if op.axes is None else axis_indices(op.axes.integer_elements, rank)
    if op.pads.elements is None:
        return op.data.with_shape([OPEN if axis in chosen else dim for axis, dim in enumerate(op.data.dims)])
    _check_count(op.pads.with_shape((len(op.pads.elements),)), len(chosen))
    dims = list(op.data.dims)
    for axis, (begin, end) in zip(chosen, pairs(op.pads.elements), strict=True):
        dims[axis] = _padded_length(axis, op.data.dims[axis], begin, end, op.mode)
        if op.mode == "reflect":
            _check_mirrored(axis, op.data.dims[axis], begin, end)
    return op.data.with_shape(dims)


def _check_count(pads: TensorFact, axes: TensorFact | int) -> None:
    """Check the number of pads if it and the rank are static.

    Raises:
        ShapeError: the number of pads is not twice the number of axes.
    """
    count = axes if isinstance(axes, int) else (axes.dims[0] if axes.shape else None)
    pad_count = pads.dims[0] if pads.shape is not None and pads.rank == 1 else None
    if isinstance(count, int) and isinstance(pad_count, int) and pad_count != 2 * count:
        message = f"pads has {pad_count} entries for {count} axes"
        raise ShapeError(message, f"{2 * count} are needed: all begins, then all ends")


def _padded_length(axis: int, n: Dim, begin: Dim, end: Dim, mode: str) -> Dim:
    """The length of an axis after padding.

    Raises:
        ShapeError: more elements are cropped than there are, or none is left to repeat.
    """
    kept = n + sum(pad for pad in (begin, end) if isinstance(pad, int) and pad < 0)
    if decide_less(kept, 0) is True:
        message = f"padding ({begin}, {end}) cuts more than the {n} entries of axis {axis}"
        raise ShapeError(message)
    if mode != "constant" and decide_less(kept, 1) is True and any(decide_less(0, pad) is True for pad in (begin, end)):
        message = f"padding ({begin}, {end}) leaves none of the {n} elements of axis {axis} to repeat"
        raise ShapeError(message, 'mode "constant" adds a constant')
    return n + begin + end


def _check_mirrored(axis: int, n: Dim, begin: Dim, end: Dim) -> None:
    """Check that `reflect` padding does not exceed the available elements; no runtime supports more.

    Raises:
        ShapeError: the axis is too short.
    """
    cut = sum(pad for pad in (begin, end) if isinstance(pad, int) and pad < 0)
    if any(decide_less(n + cut - 1, pad) is True and decide_less(0, pad) is True for pad in (begin, end)):
        message = f"the {n} entries of axis {axis} have no mirror images for padding ({begin}, {end})"
        raise ShapeError(message, "pad fewer elements on each side than the axis has")


@op(
    turns="axes",
    shape=_pad_shape,
    since=11,
    outputs=("output",),
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("pads", "axes"),
    ranks={"pads": 1, "constant_value": SCALAR, "axes": 1},
)
def Pad(
    data: T,
    pads: Int64,
    constant_value: T | None = None,
    axes: Tind | None = None,
    *,
    mode: str = "constant",
) -> T:
    """Add elements at the begin and end of `axes`, or crop where `pads` is negative.

    New elements are `constant_value` (0, false, or empty string), mirrored elements without the edge (`reflect`), the
    edge element (`edge`), or elements of the opposite end (`wrap`).

    Shapes: data [*s], pads [2k], constant_value [], axes [k], default all → s + begins + ends.

    Raises:
        ShapeError: `pads` has the wrong number of elements, crops or mirrors more elements than there are, or an axis
        is
            invalid.

    Source: ONNX Pad-25.
    """
    chosen = range(data.ndim) if axes is None else axis_indices([int(axis) for axis in axes.reshape(-1)], data.ndim)
    padding = [(0, 0)] * data.ndim
    for axis, (begin, end) in zip(chosen, pairs([int(pad) for pad in pads.reshape(-1)]), strict=True):
        padding[axis] = (begin, end)
    kept = [slice(max(-p, 0), max(n - max(-q, 0), 0)) for n, (p, q) in zip(data.shape, padding, strict=True)]
    inner = data[tuple(kept)]
    added = [(max(p, 0), max(q, 0)) for p, q in padding]
    if mode == "constant":
        return _surrounded(inner, added, _fill(data, constant_value))
    for axis, pad in enumerate(added):
        if mode == "reflect":
            _check_mirrored(axis, data.shape[axis], *padding[axis])
        if any(pad):
            inner = np.take(inner, source_indices(inner.shape[axis], pad, mode), axis)
    return inner


def source_indices(n: int, pad: tuple[int, int], mode: str) -> Tensor:
    """Return the source index of each position of a padded axis of length `n`."""
    every = np.arange(n)
    match mode:
        case "reflect":
            return np.pad(every, pad, "reflect")
        case "edge":
            return np.pad(every, pad, "edge")
        case _:
            return np.pad(every, pad, "wrap")


def _fill(data: Tensor, constant_value: Tensor | None) -> Any:
    if constant_value is not None:
        return constant_value.reshape(-1)[0]
    if data.dtype == object:
        return "" if all(isinstance(x, str) for x in data.reshape(-1)) and data.size else 0
    return data.dtype.type(0)


def _surrounded(inner: Tensor, added: list[tuple[int, int]], fill: Any) -> Tensor:
    shape = [n + p + q for n, (p, q) in zip(inner.shape, added, strict=True)]
    result = np.full(shape, fill, inner.dtype)
    result[tuple(slice(p, p + n) for n, (p, _) in zip(inner.shape, added, strict=True))] = inner
    return result

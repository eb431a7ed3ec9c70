"""Export of gather and scatter to ncnn, which has no such layers: crops and concatenations, or sampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.emitting import refuse_constants
from graphport.formats.ncnn.rules.indices import (
    MOST_ENTRIES,
    accumulated,
    affordable,
    along,
    elements_of,
    gathered_columns,
    rows_of,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.constant_folding import folded
from graphport.ops.declare import OpDef, UnsupportedError
from graphport.ops.definitions.arithmetic import Add, Cast, Max, Mul, Sub
from graphport.ops.definitions.comparison import Greater, Where
from graphport.ops.definitions.indexing import (
    Gather,
    GatherElements,
    GatherND,
    OneHot,
    ScatterElements,
    ScatterND,
    Slice,
    Trilu,
)
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Concat, Reshape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import integers, needed, sizes, transposed


def gathered(b: Builder, data: Value, indices: Value, axis: int) -> Value:
    """Gather slices of `data` at computed indices: sample an image of one row."""
    wanted = sizes(b.dims(indices), "the indices")
    _real_table(data)
    float_indices = b(Cast, indices, to=DType.FLOAT32)
    return _sliced(b, data, float_indices, wanted, axis)


def gather_constant_indices(b: Builder, data: Value, indices: Sequence[int], axis: int) -> Value:
    """Gather slices at many constant indices."""
    _real_table(data)
    return _sliced(b, data, b.constant(np.array(indices, np.float32)), (len(indices),), axis)


def _sliced(b: Builder, data: Value, indices: Value, wanted: Sequence[int], axis: int) -> Value:
    dims = sizes(b.dims(data), "the gathered tensor")
    rest = [n for each, n in enumerate(dims) if each != axis]
    moved = transposed(b, data, [*(each for each in range(len(dims)) if each != axis), axis])
    table = b(Reshape, moved, [1, prod(rest), 1, dims[axis]])
    found = gathered_columns(b, table, b(Reshape, indices, [1, 1, prod(wanted)]))
    found = b(Reshape, found, [*rest, *wanted])
    many = len(rest)
    return transposed(b, found, [*range(axis), *range(many, many + len(wanted)), *range(axis, many)])


def _real_table(data: Value) -> None:
    dtype = data.dtype
    if dtype is not None and not dtype.is_floating:
        message = f"{data.name} is {data.fact}: gather with computed indices requires float data"
        raise UnsupportedError(message)


@GatherElements.export_rule("ncnn")
def export_gather_elements(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    if folded(indices) is not None:
        return _moved(b, GatherElements, data, indices, axis=axis)
    dims, wanted = sizes(b.dims(data), "the gathered tensor"), sizes(b.dims(indices), "the indices")
    rank, at = len(dims), axis % len(dims)
    if any(n != m for each, (n, m) in enumerate(zip(dims, wanted, strict=True)) if each != at):
        starts = [0] * rank
        stops = [n if each == at else m for each, (n, m) in enumerate(zip(dims, wanted, strict=True))]
        data = b(Slice, data, starts, stops, list(range(rank)))
    _real_table(data)
    return elements_of(b, data, b(Cast, indices, to=DType.FLOAT32), at)


@GatherND.export_rule("ncnn")
def export_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    if folded(indices) is not None:
        return _moved(b, GatherND, data, indices, batch_dims=batch_dims)
    if batch_dims:
        message = f"batch_dims requires constant indices; {indices.name} is computed"
        raise UnsupportedError(message)
    _real_table(data)
    dims, wanted = sizes(b.dims(data), "the gathered tensor"), sizes(b.dims(indices), "the indices")
    flat_indices = _counted(b, indices, dims)
    rest = _window(dims, wanted[-1])
    table = b(Reshape, data, [1, prod(dims) // prod(rest), prod(rest)])
    found = _sliced(b, table, flat_indices, (prod(wanted[:-1]),), 1)
    return b(Reshape, found, [*wanted[:-1], *rest])


def _window(dims: Sequence[int], depth: int) -> Sequence[int]:
    """Return dims[depth:], the shape of the slice that an index vector of `depth` entries selects.

    Raises:
        UnsupportedError: the slice has no elements.
    """
    window = dims[depth:]
    if not prod(window):
        message = "ncnn has no blobs of 0 elements"
        raise UnsupportedError(message)
    return window


def _counted(b: Builder, indices: Value, dims: Sequence[int]) -> Value:
    """Convert index vectors [*i, depth] into `dims` to flat indices [1, prod(i)], as floats."""
    *many, depth = sizes(b.dims(indices), "the indices")
    given = b(Reshape, b(Cast, indices, to=DType.FLOAT32), [1, prod(many), depth])
    lengths = np.array(dims[:depth], np.float32)
    below = b(Cast, b(Greater, 0.0, given), to=DType.FLOAT32)
    whole = b(Add, given, b(Mul, below, b.constant(lengths)))
    steps = np.array([prod(dims[axis + 1 : depth]) for axis in range(depth)], np.float32)
    return b(ReduceSum, b(Mul, whole, b.constant(steps)), [2], keepdims=0)


@ScatterND.export_rule("ncnn")
def export_scatter_nd(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    if folded(indices) is not None or reduction not in ("none", "add"):
        return _emit_scatter(b, ScatterND, data, indices, updates, reduction)
    _real_table(data)
    dims, wanted = sizes(b.dims(data), "the scatter target"), sizes(b.dims(indices), "the indices")
    count, rest = prod(wanted[:-1]), prod(_window(dims, wanted[-1]))
    n = prod(dims) // rest
    affordable(count * n)
    # [1, j, i]: whether update j is written to i.
    rows = rows_of(b, _counted(b, indices, dims), n)
    table, new = b(Reshape, data, [1, n, rest]), b(Reshape, updates, [1, count, rest])
    if reduction == "add":
        sums = accumulated(b, rows, transposed(b, new, [0, 2, 1]))
        return b(Reshape, b(Add, table, transposed(b, sums, [0, 2, 1])), dims)
    # Of duplicate indices the last one wins.
    numbers = b(Mul, rows, along(b, np.arange(1, count + 1), 1, 3, DType.FLOAT32))
    last = b(ReduceMax, numbers, [1], keepdims=0)
    is_new = b(Greater, last, 0)
    source = b(Max, b(Sub, last, 1), 0)
    found = b(Where, b(Unsqueeze, is_new, [2]), _sliced(b, new, source, (n,), 1), table)
    return b(Reshape, found, dims)


@ScatterElements.export_rule("ncnn")
def export_scatter_elements(
    b: Builder, data: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    if folded(indices) is not None or reduction not in ("none", "add"):
        return _emit_scatter(b, ScatterElements, data, indices, updates, reduction, axis=axis)
    # Indices within a row are distinct, as ONNX requires.
    dims, wanted = sizes(b.dims(data), "the scatter target"), sizes(b.dims(indices), "the indices")
    rank, at = len(dims), axis % len(dims)
    if any(n != m for each, (n, m) in enumerate(zip(dims, wanted, strict=True)) if each != at):
        message = (
            f"{indices.name} is computed; with computed indices its shape must equal the data shape except on the "
            "scatter axis"
        )
        raise UnsupportedError(message)
    affordable(prod(dims) * wanted[at])
    order = [*(each for each in range(rank) if each != at), at]
    back = [order.index(each) for each in range(rank)]
    # [.., j, i]: whether update j is written to i.
    rows = rows_of(b, transposed(b, indices, order), dims[at])
    if reduction == "add":
        new = accumulated(b, rows, b(Unsqueeze, transposed(b, updates, order), [rank - 1]))
        return b(Add, data, transposed(b, b(Squeeze, new, [rank - 1]), back))
    sources = b(Mul, rows, along(b, np.arange(wanted[at]), rank - 1, rank + 1, DType.FLOAT32))
    source = transposed(b, b(ReduceSum, sources, [rank - 1], keepdims=0), back)
    here = transposed(b, b(ReduceMax, rows, [rank - 1], keepdims=0), back)
    return b(Where, b(Greater, here, 0), elements_of(b, updates, source, at), data)


def _numbered(*values: Value, b: Builder) -> list[np.ndarray[Any, Any]]:
    """Return arrays in the shapes of `values` with consecutive numbers, one for each element of all values.

    Raises:
        UnsupportedError: there are too many elements.
    """
    shapes = [sizes(b.dims(x), "the rearranged tensor") for x in values]
    starts = np.cumsum([0, *(prod(shape) for shape in shapes)])
    if starts[-1] >= MOST_ENTRIES:
        message = f"{starts[-1]} elements to rearrange one by one, at most {MOST_ENTRIES - 1} are supported"
        raise UnsupportedError(message)
    return [np.arange(start, start + prod(shape)).reshape(shape) for start, shape in zip(starts, shapes, strict=False)]


def _moved(b: Builder, op_def: OpDef, data: Value, indices: Value, **stated: Any) -> Value:
    """Evaluate a data movement on the flat indices of `data`, and select the elements at the resulting indices."""
    refuse_constants(data)
    (numbers,) = _numbered(data, b=b)
    return _select_elements(b, [data], _evaluate_operator(op_def, numbers, _array(indices), **stated))


def _evaluate_operator(op_def: OpDef, *arrays: np.ndarray[Any, Any], **stated: Any) -> np.ndarray[Any, Any]:
    """Evaluate an operator with one result on arrays.

    Raises:
        UnsupportedError: an index is out of range.
    """
    try:
        return op_def.function(*arrays, **stated)
    except IndexError as error:
        message = f"an index is out of range: {error}"
        raise UnsupportedError(message) from error


def _array(value: Value) -> np.ndarray[Any, Any]:
    storage = folded(value)
    if storage is None:
        message = f"the indices {value.name} are not constant"
        raise UnsupportedError(message)
    return storage.numpy()


def _emit_scatter(
    b: Builder, op_def: OpDef, data: Value, indices: Value, updates: Value, reduction: str, **stated: Any
) -> Value:
    if reduction not in ("none", "add"):
        message = f"unsupported reduction {reduction!r}"
        raise UnsupportedError(message)
    known_indices = _array(indices)
    refuse_constants(data, updates)
    if reduction == "add":
        shape = sizes(b.dims(data), "the scatter target")
        count = prod(sizes(b.dims(updates), "the updates"))
        affordable(prod(shape) * count)
        units = np.eye(count, dtype=np.float32).reshape(*sizes(b.dims(updates)), count)
        rows = [
            _evaluate_operator(
                op_def, np.zeros(shape, np.float32), known_indices, units[..., each], reduction="add", **stated
            ).reshape(-1)
            for each in range(count)
        ]
        flat = b(Reshape, updates, [1, count])
        return b(Add, data, b(Reshape, accumulated(b, b.constant(np.array(rows)), flat), shape))
    old, new = _numbered(data, updates, b=b)
    return _select_elements(b, [data, updates], _evaluate_operator(op_def, old, known_indices, new, **stated))


def _select_elements(b: Builder, sources: Sequence[Value], wanted: np.ndarray[Any, Any]) -> Value:
    """Select the elements of `sources`, concatenated flat, at the flat indices `wanted`.

    A rectangular update of the first source is written as concatenations, other indices as a Gather.
    """
    if not wanted.size:
        message = "the result is empty; ncnn has no blobs of size 0"
        raise UnsupportedError(message)
    whole = _boxed(b, sources, wanted)
    if whole is not None:
        return whole
    flat = [b(Reshape, x, [1, prod(sizes(b.dims(x)))]) for x in sources]
    joined = flat[0] if len(flat) == 1 else b(Concat, *flat, axis=1)
    return b(Reshape, b(Gather, joined, wanted.reshape(-1).tolist(), axis=1), wanted.shape)


def _boxed(b: Builder, sources: Sequence[Value], wanted: np.ndarray[Any, Any]) -> Value | None:
    """Replace a rectangular region of the first source by the second; `None` if `wanted` selects other elements."""
    if len(sources) != 2:
        return None
    old, new = sources
    dims = sizes(b.dims(old))
    count = prod(dims)
    if wanted.shape != dims:
        return None
    is_new = wanted >= count
    if not is_new.any():
        return None
    box = [(int(where.min()), int(where.max()) + 1) for where in np.nonzero(is_new)]
    inside = wanted[tuple(slice(p, q) for p, q in box)]
    expected = np.arange(count, count + inside.size).reshape(inside.shape)
    kept = np.where(is_new, np.arange(count).reshape(dims), wanted)
    if not np.array_equal(inside, expected) or not np.array_equal(kept, np.arange(count).reshape(dims)):
        return None
    if inside.size != prod(sizes(b.dims(new))):
        return None
    y = b(Reshape, new, list(inside.shape))
    for axis, (start, stop) in reversed(list(enumerate(box))):
        if (start, stop) == (0, dims[axis]):
            continue
        # The outer axes are cropped already, the inner ones are complete.
        near = dict(enumerate(box[:axis]))
        parts = [
            y if (p, q) == (start, stop) else _cut(b, old, {**near, axis: (p, q)})
            for p, q in ((0, start), (start, stop), (stop, dims[axis]))
            if q > p
        ]
        y = b(Concat, *parts, axis=axis)
    return y


def _cut(b: Builder, x: Value, bounds: dict[int, tuple[int, int]]) -> Value:
    starts, stops = ([pair[place] for pair in bounds.values()] for place in (0, 1))
    return b(Slice, x, starts, stops, list(bounds))


@OneHot.export_rule("ncnn")
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    (n,), ends = needed(depth, "the axis size"), _array(values)
    rank = len(b.dims(indices)) + 1
    rows = rows_of(b, indices, n)
    off, on = (np.float32(end) for end in ends)
    y = b(Add, b(Mul, rows, b.constant(on - off)), b.constant(off))
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    permuted = transposed(b, y, order)
    dtype = values.dtype
    return permuted if dtype is None or dtype is DType.FLOAT32 else b(Cast, permuted, to=dtype)


@Trilu.export_rule("ncnn")
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    refuse_constants(input)
    rows, columns = sizes(b.dims(input)[-2:], "the matrices")
    offset = (0,) if k is None else integers(k)
    if not offset:
        message = "k, the index of the diagonal, is not constant"
        raise UnsupportedError(message)
    affordable(rows * columns)
    ahead = np.arange(columns) - np.arange(rows)[:, None]
    mask = ahead >= offset[0] if upper else ahead <= offset[0]
    return b(Where, b.constant(mask), input, 0.0)

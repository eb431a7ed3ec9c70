"""Pieces and places of PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import List, Literal, Reference, postorder
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.indexing import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    NonZero,
    OneHot,
    ScatterElements,
    ScatterND,
    Slice,
    Trilu,
    Unique,
)
from graphport.ops.pytorch import DIALECT, axis_of, called, dtype_of, integers, length, number, says, static, vector
from graphport.ops.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.reshape.pnnx import lengths, moved
from graphport.ops.shapes import broadcast

Answer = Value | tuple[Value, ...]
_END = 2**31 - 1
"""What stands where a slice has no end, and among selections where there is none."""

# ── slices ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def sliced(b: Builder, x: Value, axis: int, start: Any, end: Any, step: Any = 1) -> Value:
    """Entries along one axis; `None` is an open end."""
    bounds = [lengths(b, 0 if start is None else start), lengths(b, 2**63 - 1 if _is_open(end) else end)]
    if start in (None, 0) and _is_open(end) and step in (None, 1):
        return x
    return b(Slice, x, *bounds, vector(b, [axis]), lengths(b, 1 if step is None else step))


def _is_open(end: Any) -> bool:
    return end is None or (isinstance(end, int) and end >= _END)


@says("Tensor.slice", "aten::slice", "torch.slice")
def slice_(
    b: Builder,
    input: Value,
    dim: Any = None,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dims: Any = None,
    starts: Any = None,
    ends: Any = None,
    steps: Any = None,
    selects: Any = None,
    select: Any = None,
) -> Value:
    """Of one axis, or of several at once; a selected place takes its axis away."""
    rank = len(b.dims(input))
    if dims is None:
        return sliced(b, input, axis_of(number(dim) or 0, rank), _bound(start), _bound(end), _bound(step))
    axes = [axis_of(axis, rank) for axis in integers(dims)]
    columns: list[list[Any] | None] = [
        _column(b, each, len(axes)) for each in (starts, start, ends, end, steps, step, selects, select)
    ]
    open_: list[Any] = [None] * len(axes)
    first, last, by, chosen = (columns[i] or columns[i + 1] or open_ for i in (0, 2, 4, 6))
    x = input
    for axis, p, q, s, place in zip(axes, first, last, by, chosen, strict=True):
        if _is_none(place):
            x = sliced(b, x, axis, p, q, s)
    selected = [(axis, place) for axis, place in zip(axes, chosen, strict=True) if not _is_none(place)]
    for axis, place in sorted(selected, key=lambda item: item[0], reverse=True):
        x = _selected(b, x, axis, place)
    return x


def _is_none(place: Any) -> bool:
    return place is None or (isinstance(place, int) and place == _END)


def _bound(value: Any) -> Any:
    return number(value) if isinstance(value, Value) and value.storage is not None else value


def _column(b: Builder, given: Any, count: int) -> list[Any] | None:
    """One entry for each axis; a tensor is taken apart."""
    if given is None:
        return None
    if isinstance(given, Value):
        known = given.fact.elements if isinstance(given.fact, TensorFact) else None
        numbers = [item for item in known or () if isinstance(item, int)]
        if known is not None and len(numbers) == len(known):
            return numbers
        return [b(Slice, given, vector(b, [i]), vector(b, [i + 1])) for i in range(count)]
    return list(given) if is_sequence(given) else [given]


@says("Tensor.select", "torch.select", "aten::select")
def select(b: Builder, input: Value, dim: Any, index: Any) -> Value:
    return _selected(b, input, axis_of(number(dim), len(b.dims(input))), index)


def _selected(b: Builder, x: Value, axis: int, place: Any) -> Value:
    found = _bound(place)
    index = found if isinstance(found, Value) else b.constant(np.array(found, np.int64))
    if isinstance(found, Value) and b.dims(found):
        index = b(Reshape, found, vector(b, []))
    return b(Gather, x, index, axis=axis)


@says("torch.narrow", "aten::narrow")
def narrow(b: Builder, input: Value, dim: Any, start: Any, length: Any) -> Value:
    axis = axis_of(number(dim), len(b.dims(input)))
    begin = int(number(start))
    return sliced(b, input, axis, begin, begin + int(number(length)))


@says("torch.flip", "aten::flip")
def flip(b: Builder, input: Value, dims: Any) -> Value:
    axes = [axis_of(axis, len(b.dims(input))) for axis in integers(dims)]
    count = len(axes)
    if not count:
        return input
    least = np.iinfo(np.int64).min + 1
    return b(
        Slice, input, vector(b, [-1] * count), vector(b, [least] * count), vector(b, axes), vector(b, [-1] * count)
    )


@says("torch.fliplr", "aten::fliplr")
def fliplr(b: Builder, input: Value) -> Value:
    return flip(b, input, (1,))


@says("torch.flipud", "aten::flipud")
def flipud(b: Builder, input: Value) -> Value:
    return flip(b, input, (0,))


@says("torch.roll", "aten::roll")
def roll(b: Builder, input: Value, shifts: Any, dims: Any = None) -> Value:
    if dims is None or (is_sequence(dims) and not dims):
        flat = roll(b, b(Reshape, input, vector(b, [-1])), shifts, (0,))
        return b(Reshape, flat, b(Shape, input))
    x = input
    for shift, dim in zip(integers(shifts), integers(dims), strict=True):
        axis = axis_of(dim, len(b.dims(x)))
        extent = b.dims(x)[axis]
        by = shift % extent if isinstance(extent, int) and extent else shift
        if by:
            x = b(Concat, sliced(b, x, axis, -by, None), sliced(b, x, axis, 0, -by), axis=axis)
    return x


@says("torch.rot90", "aten::rot90")
def rot90(b: Builder, input: Value, k: Any = 1, dims: Any = (0, 1)) -> Value:
    rank = len(b.dims(input))
    i, j = (axis_of(axis, rank) for axis in integers(dims))
    order = list(range(rank))
    order[i], order[j] = order[j], order[i]
    match int(number(k)) % 4:
        case 0:
            return input
        case 1:
            return moved(b, flip(b, input, (j,)), order)
        case 2:
            return flip(b, input, (i, j))
        case _:
            return flip(b, moved(b, input, order), (j,))


@says("aten::unfold", "Tensor.unfold")
def unfold(b: Builder, input: Value, dimension: Any, size: Any, step: Any) -> Value:
    """Windows along an axis, in a new last axis."""
    dims = b.dims(input)
    axis = axis_of(number(dimension), len(dims))
    width, by = int(number(size)), int(number(step))
    starts = np.arange(0, length(dims, axis) - width + 1, by, dtype=np.int64)
    places = starts[:, None] + np.arange(width, dtype=np.int64)
    y = b(Gather, input, b.constant(places), axis=axis)
    rank = len(dims) + 1
    return moved(b, y, [*(a for a in range(rank) if a != axis + 1), axis + 1])


# ── advanced indexing ─────────────────────────────────────────────────────────────────────────────────────────────────


def _indices(b: Builder, expr: Any, operands: Sequence[Value]) -> list[Value | None]:
    """One tensor of places for each axis; `None` takes the whole axis."""
    if is_sequence(expr):
        items = list(expr)
    elif isinstance(expr, str):
        items = _parsed(expr, operands)
    else:
        items = [expr]
    found: list[Value | None] = []
    for item in items:
        if item is None or isinstance(item, Value):
            found.append(item)
        else:
            found.append(b.constant(np.array(item, np.int64)))
    return found


def _parsed(expr: str, operands: Sequence[Value]) -> list[Any]:
    try:
        tree = parse(expr, ARITIES, lenient=True).tree
    except DiagnosticError as error:
        raise UnsupportedError(error.diagnostics[0].message) from error
    done: list[Any] = []
    for node in postorder(tree):
        taken = done[len(done) - len(node.arguments) :] if node.arguments else []
        del done[len(done) - len(taken) :]
        match node:
            case Reference() if node.index < len(operands):
                done.append(operands[node.index])
            case Literal():
                done.append(node.value)
            case List():
                done.append(list(taken))
            case _:
                message = f"the index {expr}"
                raise UnsupportedError(message)
    return done[0] if isinstance(done[0], list) else [done[0]]


@says("Tensor.index", "aten::index")
def index(b: Builder, input: Value, indices: Any = None, expr: Any = None) -> Value:
    found = _indices(b, indices if indices is not None else expr, ())
    axes = [axis for axis, item in enumerate(found) if item is not None]
    chosen = [item for item in found if item is not None]
    if not chosen:
        return input
    if len(chosen) == 1 and dtype_of(chosen[0]) in (DType.BOOL, DType.UINT8):
        return _masked(b, input, axes[0], chosen[0])
    if any(dtype_of(item) is DType.BOOL for item in chosen):
        message = "a mask beside other indices"
        raise UnsupportedError(message)
    if len(chosen) == 1:
        return b(Gather, input, chosen[0], axis=axes[0])
    return _gathered(b, input, axes, chosen)


def _masked(b: Builder, x: Value, axis: int, mask: Value) -> Value:
    if axis:
        if len(b.dims(mask)) == 1:
            return b(Compress, x, mask, axis=axis)
        message = "a mask of several axes behind the first"
        raise UnsupportedError(message)
    return b(GatherND, x, b(Transpose, b(NonZero, mask), perm=(1, 0)))


def _joined(b: Builder, chosen: Sequence[Value]) -> Value:
    """Places of several axes as one tensor of tuples, after broadcasting them."""
    dims = broadcast(*(b.dims(item) for item in chosen))
    shape = vector(b, [length(dims, axis) for axis in range(len(dims))])
    wide = [item if b.dims(item) == dims else b(Expand, item, shape) for item in chosen]
    last = vector(b, [-1])
    return b(Concat, *(b(Unsqueeze, item, last) for item in wide), axis=-1)


def _gathered(b: Builder, x: Value, axes: Sequence[int], chosen: Sequence[Value]) -> Value:
    rank = len(b.dims(x))
    rest = [axis for axis in range(rank) if axis not in axes]
    places = _joined(b, chosen)
    y = b(GatherND, moved(b, x, [*axes, *rest]), places)
    count = len(b.dims(places)) - 1
    if list(axes) != list(range(axes[0], axes[0] + len(axes))) or not axes[0]:
        return y
    # Indices that stand together leave their axes where they stood.
    front = axes[0]
    order = [*range(count, count + front), *range(count), *range(count + front, len(b.dims(y)))]
    return moved(b, y, order)


@says("Tensor.index_put", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", ignores=("unsafe",))
def index_put(
    b: Builder, input: Value, indices: Any, values: Value, accumulate: Any = False, unsafe: Any = False
) -> Value:
    del unsafe
    found = _indices(b, indices, ())
    chosen = [item for item in found if item is not None]
    if len(chosen) < len(found):
        message = "indices behind a whole axis"
        raise UnsupportedError(message)
    reduction = "add" if number(accumulate) else None
    if len(chosen) == 1 and dtype_of(chosen[0]) is DType.BOOL:
        places = b(Transpose, b(NonZero, chosen[0]), perm=(1, 0))
        count = len(b.dims(chosen[0]))
        if b.dims(values):
            return b(ScatterND, input, places, values, reduction=reduction)
        shape = b(Concat, b(Shape, places, start=0, end=1), b(Shape, input, start=count), axis=0)
        return b(ScatterND, input, places, b(Expand, values, shape), reduction=reduction)
    places = _joined(b, chosen)
    shape = b(Concat, b(Shape, places, start=0, end=-1), b(Shape, input, start=len(chosen)), axis=0)
    return b(ScatterND, input, places, b(Expand, values, shape), reduction=reduction)


@says("torch.index_select", "aten::index_select")
def index_select(b: Builder, input: Value, dim: Any, index: Value) -> Value:
    return b(Gather, input, index, axis=axis_of(number(dim), len(b.dims(input))))


@says("torch.gather", "aten::gather", ignores=("sparse_grad",))
def gather(b: Builder, input: Value, dim: Any, index: Value, sparse_grad: Any = False) -> Value:
    """Only the part of the operand that the places reach along the other axes counts."""
    del sparse_grad
    axis = axis_of(number(dim), len(b.dims(input)))
    return b(GatherElements, _cut(b, input, index, axis), index, axis=axis)


def _cut(b: Builder, x: Value, index: Value, axis: int) -> Value:
    for place, (n, m) in enumerate(zip(b.dims(x), b.dims(index), strict=True)):
        if place != axis and n != m:
            x = b(Slice, x, vector(b, [0]), b(Shape, index, start=place, end=place + 1), vector(b, [place]))
    return x


@says("torch.take", "aten::take")
def take(b: Builder, input: Value, index: Value) -> Value:
    return b(Gather, b(Reshape, input, vector(b, [-1])), index)


@says("torch.take_along_dim", "aten::take_along_dim")
def take_along_dim(b: Builder, input: Value, indices: Value, dim: Any = None) -> Value:
    if dim is None:
        return take(b, input, b(Reshape, indices, vector(b, [-1])))
    return gather(b, input, dim, indices)


def _updates(b: Builder, x: Value, index: Value, src: Any) -> Value:
    if not isinstance(src, Value):
        return b(Expand, b.like(x, src), b(Shape, index))
    if not b.dims(src):
        return b(Expand, src, b(Shape, index))
    if b.dims(src) == b.dims(index):
        return src
    rank = len(b.dims(src))
    return b(Slice, src, vector(b, [0] * rank), b(Shape, index), vector(b, range(rank)))


@says("torch.scatter", "aten::scatter", "aten::scatter_")
def scatter(
    b: Builder, input: Value, dim: Any, index: Value, src: Any = None, reduce: Any = None, value: Any = None
) -> Value:
    axis = axis_of(number(dim), len(b.dims(input)))
    modes = {None: None, "add": "add", "multiply": "mul"}
    if reduce not in modes:
        message = f"reduce is {reduce}"
        raise UnsupportedError(message)
    updates = _updates(b, input, index, src if src is not None else value)
    return b(ScatterElements, input, index, updates, axis=axis, reduction=modes[reduce])


@says("torch.scatter_add", "aten::scatter_add", "aten::scatter_add_")
def scatter_add(b: Builder, input: Value, dim: Any, index: Value, src: Value) -> Value:
    return scatter(b, input, dim, index, src, "add")


@says("torch.scatter_reduce", "aten::scatter_reduce")
def scatter_reduce(
    b: Builder, input: Value, dim: Any, index: Value, src: Value, reduce: str, include_self: Any = True
) -> Value:
    modes = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in modes or not number(include_self):
        message = f"reduce is {reduce}, include_self {include_self}"
        raise UnsupportedError(message)
    axis = axis_of(number(dim), len(b.dims(input)))
    return b(ScatterElements, input, index, _updates(b, input, index, src), axis=axis, reduction=modes[reduce])


@says("torch.slice_scatter", "aten::slice_scatter")
def slice_scatter(
    b: Builder, input: Value, src: Value, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    """Its pieces before and behind, and `src` between them."""
    dims = b.dims(input)
    axis = axis_of(number(dim), len(dims))
    extent = length(dims, axis)
    first, last, by = slice(number(start), _finite(number(end)), number(step)).indices(extent)
    if by == 1:
        parts = [sliced(b, input, axis, 0, first), src, sliced(b, input, axis, max(first, last), None)]
        kept = [p for p, n in zip(parts, (first, 1, extent - max(first, last)), strict=True) if n]
        return kept[0] if len(kept) == 1 else b(Concat, *kept, axis=axis)
    places = np.arange(first, last, by, dtype=np.int64)
    order = [axis, *(a for a in range(len(dims)) if a != axis)]
    y = b(ScatterND, moved(b, input, order), b.constant(places[:, None]), moved(b, src, order))
    return moved(b, y, [int(place) for place in np.argsort(order)])


def _finite(end: Any) -> Any:
    return None if end is None or end >= _END else end


@says("Tensor.slice_copy", "Tensor.copy")
def slice_copy(
    b: Builder,
    input: Value,
    src: Value,
    dim: Any = None,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    dims: Any = None,
    starts: Any = None,
    ends: Any = None,
    steps: Any = None,
    selects: Any = None,
) -> Value:
    """What is assigned to a slice; to one of several axes from the outermost in."""
    if dims is None and dim is None:
        return b(Expand, src, b(Shape, input))
    rank = len(b.dims(input))
    if dims is None:
        axis = axis_of(number(dim), rank)
        first, last, by = slice(number(start), _finite(number(end)), number(step)).indices(length(b.dims(input), axis))
        shape = [length(b.dims(input), a) for a in range(rank)]
        shape[axis] = len(range(first, last, by))
        return slice_scatter(b, input, b(Expand, src, vector(b, shape)), dim, start, end, step)
    return _assigned(b, input, src, integers(dims), [starts, ends, steps, selects])


def _assigned(b: Builder, x: Value, src: Value, dims: Sequence[int], given: Sequence[Any]) -> Value:
    sizes = [length(b.dims(x), axis) for axis in range(len(b.dims(x)))]
    starts, ends, steps, selects = (integers(each) if each is not None else (None,) * len(dims) for each in given)
    chosen = [np.arange(n, dtype=np.int64) for n in sizes]
    dropped: list[int] = []
    for dim, p, q, s, place in zip(dims, starts, ends, steps, selects, strict=True):
        axis = axis_of(dim, len(sizes))
        if _is_none(place):
            chosen[axis] = np.arange(sizes[axis])[slice(p, _finite(q), s)]
        else:
            chosen[axis] = np.array([int(place or 0) % sizes[axis]])
            dropped.append(axis)
    places = np.stack(np.meshgrid(*chosen, indexing="ij"), axis=-1).astype(np.int64)
    kept = [len(each) for axis, each in enumerate(chosen) if axis not in dropped]
    updates = b(Reshape, b(Expand, src, vector(b, kept)), vector(b, places.shape[:-1]))
    return b(ScatterND, x, b.constant(places), updates)


@says("torch.select_scatter", "aten::select_scatter")
def select_scatter(b: Builder, input: Value, src: Value, dim: Any, index: Any) -> Value:
    axis = axis_of(number(dim), len(b.dims(input)))
    place = int(number(index)) % length(b.dims(input), axis)
    return slice_scatter(b, input, b(Unsqueeze, src, vector(b, [axis])), axis, place, place + 1)


# ── masks and places ──────────────────────────────────────────────────────────────────────────────────────────────────


@says("torch.masked_select", "aten::masked_select")
def masked_select(b: Builder, input: Value, mask: Value) -> Value:
    dims = broadcast(b.dims(input), b.dims(mask))
    wide = [
        each if b.dims(each) == dims else b(Expand, each, vector(b, [length(dims, a) for a in range(len(dims))]))
        for each in (input, mask)
    ]
    flat = [b(Reshape, each, vector(b, [-1])) for each in wide]
    return b(Compress, flat[0], flat[1], axis=0)


@says("torch.nonzero", "aten::nonzero", ignores=("as_tuple",))
def nonzero(b: Builder, input: Value) -> Value:
    return b(Transpose, b(NonZero, input), perm=(1, 0))


@says("aten::_unique2", "torch.unique")
def unique(
    b: Builder, input: Value, sorted: Any = True, return_inverse: Any = False, return_counts: Any = False
) -> Answer:
    del sorted, return_inverse, return_counts
    if b.count == 1:
        return b(Unique, input)
    values, _, inverse, counts = b.results(Unique, 4, input)
    return values, b(Reshape, inverse, b(Shape, input)), counts


@says(
    "nn.Embedding",
    "F.embedding",
    ignores=("num_embeddings", "embedding_dim", "sparse", "scale_grad_by_freq", "padding_idx"),
)
def embedding(b: Builder, input: Value, weight: Value) -> Value:
    return b(Gather, weight, input)


@says("aten::embedding")
def aten_embedding(
    b: Builder, weight: Value, indices: Value, padding_idx: Any = None, scale: Any = None, sparse: Any = None
) -> Value:
    del padding_idx, scale, sparse
    return b(Gather, weight, indices)


@says("aten::one_hot", "F.one_hot", "torch.one_hot")
def one_hot(b: Builder, input: Value, num_classes: Any = -1) -> Value:
    count = int(number(num_classes))
    if count < 0:
        message = "the number of classes is the largest of them"
        raise UnsupportedError(message)
    return b(OneHot, input, b.constant(count, DType.INT64), vector(b, [0, 1]))


@says("torch.tril", "aten::tril")
def tril(b: Builder, input: Value, diagonal: Any = 0) -> Value:
    return b(Trilu, input, b.constant(int(number(diagonal)), DType.INT64), upper=0)


@says("torch.triu", "aten::triu")
def triu(b: Builder, input: Value, diagonal: Any = 0) -> Value:
    return b(Trilu, input, b.constant(int(number(diagonal)), DType.INT64))


@says("torch.diagonal", "aten::diagonal")
def diagonal_of(b: Builder, input: Value, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Value:
    rank = len(b.dims(input))
    i, j, k = axis_of(number(dim1), rank), axis_of(number(dim2), rank), int(number(offset))
    x = moved(b, input, [*(a for a in range(rank) if a not in (i, j)), i, j])
    rows, columns = length(b.dims(x), rank - 2), length(b.dims(x), rank - 1)
    count = max(min(rows, columns - k) if k >= 0 else min(rows + k, columns), 0)
    flat = b(Reshape, x, b(Concat, b(Shape, x, start=0, end=rank - 2), vector(b, [-1]), axis=0))
    first = k if k >= 0 else -k * columns
    places = first + np.arange(count, dtype=np.int64) * (columns + 1)
    return b(Gather, flat, b.constant(places), axis=rank - 2)


@says("torch.diag", "aten::diag")
def diag(b: Builder, input: Value, diagonal: Any = 0) -> Value:
    k = int(number(diagonal))
    return diag_embed(b, input, k) if len(b.dims(input)) == 1 else diagonal_of(b, input, k)


@says("torch.diag_embed", "aten::diag_embed")
def diag_embed(b: Builder, input: Value, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> Value:
    """Zeros around the last axis on a diagonal."""
    if (number(dim1), number(dim2)) != (-2, -1):
        message = "a diagonal between other axes than the last"
        raise UnsupportedError(message)
    dims = b.dims(input)
    count, k = length(dims, len(dims) - 1), int(number(offset))
    size = count + abs(k)
    places = np.full(size * size, count, np.int64)
    rows = np.arange(count) + max(-k, 0)
    places[rows * size + np.arange(count) + max(k, 0)] = np.arange(count)
    zero = b(Expand, b.like(input, 0), b(Concat, b(Shape, input, start=0, end=-1), vector(b, [1]), axis=0))
    wide = b(Concat, input, zero, axis=-1)
    flat = b(Gather, wide, b.constant(places), axis=len(dims) - 1)
    return b(Reshape, flat, b(Concat, b(Shape, input, start=0, end=-1), vector(b, [size, size]), axis=0))


@says("Tensor.item", "aten::item")
def item(b: Builder, input: Value) -> Value:
    return b(Reshape, input, vector(b, [])) if b.dims(input) else input


# ── lifting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@Slice.lift(DIALECT)
def lift_slice(
    b: Builder, data: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None
) -> Value | None:
    """One axis after another; PyTorch's steps go forward."""
    first, last, by = static(starts), static(ends), static(steps)
    places = static(axes)
    if first is None or last is None or (steps is not None and by is None) or (axes is not None and places is None):
        return None
    places = tuple(range(len(first))) if places is None else places
    by = (1,) * len(first) if by is None else by
    if any(step < 1 for step in by):
        return None
    y = data
    for axis, p, q, step in zip(places, first, last, by, strict=True):
        end = min(q, _END) if q >= 0 else q
        y = called(b, "Tensor.slice", TensorFact(dtype_of(data), None), input=y, dim=axis, start=p, end=end, step=step)
    return y


@Gather.lift(DIALECT)
def lift_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value | None:
    """One place, a row of them, or rows of a table."""
    fact = TensorFact(dtype_of(data), None)
    rank = len(b.dims(indices))
    known = static(indices)
    if rank == 0 and known is not None:
        return called(b, "Tensor.select", fact, input=data, dim=axis, index=known[0])
    if rank == 1 and (known is None or min(known, default=0) >= 0):
        return called(b, "torch.index_select", fact, input=data, index=indices, dim=axis)
    return called(b, "F.embedding", fact, input=indices, weight=data) if axis == 0 and len(b.dims(data)) == 2 else None


@GatherElements.lift(DIALECT)
def lift_gather_elements(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    return called(b, "torch.gather", TensorFact(dtype_of(data), b.dims(indices)), input=data, index=indices, dim=axis)

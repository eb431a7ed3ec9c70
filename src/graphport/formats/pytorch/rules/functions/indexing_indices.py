"""Advanced indexing of PyTorch: read and write elements by index tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import Dim
from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.syntax import List, Literal, Reference, postorder
from graphport.formats.pytorch.rules.binding import axis_of, bounded, emits, integers, length, scalar_of
from graphport.formats.pytorch.rules.functions.indexing_slices import END, is_none, sliced
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.arithmetic import Div
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.indexing import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    NonZero,
    ScatterElements,
    ScatterND,
    Slice,
)
from graphport.ops.definitions.reshape import Concat, Expand, Reshape, Shape, Transpose, Unsqueeze
from graphport.ops.lowering.operands import dtype_of, transposed, vector
from graphport.ops.shapes import broadcast


def _indices(b: Builder, expr: Any, operands: Sequence[Value]) -> list[Value | None]:
    """Return an index tensor per axis; `None` selects the whole axis."""
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
            continue
        array = np.array(item)
        if array.dtype.kind != "b":
            found.append(b.constant(array.astype(np.int64)))
        elif array.ndim:
            # A mask is equivalent to the indices of its true elements, on as many axes as its rank.
            found += [b.constant(each.astype(np.int64)) for each in array.nonzero()]
        else:
            message = "a boolean scalar as an index"
            raise UnsupportedError(message)
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
                message = f"unsupported index {expr}"
                raise UnsupportedError(message)
    return done[0] if isinstance(done[0], list) else [done[0]]


@emits("Tensor.index", "aten::index")
def index(b: Builder, input: Value, indices: Any = None, expr: Any = None) -> Value:
    found = _indices(b, indices if indices is not None else expr, ())
    axes = [axis for axis, item in enumerate(found) if item is not None]
    chosen = [item for item in found if item is not None]
    if not chosen:
        return input
    if len(chosen) == 1 and dtype_of(chosen[0]) in (DType.BOOL, DType.UINT8):
        return _masked(b, input, axes[0], chosen[0])
    if any(dtype_of(item) is DType.BOOL for item in chosen):
        message = "a boolean mask together with other indices"
        raise UnsupportedError(message)
    if len(chosen) == 1:
        return b(Gather, input, chosen[0], axis=axes[0])
    return _gathered(b, input, axes, chosen)


def _masked(b: Builder, x: Value, axis: int, mask: Value) -> Value:
    if axis:
        if len(b.dims(mask)) == 1:
            return b(Compress, x, mask, axis=axis)
        message = "a boolean mask of rank 2 or more after the first axis"
        raise UnsupportedError(message)
    return b(GatherND, x, b(Transpose, b(NonZero, mask), perm=(1, 0)))


def _joined(b: Builder, chosen: Sequence[Value]) -> Value:
    """Broadcast the index tensors of several axes and stack them on a last axis (GatherND indices)."""
    dims = broadcast(*(b.dims(item) for item in chosen))
    wide = chosen
    if any(b.dims(item) != dims for item in chosen):
        shape = vector(b, [length(dims, axis) for axis in range(len(dims))])
        wide = [item if b.dims(item) == dims else b(Expand, item, shape) for item in chosen]
    last = vector(b, [-1])
    return b(Concat, *(b(Unsqueeze, item, last) for item in wide), axis=-1)


def _gathered(b: Builder, x: Value, axes: Sequence[int], chosen: Sequence[Value]) -> Value:
    rank = len(b.dims(x))
    rest = [axis for axis in range(rank) if axis not in axes]
    index_tuples = _joined(b, chosen)
    y = b(GatherND, transposed(b, x, [*axes, *rest]), index_tuples)
    count = len(b.dims(index_tuples)) - 1
    if list(axes) != list(range(axes[0], axes[0] + len(axes))) or not axes[0]:
        return y
    # Adjacent index tensors keep the position of their axes.
    front = axes[0]
    order = [*range(count, count + front), *range(count), *range(count + front, len(b.dims(y)))]
    return transposed(b, y, order)


@emits("Tensor.index_put", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", ignores=("unsafe",))
def index_put(
    b: Builder, input: Value, indices: Any, values: Any, accumulate: Any = False, unsafe: Any = False
) -> Value:
    del unsafe
    if not isinstance(values, Value):
        values = b.like(input, scalar_of(values))
    found = _indices(b, indices, ())
    chosen = [item for item in found if item is not None]
    reduction = "add" if scalar_of(accumulate) else None
    if any(item is None for item in found[: len(chosen)]):
        axes = [axis for axis, item in enumerate(found) if item is not None]
        return _scatter_with_trailing_axes(b, input, axes, chosen, values, reduction)
    if len(chosen) == 1 and dtype_of(chosen[0]) is DType.BOOL:
        index_tuples = b(Transpose, b(NonZero, chosen[0]), perm=(1, 0))
        count = len(b.dims(chosen[0]))
        if b.dims(values):
            return b(ScatterND, input, index_tuples, values, reduction=reduction)
        shape = b(Concat, b(Shape, index_tuples, start=0, end=1), b(Shape, input, start=count), axis=0)
        return b(ScatterND, input, index_tuples, b(Expand, values, shape), reduction=reduction)
    index_tuples = _joined(b, chosen)
    shape = b(Concat, b(Shape, index_tuples, start=0, end=-1), b(Shape, input, start=len(chosen)), axis=0)
    return b(ScatterND, input, index_tuples, b(Expand, values, shape), reduction=reduction)


def _scatter_with_trailing_axes(
    b: Builder, x: Value, axes: Sequence[int], chosen: Sequence[Value], values: Value, reduction: str | None
) -> Value:
    """Write elements by index with ScatterND; unindexed axes are moved last and back."""
    rest = [axis for axis in range(len(b.dims(x))) if axis not in axes]
    order = [*axes, *rest]
    index_tuples = _joined(b, [_counted(b, item) for item in chosen])
    count = len(b.dims(index_tuples)) - 1
    # Adjacent index tensors keep the position of their axes, others go first.
    front = axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0
    permuted = transposed(b, x, order)
    behind = [b(Shape, permuted, start=len(axes) + at, end=len(axes) + at + 1) for at in range(len(rest))]
    shape = [*behind[:front], b(Shape, index_tuples, start=0, end=-1), *behind[front:]]
    wide = b(Expand, values, b(Concat, *shape, axis=0))
    first = [*range(front, front + count), *range(front), *range(front + count, count + len(rest))]
    y = b(ScatterND, permuted, index_tuples, transposed(b, wide, first), reduction=reduction)
    return transposed(b, y, [int(place) for place in np.argsort(order)])


def _counted(b: Builder, index: Value) -> Value:
    """Return indices along one axis; a mask is converted to the indices of its true elements."""
    if dtype_of(index) is not DType.BOOL:
        return index
    if len(b.dims(index)) != 1:
        message = "a boolean mask of rank 2 or more after the first axis"
        raise UnsupportedError(message)
    return b(Reshape, b(NonZero, index), [-1])


def _cut(b: Builder, x: Value, index: Value, axis: int) -> Value:
    """Crop each axis of `x` other than `axis` to the size of `index` (gather and scatter permit smaller indices)."""
    for place, (n, m) in enumerate(zip(b.dims(x), b.dims(index), strict=True)):
        if place != axis and n != m:
            x = b(Slice, x, vector(b, [0]), b(Shape, index, start=place, end=place + 1), [place])
    return x


def column_of(b: Builder, index: Value, place: int, source: Value) -> Value:
    """Broadcast an index vector along axis `place` to the shape of `source`, as ScatterElements requires."""
    shape = b(Shape, source)
    rank = len(b.dims(source))
    column = b(Reshape, index, [-1 if axis == place else 1 for axis in range(rank)])
    return b(Expand, column, shape)


def _filler(b: Builder, x: Value, index: Value, place: int, value: Any) -> Value:
    """Broadcast a scalar to the shape of `x` with the length of `index` along axis `place`."""
    count = length(b.dims(index), 0)
    shape = [length(b.dims(x), axis) if axis != place else count for axis in range(len(b.dims(x)))]
    return b(Expand, b.like(x, scalar_of(value)), shape)


PNNX.having(column=column_of, cut=_cut, filler=_filler).lower("""
torch.index_select, aten::index_select(input, dim, index) -> Gather(input, index, axis=axis(dim, input))
torch.take, aten::take(input, index) -> Gather(Reshape(input, [-1]), index)
torch.gather, aten::gather(input, dim, index, sparse_grad: ignored = False)
    -> GatherElements(cut(input, index, place := axis(dim, input)), index, axis=place)
torch.scatter_add, aten::scatter_add, aten::scatter_add_(input, dim, index, src)
    -> torch.scatter(input, dim, index, src, "add")
torch.index_add, aten::index_add, aten::index_add_(input, dim, index, source, alpha=1)
    -> place = axis(dim, input); places = column(index, place, source);
       ScatterElements(input, places, source if alpha == 1 else Mul(source, alpha), axis=place, reduction="add")
torch.index_copy, aten::index_copy, aten::index_copy_(input, dim, index, source)
    -> place = axis(dim, input); ScatterElements(input, column(index, place, source), source, axis=place)
torch.index_fill, aten::index_fill, aten::index_fill_(input, dim, index, value)
    -> place = axis(dim, input);
       ScatterElements(input, column(index, place, some := filler(input, index, place, value)), some, axis=place)
""")


@emits("torch.take_along_dim", "aten::take_along_dim")
def take_along_dim(b: Builder, input: Value, indices: Value, dim: Any = None) -> Value:
    if dim is None:
        return b(Gather, b(Reshape, input, [-1]), b(Reshape, indices, [-1]))
    axis = axis_of(int(scalar_of(dim)), len(b.dims(input)))
    # All other axes broadcast.
    wanted = broadcast(*(_with_one(b.dims(x), axis) for x in (input, indices)))
    input, indices = (_as_long(b, x, other, axis, wanted) for x, other in ((input, indices), (indices, input)))
    return b(GatherElements, input, indices, axis=axis)


def _with_one(dims: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return (*dims[:axis], 1, *dims[axis + 1 :])


def _as_long(b: Builder, x: Value, other: Value, axis: int, wanted: Sequence[Dim]) -> Value:
    """Broadcast `x` to the shape of both tensors, except along `axis`."""
    if _with_one(b.dims(x), axis) == tuple(wanted):
        return x
    is_own = b.constant(np.arange(len(wanted)) == axis)
    return b(Expand, x, b(Where, is_own, vector(b, [1]), b(Shape, other)))


def _updates(b: Builder, x: Value, index: Value, src: Any) -> Value:
    if not isinstance(src, Value):
        return b(Expand, b.like(x, src), b(Shape, index))
    if not b.dims(src):
        return b(Expand, src, b(Shape, index))
    if b.dims(src) == b.dims(index):
        return src
    rank = len(b.dims(src))
    return b(Slice, src, vector(b, [0] * rank), b(Shape, index), range(rank))


@emits("torch.scatter", "aten::scatter", "aten::scatter_")
def scatter(
    b: Builder, input: Value, dim: Any, index: Value, src: Any = None, reduce: Any = None, value: Any = None
) -> Value:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    modes = {None: None, "add": "add", "multiply": "mul"}
    if reduce not in modes:
        message = f"unsupported: reduce={reduce}"
        raise UnsupportedError(message)
    updates = _updates(b, input, index, src if src is not None else value)
    return b(ScatterElements, input, index, updates, axis=axis, reduction=modes[reduce])


@emits("torch.scatter_reduce", "aten::scatter_reduce")
def scatter_reduce(
    b: Builder, input: Value, dim: Any, index: Value, src: Value, reduce: str, include_self: Any = True
) -> Value:
    modes = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    if reduce == "mean" and scalar_of(include_self) and dtype_of(input).is_floating:
        total = scatter(b, input, axis, index, src, "add")
        return b(Div, total, scatter(b, b(Expand, b.like(input, 1), b(Shape, input)), axis, index, 1.0, "add"))
    if reduce not in modes or not scalar_of(include_self):
        message = f"unsupported: reduce={reduce}, include_self={include_self}"
        raise UnsupportedError(message)
    return b(ScatterElements, input, index, _updates(b, input, index, src), axis=axis, reduction=modes[reduce])


@emits("torch.slice_scatter", "aten::slice_scatter")
def slice_scatter(
    b: Builder, input: Value, src: Value, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    """Concatenate the parts before and after the slice with `src` between them."""
    dims = b.dims(input)
    axis = axis_of(scalar_of(dim), len(dims))
    extent = length(dims, axis)
    first, last, by = slice(scalar_of(start), _finite(scalar_of(end)), scalar_of(step)).indices(extent)
    if by == 1:
        parts = [sliced(b, input, axis, 0, first), src, sliced(b, input, axis, max(first, last), None)]
        kept = [p for p, n in zip(parts, (first, 1, extent - max(first, last)), strict=True) if n]
        return kept[0] if len(kept) == 1 else b(Concat, *kept, axis=axis)
    bounded(len(range(first, last, by)))
    indices = np.arange(first, last, by, dtype=np.int64)
    order = [axis, *(a for a in range(len(dims)) if a != axis)]
    y = b(ScatterND, transposed(b, input, order), b.constant(indices[:, None]), transposed(b, src, order))
    return transposed(b, y, [int(place) for place in np.argsort(order)])


def _finite(end: Any) -> Any:
    return None if end is None or end >= END else end


@emits("Tensor.slice_copy", "Tensor.copy")
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
    select: Any = None,
) -> Value:
    """Assign to a slice, or with `select` to an index; several axes are processed from the outermost."""
    if dims is None and dim is None:
        return b(Expand, src, b(Shape, input))
    if dims is None and not is_none(select):
        return _assigned(b, input, src, [scalar_of(dim)], [None, None, None, [select]])
    rank = len(b.dims(input))
    if dims is None:
        axis = axis_of(scalar_of(dim), rank)
        first, last, by = slice(scalar_of(start), _finite(scalar_of(end)), scalar_of(step)).indices(
            length(b.dims(input), axis)
        )
        shape = [length(b.dims(input), a) for a in range(rank)]
        shape[axis] = len(range(first, last, by))
        return slice_scatter(b, input, b(Expand, src, shape), dim, start, end, step)
    return _assigned(b, input, src, integers(dims), [starts, ends, steps, selects])


def _assigned(b: Builder, x: Value, src: Value, dims: Sequence[int], given: Sequence[Any]) -> Value:
    sizes = [length(b.dims(x), axis) for axis in range(len(b.dims(x)))]
    starts, ends, steps, selects = (integers(each) if each is not None else (None,) * len(dims) for each in given)
    bounded(prod(sizes))
    chosen = [np.arange(n, dtype=np.int64) for n in sizes]
    dropped: list[int] = []
    for dim, p, q, s, place in zip(dims, starts, ends, steps, selects, strict=True):
        axis = axis_of(dim, len(sizes))
        if is_none(place):
            chosen[axis] = np.arange(sizes[axis])[slice(p, _finite(q), s)]
        else:
            chosen[axis] = np.array([int(place or 0) % sizes[axis]])
            dropped.append(axis)
    index_tuples = np.stack(np.meshgrid(*chosen, indexing="ij"), axis=-1).astype(np.int64)
    kept = [len(each) for axis, each in enumerate(chosen) if axis not in dropped]
    updates = b(Reshape, b(Expand, src, kept), index_tuples.shape[:-1])
    return b(ScatterND, x, b.constant(index_tuples), updates)


@emits("torch.select_scatter", "aten::select_scatter")
def select_scatter(b: Builder, input: Value, src: Value, dim: Any, index: Any) -> Value:
    axis = axis_of(scalar_of(dim), len(b.dims(input)))
    place = int(scalar_of(index)) % length(b.dims(input), axis)
    return slice_scatter(b, input, b(Unsqueeze, src, [axis]), axis, place, place + 1)

"""Export rules of gathering, scattering and slicing to ATen."""

from __future__ import annotations

import math
from typing import Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN
from graphport.formats.pytorch.rules.emitting import (
    DIALECT,
    aten,
    aten_results,
    element_of,
    elements_of,
    size_of,
    with_fact,
)
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.indexing import (
    Compress,
    Gather,
    GatherElements,
    GatherND,
    NonZero,
    OneHot,
    ReverseSequence,
    ScatterND,
    Trilu,
    Unique,
)
from graphport.ops.lowering.operands import cast, dtype_of, integers, reshaped
from graphport.ops.views.indexing import ScatterElementsView, SliceView

_END = 1 << 62
_BITS = {DType.UINT16: DType.INT16, DType.UINT32: DType.INT32, DType.UINT64: DType.INT64}


def as_index(b: Builder, indices: Value) -> Value:
    """Cast indices to int64."""
    return cast(b, indices, DType.INT64)


def _signed(b: Builder, x: Value) -> Value:
    """Bit-cast unsigned integers without kernels to signed integers of equal width."""
    bits = _BITS.get(dtype_of(x))
    return x if bits is None else aten(b, "view.dtype", x, bits)


def _unsigned(b: Builder, y: Value, own: DType) -> Value:
    return aten(b, "view.dtype", y, own) if own in _BITS else y


def counted(b: Builder, indices: Value, size: Any) -> Value:
    """Cast indices to int64 and normalize negative ones."""
    known = integers(indices)
    if known is not None and all(n >= 0 for n in known):
        return as_index(b, indices)
    index = as_index(b, indices)
    if isinstance(size, Value):
        size = aten(b, "full", (), size, dtype=DType.INT64)
        later = aten(b, "add.Tensor", index, size)
    else:
        later = aten(b, "add.Scalar", index, size)
    return aten(b, "where.self", aten(b, "lt.Scalar", index, 0), later, index)


@Gather.export_rule(DIALECT)
def export_gather(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    """Export Gather as advanced indexing, which accepts negative indices."""
    place = axis % len(b.dims(data))
    own = dtype_of(data)
    known = integers(indices) if not b.dims(indices) else None
    if known is not None:
        return aten(b, "select.int", data, place, known[0])
    x = _signed(b, data)
    return _unsigned(b, aten(b, "index.Tensor", x, [*[None] * place, as_index(b, indices)]), own)


@GatherElements.export_rule(DIALECT)
def export_gather_elements(b: Builder, data: Value, indices: Value, *, axis: int = 0) -> Value:
    place = axis % len(b.dims(data))
    index = counted(b, indices, size_of(b, data, place))
    return _unsigned(b, aten(b, "gather", _signed(b, data), place, index), dtype_of(data))


def _columns(b: Builder, indices: Value) -> list[Value]:
    """Return the index vector of each axis.

    Raises:
        UnsupportedError: the number of axes is not static.
    """
    count = b.dims(indices)[-1]
    if not isinstance(count, int):
        message = "the last dim of the indices is not constant"
        raise UnsupportedError(message)
    return [aten(b, "select.int", as_index(b, indices), -1, place) for place in range(count)]


def _batches(b: Builder, x: Value, indices: Value, count: int) -> list[Value]:
    """Return an index tensor for each batch axis."""
    rank = len(b.dims(indices)) - 1
    found: list[Value] = []
    for axis in range(count):
        shape = [1] * rank
        shape[axis] = -1
        own = aten(b, "arange.start_step", 0, size_of(b, x, axis), 1)
        found.append(aten(b, "reshape", own, shape))
    return found


@GatherND.export_rule(DIALECT)
def export_gather_nd(b: Builder, data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    columns = [*_batches(b, data, indices, batch_dims), *_columns(b, indices)]
    if not columns:
        message = "the last dim of the indices is 0"
        raise UnsupportedError(message)
    return _unsigned(b, aten(b, "index.Tensor", _signed(b, data), columns), dtype_of(data))


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@ScatterElementsView.export_rule(DIALECT)
def export_scatter_elements(b: Builder, op: ScatterElementsView) -> Value:
    place = op.axis % len(b.dims(op.data))
    index = counted(b, op.indices, size_of(b, op.data, place))
    if op.reduction == "none":
        y = aten(b, "scatter.src", _signed(b, op.data), place, index, _signed(b, op.updates))
        return _unsigned(b, y, dtype_of(op.data))
    return aten(b, "scatter_reduce.two", op.data, place, index, op.updates, _REDUCTIONS[op.reduction])


@ScatterND.export_rule(DIALECT)
def export_scatter_nd(b: Builder, data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Export ScatterND; reductions other than add scatter into a flat tensor."""
    columns = _columns(b, indices)
    if not columns:
        message = "the last dim of the indices is 0"
        raise UnsupportedError(message)
    own = dtype_of(data)
    if reduction in ("none", "add"):
        operands = (_signed(b, data), columns, _signed(b, updates), reduction == "add")
        return _unsigned(b, aten(b, "index_put", *operands), own)
    dims = b.dims(data)
    if any(isinstance(dim, Symbolic) for dim in (*dims, *b.dims(indices))):
        message = f"the reduction {reduction} requires constant shapes"
        raise UnsupportedError(message)
    sizes = [dim for dim in dims if isinstance(dim, int)]
    depth = len(columns)
    row = math.prod(sizes[depth:])
    flat: Value | None = None
    for place, column in enumerate(columns):
        front = counted(b, column, sizes[place])
        part = aten(b, "mul.Scalar", front, math.prod(sizes[place + 1 : depth]))
        flat = part if flat is None else aten(b, "add.Tensor", flat, part)
    if flat is None:
        raise UnsupportedError
    index = aten(b, "expand", aten(b, "reshape", flat, (-1, 1)), (-1, row))
    table = aten(b, "reshape", data, (-1, row))
    rows = aten(b, "reshape", updates, (-1, row))
    y = aten(b, "scatter_reduce.two", table, 0, index, rows, _REDUCTIONS[reduction])
    return aten(b, "reshape", y, sizes)


@SliceView.export_rule(DIALECT)
def export_slice(b: Builder, op: SliceView) -> Value:
    """Export Slice by axis; by indices if the step is negative, or if start, axes or step are not static."""
    rank = len(b.dims(op.data))
    starts, ends = (elements_of(b, each, op.data) for each in (op.starts, op.ends))
    count = len(starts)
    axes = tuple(range(count)) if op.axes is None else elements_of(b, op.axes)
    steps = (1,) * count if op.steps is None else elements_of(b, op.steps)
    x = op.data
    for place, (axis, start, end, step) in enumerate(zip(axes, starts, ends, steps, strict=True)):
        if isinstance(axis, int) and isinstance(step, int) and step > 0:
            begin, stop = (max(min(n, _END), -_END) if isinstance(n, int) else n for n in (start, end))
            x = aten(b, "slice.Tensor", x, axis % rank, begin, stop, step)
        else:
            bounds = [_scalar(b, each, place) for each in (op.starts, op.ends)]
            step_tensor = b.constant([1]) if op.steps is None else op.steps
            x = _by_index(b, x, axis, bounds, _scalar(b, step_tensor, place if op.steps is not None else 0))
        x = with_fact(x, dtype_of(op.data), (OPEN,) * rank)
    return x if x is not op.data else aten(b, "alias", x)


def _scalar(b: Builder, vector: Value, place: int) -> Value:
    return cast(b, aten(b, "select.int", vector, 0, place), DType.INT64)


def _by_index(b: Builder, x: Value, axis: Any, bounds: list[Value], step: Value) -> Value:
    """Select the elements of a slice by indices; start and end are clamped as ONNX specifies."""
    size = _length_of(b, x, axis)
    zero = aten(b, "zeros_like", size)
    last = aten(b, "sub.Scalar", size, 1)
    start, end = (aten(b, "where.self", aten(b, "lt.Scalar", n, 0), aten(b, "add.Tensor", n, size), n) for n in bounds)
    ahead = aten(b, "gt.Scalar", step, 0)
    low = aten(b, "where.self", ahead, zero, aten(b, "sub.Scalar", zero, 1))
    high = aten(b, "where.self", ahead, size, last)
    begin = aten(b, "minimum", aten(b, "maximum", start, zero), high)
    stop = aten(b, "minimum", aten(b, "maximum", end, low), high)
    forward, backward = (aten(b, name, stop, begin) for name in ("maximum", "minimum"))
    stop = aten(b, "where.self", ahead, forward, backward)
    numbers = [element_of(b, each) for each in (begin, stop, step)]
    index = with_fact(aten(b, "arange.start_step", *numbers, dtype=DType.INT64), DType.INT64, (OPEN,))
    return aten(b, "index_select", x, axis, index)


def _length_of(b: Builder, x: Value, axis: Any) -> Value:
    """Return the size of an axis as a tensor of rank 0; the axis may be computed at run time."""
    if isinstance(axis, int):
        return aten(b, "full", (), size_of(b, x, axis), dtype=DType.INT64)
    sizes = [aten(b, "full", (), size_of(b, x, place), dtype=DType.INT64) for place in range(len(b.dims(x)))]
    return with_fact(aten(b, "select.int", aten(b, "stack", sizes), 0, axis), DType.INT64, ())


@Compress.export_rule(DIALECT)
def export_compress(b: Builder, input: Value, condition: Value, *, axis: int | None = None) -> Value:
    """Export Compress: select the elements at the indices of true conditions."""
    x = aten(b, "reshape", input, (-1,)) if axis is None else input
    index = aten(b, "reshape", aten(b, "nonzero", condition), (-1,))
    return aten(b, "index_select", x, 0 if axis is None else axis, index)


@NonZero.export_rule(DIALECT)
def export_nonzero(b: Builder, x: Value) -> Value:
    """Export NonZero: the transpose of torch's result."""
    rows = aten(b, "nonzero", _signed(b, x))
    return aten(b, "permute", rows, (1, 0))


@Trilu.export_rule(DIALECT)
def export_trilu(b: Builder, input: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    (diagonal,) = (0,) if k is None else elements_of(b, k)
    own = dtype_of(input)
    y = aten(b, "triu" if upper else "tril", _signed(b, input), diagonal)
    return _unsigned(b, y, own)


@OneHot.export_rule(DIALECT)
def export_one_hot(b: Builder, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """Export OneHot as a comparison with the range of the new axis."""
    rank = len(b.dims(indices)) + 1
    place = axis % rank
    (count,) = elements_of(b, cast(b, reshaped(b, depth, []), DType.INT64))
    shape = [1] * rank
    shape[place] = -1
    own = aten(b, "reshape", aten(b, "arange.start_step", 0, count, 1), shape)
    wide = aten(b, "unsqueeze", as_index(b, indices), place)
    index = counted(b, wide, count)
    hit = aten(b, "eq.Tensor", index, own)
    off, on = (aten(b, "select.int", values, 0, each) for each in (0, 1))
    return aten(b, "where.self", hit, on, off)


@Unique.export_rule(DIALECT)
def export_unique(b: Builder, x: Value, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    """Export Unique; first occurrences are the minimal indices of each value."""
    place = 0 if axis is None else axis % len(b.dims(x))
    if axis is None:
        y, inverse, counts = aten_results(b, "_unique2", 3, x, True, True, True)
    else:
        y, inverse, counts = aten_results(b, "unique_dim", 3, x, place, True, True, True)
    dims = b.dims(x)
    with_fact(y, dtype_of(x), (OPEN,) if axis is None else [OPEN if k == place else dim for k, dim in enumerate(dims)])
    with_fact(inverse, DType.INT64, dims if axis is None else (dims[place],))
    with_fact(counts, DType.INT64, (OPEN,))
    inverse = aten(b, "reshape", inverse, (-1,))
    own = aten(b, "sub.Scalar", aten(b, "cumsum", aten(b, "ones_like", inverse), 0), 1)
    start = aten(b, "add.Scalar", aten(b, "mul.Scalar", counts, 0), _END)
    first = aten(b, "scatter_reduce.two", start, 0, inverse, own, "amin")
    if sorted:
        return y, first, inverse, counts
    order = aten(b, "argsort", first)
    rank = aten(b, "argsort", order)
    ordered = aten(b, "index_select", y, place, order)
    firsts, numbers = (aten(b, "index_select", each, 0, order) for each in (first, counts))
    return ordered, firsts, aten(b, "index_select", rank, 0, inverse), numbers


@ReverseSequence.export_rule(DIALECT)
def export_reverse_sequence(
    b: Builder, input: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    """Export ReverseSequence by indices: length - 1 - t for t < length, else t."""
    rank = len(b.dims(input))
    time_shape, batch_shape = [1] * rank, [1] * rank
    time_shape[time_axis], batch_shape[batch_axis] = -1, -1
    steps = aten(b, "reshape", aten(b, "arange.start_step", 0, size_of(b, input, time_axis), 1), time_shape)
    lengths = aten(b, "reshape", as_index(b, sequence_lens), batch_shape)
    mirrored = aten(b, "sub.Scalar", aten(b, "sub.Tensor", lengths, steps), 1)
    inside = aten(b, "lt.Tensor", steps, lengths)
    index = aten(b, "where.self", inside, mirrored, steps)
    sizes = [size_of(b, input, axis) for axis in range(rank)]
    return aten(b, "gather", input, time_axis, aten(b, "expand", index, sizes))

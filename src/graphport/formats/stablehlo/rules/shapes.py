"""Operations that move, repeat or make elements, and those on sizes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.stablehlo.program import Dense, TensorType, elements_of
from graphport.formats.stablehlo.refusal import refuse
from graphport.formats.stablehlo.rules.emitter import MAX_FILLED, Emitter, complex_rule, element_type, rule
from graphport.formats.stablehlo.rules.values import Held, Pair, TupleValue
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.stablehlo.program import Operation


MAX_ATTRIBUTE_INTEGERS = 1 << 16
"""Integers of one attribute."""


def ints_of(value: Any, name: str = "") -> list[int]:
    """The integers of an attribute: a list (of lists) or a constant.

    Raises:
        RefusedError: SH0007 it is neither, or an element is not an int64.
    """
    flat: list[Any] = []
    if isinstance(value, Dense):
        if value.type.count > MAX_ATTRIBUTE_INTEGERS:
            refuse("SH0007", f"the attribute {name} has {value.type.count} elements, at most {MAX_ATTRIBUTE_INTEGERS}")
        flat = value.array().reshape(-1).tolist()
    elif isinstance(value, list):
        flat = [n for item in elements_of(value) for n in (elements_of(item) if isinstance(item, list) else [item])]
    if not isinstance(value, (Dense, list)) or not all(isinstance(n, int) and abs(n) < 1 << 63 for n in flat):
        refuse("SH0007", f"the attribute {name} must be a list of integers")
    return [int(n) for n in flat]


def integer_of(value: Any, name: str) -> int:
    """The integer of an attribute.

    Raises:
        RefusedError: SH0007 it is not an int64.
    """
    if not isinstance(value, int) or abs(value) >= 1 << 63:
        refuse("SH0007", f"the attribute {name} must be an integer")
    return value


def result_shape(op: Operation, index: int = 0) -> tuple[int | None, ...]:
    """The declared shape of a result."""
    type = op.result_types[index]
    return type.shape if isinstance(type, TensorType) else ()


def checked_axes(e: Emitter, axes: Sequence[int | None], rank: int, op: Operation) -> list[int]:
    """Axes, each once and below the rank.

    Raises:
        RefusedError: SH0007 one is not.
    """
    del e
    if len(set(axes)) != len(axes) or any(axis is None or not 0 <= axis < rank for axis in axes):
        refuse("SH0007", f"{op.shown()}: the dimensions {list(axes)} are not distinct axes of rank {rank}")
    return [axis for axis in axes if axis is not None]


@rule("constant")
def constant(e: Emitter, op: Operation) -> Held:
    """A constant."""
    value = op.attributes.get("value")
    if not isinstance(value, Dense):
        refuse("SH0010", "a constant without elements")
    type = op.result_types[0]
    if isinstance(type, TensorType) and type.quantization is not None and value.type.quantization is None:
        value = Dense(
            TensorType(value.type.element, value.type.shape, type.quantization), value.storage, value.is_splat
        )
    return e.dense(value)


@rule("chlo.constant_like")
def constant_like(e: Emitter, op: Operation, x: Value) -> Value:
    """A number in the shape of an operand."""
    value = op.attribute("value")
    if isinstance(value, Dense) and value.type.count == 1:
        value = value.array().item()
    if not isinstance(value, (int, float)):
        refuse("SH0007", f"{op.shown()}: the attribute value is not a number")
    return e.expand(e.constant(value, x.dtype), e.sizes(x))


@rule("reshape", moves=True)
def reshape(e: Emitter, op: Operation, x: Value) -> Value:
    """The same elements in another static shape."""
    if e.is_vectorized:
        return x
    shape = result_shape(op)
    numbers = [dim for dim in shape if dim is not None]
    if len(numbers) < len(shape) - 1:
        refuse("SH0009", "reshape has several dynamic dims")
    static = [d for d in e.dims(x) if isinstance(d, int)]
    if len(numbers) == len(shape) and len(static) == e.rank(x) and np.prod(static) != np.prod(numbers):
        refuse("SH0007", f"reshape of {list(e.dims(x))} to {list(numbers)} changes the number of elements")
    return e.reshape(x, [-1 if dim is None else dim for dim in shape])


@rule("dynamic_reshape", moves=True)
def dynamic_reshape(e: Emitter, op: Operation, x: Value, shape: Value) -> Value:
    """The same elements in a shape that a run computes."""
    known = e.constant_elements(shape)
    if known is not None:
        return e.reshape(x, [int(n) for n in known.reshape(-1)])
    declared = result_shape(op)
    if sum(dim is None for dim in declared) == 1 and 0 not in declared:
        return e.reshape(x, [-1 if dim is None else dim for dim in declared])
    return e("Reshape", x, e.index(shape), allowzero=1 if 0 in declared else None)


def aligned(e: Emitter, op: Operation, x: Value, axes: list[int], rank: int) -> Value:
    """`x` with its axes at `axes` of a result, and new axes of one element elsewhere."""
    if len(axes) != e.rank(x):
        refuse("SH0007", f"{op.shown()}: {len(axes)} dimensions for an operand of rank {e.rank(x)}")
    checked_axes(e, axes, rank, op)
    x = e.transpose(x, [int(n) for n in np.argsort(axes)])
    return e.unsqueeze(x, *[axis for axis in range(rank) if axis not in axes])


@rule("broadcast_in_dim", moves=True)
def broadcast_in_dim(e: Emitter, op: Operation, x: Value) -> Value:
    """Broadcast to a shape; `broadcast_dimensions` has an axis of the result for each axis of the operand."""
    if e.is_vectorized:
        return x
    axes = ints_of(op.attributes.get("broadcast_dimensions", []), "broadcast_dimensions")
    shape = result_shape(op)
    return e.expand(aligned(e, op, x, axes, len(shape)), [_declared(op, dim) for dim in shape])


def _declared(op: Operation, dim: int | None) -> int:
    if dim is None:
        refuse("SH0009", f"{op.shown()} has a dynamic dim in its result")
    return dim


@rule("dynamic_broadcast_in_dim", moves=True)
def dynamic_broadcast_in_dim(e: Emitter, op: Operation, x: Value, shape: Value) -> Value:
    """Broadcast to a shape that a run computes."""
    if e.is_vectorized:
        return x
    axes = ints_of(op.attributes.get("broadcast_dimensions", []), "broadcast_dimensions")
    if e.rank(shape) != 1:
        refuse("SH0007", f"{op.shown()}: the shape has rank {e.rank(shape)}")
    rank = e.static(shape, 0)
    found = aligned(e, op, x, axes, rank)
    known = e.constant_elements(shape)
    if known is not None:
        return e.expand(found, [int(n) for n in known.reshape(-1)])
    return e("Expand", found, e.index(shape))


@rule("broadcast", moves=True)
def broadcast(e: Emitter, op: Operation, x: Value) -> Value:
    """Add leading axes."""
    sizes = ints_of(op.attribute("broadcast_sizes"), "broadcast_sizes")
    return e.expand(e.unsqueeze(x, *range(len(sizes))), [*sizes, *e.sizes(x)])


@rule("transpose", moves=True)
def transpose(e: Emitter, op: Operation, x: Value) -> Value:
    """Reorder axes."""
    order = checked_axes(e, ints_of(op.attribute("permutation"), "permutation"), e.rank(x), op)
    if len(order) != e.rank(x):
        refuse("SH0007", f"transpose: {len(order)} dimensions for an operand of rank {e.rank(x)}")
    return e.transpose(x, order)


@rule("concatenate", moves=True)
def concatenate(e: Emitter, op: Operation, x: Value, *others: Value) -> Value:
    """Join along an axis."""
    axis = int(op.attribute("dimension"))
    checked_axes(e, [axis], e.rank(x), op)
    return e("Concat", x, *others, axis=axis) if others else x


@rule("slice", moves=True)
def slice_(e: Emitter, op: Operation, x: Value) -> Value:
    """Take every n-th element between two bounds of each axis."""
    starts, limits = (ints_of(op.attribute(name), name) for name in ("start_indices", "limit_indices"))
    steps = ints_of(op.attributes.get("strides", [1] * len(starts)), "strides")
    if not len(starts) == len(limits) == len(steps) == e.rank(x):
        refuse("SH0007", f"slice: bounds of {len(starts)} axes for an operand of rank {e.rank(x)}")
    axes: list[int] = []
    for axis, (start, limit, step) in enumerate(zip(starts, limits, steps, strict=True)):
        dim = e.dims(x)[axis]
        if not 0 <= start <= limit or step < 1 or (isinstance(dim, int) and limit > dim):
            refuse("SH0007", f"slice: [{start}:{limit}:{step}] is out of range for size {dim} of axis {axis}")
        if start or step != 1 or limit != dim:
            axes.append(axis)
    if not axes:
        return x
    bounds = [e.ints(*[each[axis] for axis in axes]) for each in (starts, limits)]
    stepped = [e.ints(*[steps[axis] for axis in axes])] if any(steps[axis] != 1 for axis in axes) else []
    return e("Slice", x, *bounds, e.ints(*axes), *stepped)


@rule("real_dynamic_slice", moves=True)
def real_dynamic_slice(e: Emitter, op: Operation, x: Value, start: Value, limit: Value, step: Value) -> Value:
    """Take a range of each axis; all bounds are computed."""
    del op
    axes = e.ints(*range(e.rank(x)))
    return e("Slice", x, e.index(start), e.index(limit), axes, e.index(step))


@rule("reverse", moves=True)
def reverse(e: Emitter, op: Operation, x: Value) -> Value:
    """Reverse axes."""
    axes = checked_axes(e, ints_of(op.attribute("dimensions"), "dimensions"), e.rank(x), op)
    return reversed_axes(e, x, axes)


def reversed_axes(e: Emitter, x: Value, axes: Sequence[int]) -> Value:
    """`x` with axes reversed."""
    if not axes:
        return x
    if not 0 <= min(axes) <= max(axes) < e.rank(x):
        refuse("SH0007", f"reverse: axes {list(axes)} are out of range for rank {e.rank(x)}")
    count = len(axes)
    lowest = -(1 << 62)
    return e("Slice", x, e.ints(*[-1] * count), e.ints(*[lowest] * count), e.ints(*axes), e.ints(*[-1] * count))


@rule("pad", moves=True)
def pad(e: Emitter, op: Operation, x: Value, number: Value) -> Value:
    """Pad the edges and between elements; negative padding removes elements."""
    low, high = (ints_of(op.attribute(f"edge_padding_{side}"), "padding") for side in ("low", "high"))
    interior = ints_of(op.attributes.get("interior_padding", [0] * len(low)), "interior_padding")
    if not len(low) == len(high) == len(interior) == e.rank(x) or min(interior, default=0) < 0:
        refuse("SH0007", f"pad: padding of {len(low)} axes for an operand of rank {e.rank(x)}")
    return padded(e, x, number, low, high, interior)


def padded(
    e: Emitter,
    x: Value,
    number: Value,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> Value:
    """Add elements at the edges (negative: crop) and between elements of `x`."""
    for axis, gap in enumerate(interior or []):
        x = insert_gaps(e, x, number, axis, gap)
    before, after = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if any(before) or any(after):
        x = e("Pad", x, e.ints(*before, *after), number)
    for axis, (first, last) in enumerate(zip(low, high, strict=True)):
        if first < 0 or last < 0:
            x = e("Slice", x, e.ints(max(-first, 0)), e.ints(last if last < 0 else 1 << 62), e.ints(axis))
    return x


def insert_gaps(e: Emitter, x: Value, number: Value, axis: int, gap: int) -> Value:
    """`x` with `gap` elements between the elements along an axis."""
    if not gap or e.dims(x)[axis] in (0, 1):
        return x
    rank = e.rank(x)
    apart = e.unsqueeze(x, axis + 1)
    apart = e("Pad", apart, e.ints(*[0] * (rank + 1), *[gap if k == axis + 1 else 0 for k in range(rank + 1)]), number)
    sizes = e.sizes(x)
    length = sizes[axis]
    sizes[axis] = length * (gap + 1) if isinstance(length, int) else e("Mul", length, gap + 1)
    return e("Slice", e.reshape(apart, sizes), e.ints(0), e.ints(-gap), e.ints(axis))


@rule("dynamic_pad", moves=True)
def dynamic_pad(e: Emitter, op: Operation, x: Value, number: Value, low: Value, high: Value, interior: Value) -> Value:
    """Pad by sizes that are computed at run time."""
    gaps = e.must_know(interior, "interior_padding")
    if min(gaps, default=0) < 0 or len(gaps) != e.rank(x):
        refuse("SH0007", f"{op.shown()}: interior padding {gaps} for an operand of rank {e.rank(x)}")
    edges = [e.constant_elements(low), e.constant_elements(high)]
    if edges[0] is not None and edges[1] is not None:
        first, last = ([int(n) for n in edge.reshape(-1)] for edge in edges if edge is not None)
        if not len(first) == len(last) == e.rank(x):
            refuse("SH0007", f"{op.shown()}: padding of {len(first)} axes for an operand of rank {e.rank(x)}")
        return padded(e, x, number, first, last, gaps)
    for axis, gap in enumerate(gaps):
        x = insert_gaps(e, x, number, axis, gap)
    before, after = e.index(low), e.index(high)
    x = e("Pad", x, e("Concat", e("Max", before, 0), e("Max", after, 0), axis=0), number)
    if all(edge is not None and (edge >= 0).all() for edge in edges):
        return x
    starts = e("Max", e("Neg", before), 0)
    ends = e("Add", e("Shape", x), e("Min", after, 0))
    return e("Slice", x, starts, ends, e.ints(*range(e.rank(x))))


def padded_axes(e: Emitter, x: Value, number: Value, padding: Value, axes: Sequence[int]) -> Value:
    """`x` with the edges of `axes` padded, or cut where negative; `padding` is [len(axes), 2], computed at run time."""
    rank = e.rank(x)
    edges = e.transpose(e.index(padding), [1, 0])
    if list(axes) != list(range(rank)):
        columns = e.constant(np.eye(rank, dtype=np.int64)[list(axes)], DType.INT64)
        edges = e("MatMul", edges, columns)
    low, high = (e("Reshape", e.slice(edges, 0, side, side + 1), e.ints(rank)) for side in (0, 1))
    x = e("Pad", x, e("Concat", e("Max", low, 0), e("Max", high, 0), axis=0), number)
    starts = e("Max", e("Neg", low), 0)
    ends = e("Add", e("Shape", x), e("Min", high, 0))
    return e("Slice", x, starts, ends, e.ints(*range(rank)))


# Made of nothing


@rule("iota")
def iota(e: Emitter, op: Operation) -> Held:
    """Count along an axis."""
    axis = int(op.attribute("iota_dimension"))
    shape = [_declared(op, dim) for dim in result_shape(op)]
    checked_axes(e, [axis], len(shape), op)
    return _counted(e, op, axis, list(shape), None)


@rule("dynamic_iota")
def dynamic_iota(e: Emitter, op: Operation, shape: Value) -> Held:
    """Count along an axis of a shape that a run computes."""
    axis = int(op.attribute("iota_dimension"))
    known = e.constant_elements(shape)
    rank = e.static(shape, 0) if e.rank(shape) == 1 else 0
    checked_axes(e, [axis], rank, op)
    if known is not None:
        return _counted(e, op, axis, [int(n) for n in known.reshape(-1)], None)
    wanted = e.index(shape)
    limit = e("Gather", wanted, e.constant(axis, DType.INT64), axis=0)
    return _counted(e, op, axis, [1] * rank, (limit, wanted))


def _counted(e: Emitter, op: Operation, axis: int, shape: list[int], run: tuple[Value, Value] | None) -> Held:
    type = op.result_types[0]
    dtype = element_type(type, DType.INT32)
    if min(shape) < 0:
        refuse("SH0007", f"{op.shown()}: the shape {shape} has a negative dim")
    count = prod(shape)
    if run is None and count <= MAX_FILLED:
        line = np.arange(shape[axis]).reshape([-1 if k == axis else 1 for k in range(len(shape))])
        found = e.constant(np.broadcast_to(line, shape).astype(dtype.numpy), dtype)
    else:
        limit = e.constant(shape[axis], DType.INT64) if run is None else run[0]
        counted = e.cast(e("Range", e.constant(0, DType.INT64), limit, e.constant(1, DType.INT64)), dtype)
        line = e.reshape(counted, [-1 if k == axis else 1 for k in range(len(shape))]) if len(shape) > 1 else counted
        found = e.expand(line, shape) if run is None else (line if len(shape) == 1 else e("Expand", line, run[1]))
        e.counting_axes[found] = axis
    if isinstance(type, TensorType) and type.is_complex:
        return Pair(found, e.expand(e.constant(0, dtype), e.sizes(found)))
    return found


# Sizes


@rule("get_dimension_size")
def get_dimension_size(e: Emitter, op: Operation, x: Held) -> Value:
    """The length of an axis, as int32."""
    axis = int(op.attribute("dimension"))
    value = x.real if isinstance(x, Pair) else x
    if not isinstance(value, Value):
        refuse("SH0007", "get_dimension_size: the operand is not a tensor")
    checked_axes(e, [axis], e.rank(value), op)
    size = e.dim(value, axis)
    if isinstance(size, int):
        return e.constant(size, DType.INT32)
    return e.cast(e("Squeeze", size, e.ints(0)), DType.INT32)


@complex_rule("get_dimension_size")
def complex_dimension_size(e: Emitter, op: Operation, x: Pair) -> Value:
    """The length of an axis of a complex tensor."""
    return get_dimension_size(e, op, x.real)


@rule("set_dimension_size", moves=True)
def set_dimension_size(e: Emitter, op: Operation, x: Value, size: Value) -> Value:
    """Keep the first entries of an axis."""
    axis = int(op.attribute("dimension"))
    checked_axes(e, [axis], e.rank(x), op)
    known = e.scalar(size)
    if known is not None:
        return e.slice(x, axis, 0, int(known))
    return e("Slice", x, e.ints(0), e.reshape(e.index(size), [1]), e.ints(axis))


# Structure


@rule("optimization_barrier", takes_codes=True)
def optimization_barrier(e: Emitter, op: Operation, *xs: Held) -> list[Held]:
    """Return the operands."""
    del e, op
    return list(xs)


@complex_rule("optimization_barrier")
def complex_barrier(e: Emitter, op: Operation, *xs: Held) -> list[Held]:
    """Return the operands."""
    return optimization_barrier(e, op, *xs)


@rule("tuple", takes_codes=True)
def make_tuple(e: Emitter, op: Operation, *xs: Held) -> Held:
    """Combine values to a tuple."""
    del e, op
    return TupleValue(xs)


@rule("get_tuple_element", takes_codes=True)
def get_tuple_element(e: Emitter, op: Operation, x: Held) -> Held:
    """Return one element of a tuple."""
    del e
    ranges = op.attributes.get("ranges")
    index = op.attribute("index") if ranges is None else (ints_of(ranges, "ranges") or [-1])[0]
    if not isinstance(x, TupleValue) or not 0 <= index < len(x.items):
        refuse("SH0007", f"get_tuple_element: index {index} is out of range")
    return x.items[index]

"""Reshaping of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from graphport.core.dims import Dim, Symbolic, bounds, decide_equal
from graphport.core.facts import TensorFact
from graphport.core.sequences import is_sequence
from graphport.formats.pytorch.rules.binding import axes_of, axis_of, emits, integers, scalar_of
from graphport.formats.pytorch.rules.rule_table import PNNX
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.reduction import ReduceProd
from graphport.ops.definitions.reshape import Concat, Flatten, Reshape, Shape, Squeeze, Unsqueeze
from graphport.ops.lowering.operands import transposed, vector

Answer = Value | tuple[Value, ...]


def lengths(b: Builder, shape: Any) -> Value:
    """Return a shape as a tensor: from numbers, tensors of rank 0 or 1, or a list; PNNX's `None` is empty."""
    if shape is None:
        return vector(b, [])
    if isinstance(shape, Value):
        return shape if b.dims(shape) else b(Unsqueeze, shape, [0])
    items = list(shape) if is_sequence(shape) else [shape]
    if not any(isinstance(item, Value) for item in items):
        return vector(b, [int(item) for item in items])
    return b(Concat, *(lengths(b, item) for item in items), axis=0)


def extents(b: Builder, x: Value) -> Value:
    """Return the shape of `x` as a tensor, constant if static."""
    dims = b.dims(x)
    known = [n for n in dims if isinstance(n, int)]
    return vector(b, known) if len(known) == len(dims) else b(Shape, x)


def _keeps_shape(b: Builder, x: Value, target: Sequence[Any]) -> bool:
    """Whether a shape is known to equal that of `x`; one -1 is inferred."""
    dims, entries = b.dims(x), [_shape_element(item) for item in target]
    if len(dims) != len(entries) or sum(isinstance(entry, int) and entry == -1 for entry in entries) > 1:
        return False
    return all(
        entry is not None and (decide_equal(n, entry) is True or (isinstance(entry, int) and entry == -1))
        for n, entry in zip(dims, entries, strict=True)
    )


def _shape_element(item: Any) -> Dim | None:
    if not isinstance(item, Value):
        return int(item)
    found = item.fact.elements if isinstance(item.fact, TensorFact) else None
    return found[0] if found is not None and len(found) == 1 else None


def may_be_zero(dim: Dim | None) -> bool:
    """Whether a size is 0, or depends on data and may be 0."""
    return dim is None or (bounds(dim)[0] or 0) <= 0


def _is_equal(a: Dim, b: Dim | None) -> bool:
    return b is not None and decide_equal(a, b) is True


def _has_zeros(b: Builder, x: Value, shape: Any) -> bool:
    """Whether a size may be 0 that Reshape without `allowzero` would replace by another size of `x`."""
    if not is_sequence(shape):
        return False
    dims = b.dims(x)
    sizes = enumerate(map(_shape_element, shape))
    return any(
        may_be_zero(size) and size != -1 and not (index < len(dims) and _is_equal(dims[index], size))
        for index, size in sizes
    )


def _with_inferred_size(b: Builder, x: Value, target: Sequence[Any]) -> list[Any]:
    """Replace the -1 of `target` if its value is known: ONNX cannot infer it for an empty tensor.

    Example: for a tensor [N, 8] reshaped to (N, -1, 4), N cancels, and -1 is 8 / 4 = 2.
    """
    entries = [_shape_element(item) for item in target]
    if sum(isinstance(entry, int) and entry == -1 for entry in entries) != 1:
        return list(target)
    rest, known = list(b.dims(x)), 1
    for entry in entries:
        if isinstance(entry, int):
            known *= abs(entry)
            continue
        equal = next((n for n in rest if entry is not None and decide_equal(n, entry) is True), None)
        if equal is None:
            return list(target)
        rest.remove(equal)
    sizes = [n for n in rest if isinstance(n, int)]
    if len(sizes) < len(rest) or not known or prod(sizes) % known:
        return list(target)
    inferred = prod(sizes) // known
    return [
        inferred if isinstance(entry, int) and entry == -1 else item
        for entry, item in zip(entries, target, strict=True)
    ]


@emits(
    "Tensor.reshape", "Tensor.view", "torch.reshape", "aten::reshape", "aten::view", "torch.view", "aten::_unsafe_view"
)
def reshape(b: Builder, input: Value, shape: Any = None, size: Any = None) -> Value:
    target = shape if shape is not None else size if size is not None else ()
    if is_sequence(target) and _keeps_shape(b, input, target):
        return input
    if is_sequence(target) and any(isinstance(item, Value) for item in target):
        target = _with_inferred_size(b, input, target)
    return b(Reshape, input, lengths(b, target), allowzero=1 if _has_zeros(b, input, target) else None)


PNNX.lower(
    "Tensor.reshape_as, Tensor.view_as, aten::reshape_as, aten::view_as(input, other) -> Reshape(input, Shape(other))"
)


@emits("nn.Flatten", "torch.flatten", "aten::flatten")
def flatten(b: Builder, input: Value, start_dim: Any = None, end_dim: Any = -1) -> Value:
    rank = len(b.dims(input))
    # The module keeps the batch axis; its writer always states start_dim.
    start = axis_of(scalar_of(start_dim) if start_dim is not None else 0, rank)
    stop = axis_of(scalar_of(end_dim), rank)
    if rank == 0:
        return b(Reshape, input, [1])
    if start == stop:
        return input
    if (start, stop) == (1, rank - 1):
        return b(Flatten, input)
    return merged(b, input, start, stop)


def merged(b: Builder, x: Value, start: int, stop: int) -> Value:
    dims = b.dims(x)
    behind = dims[stop + 1 :]
    if any(isinstance(dim, Symbolic) and may_be_zero(dim) for dim in dims):
        # A size of -1 is ambiguous for an empty tensor.
        own = b(Shape, x, start=start, end=stop + 1)
        parts = [b(Shape, x, start=0, end=start), b(ReduceProd, own), b(Shape, x, start=stop + 1)]
        return b(Reshape, x, b(Concat, *parts, axis=0), allowzero=1)
    if 0 not in dims and not any(isinstance(dim, Symbolic) for dim in behind):
        numbers = [0] * start + [-1] + [int(dim) for dim in behind if isinstance(dim, int)]
        if 0 not in numbers[start:]:
            return b(Reshape, x, numbers)
    sizes = [dim for dim in dims if isinstance(dim, int)]
    if 0 in sizes and len(sizes) == len(dims):
        shape = [*sizes[:start], prod(sizes[start : stop + 1]), *sizes[stop + 1 :]]
        return b(Reshape, x, shape, allowzero=1)
    parts = [b(Shape, x, start=0, end=start), vector(b, [-1]), b(Shape, x, start=stop + 1)]
    return b(Reshape, x, b(Concat, *parts, axis=0))


@emits("nn.Unflatten", "torch.unflatten", "Tensor.unflatten", "aten::unflatten")
def unflatten(b: Builder, input: Value, dim: Any, sizes: Any = None, unflattened_size: Any = None) -> Value:
    rank = len(b.dims(input))
    axis = axis_of(scalar_of(dim), rank)
    parts = sizes if sizes is not None else unflattened_size
    if parts is None:
        message = "the sizes of the unflattened dims are missing"
        raise ShapeError(message)
    shape = [b(Shape, input, start=0, end=axis), lengths(b, parts), b(Shape, input, start=axis + 1)]
    others = [*b.dims(input)[axis + 1 :], *(map(_shape_element, parts) if is_sequence(parts) else ())]
    has_zeros = any(may_be_zero(dim) and dim != -1 for dim in others)
    return b(Reshape, input, b(Concat, *shape, axis=0), allowzero=1 if has_zeros else None)


@emits("torch.squeeze", "aten::squeeze", "Tensor.squeeze")
def squeeze(b: Builder, input: Value, dim: Any = None) -> Value:
    """Squeeze; axes of another size than 1 are unchanged."""
    dims = b.dims(input)
    axes = axes_of(dim, len(dims)) if dim is not None else tuple(range(len(dims)))
    if any(isinstance(dims[axis], Symbolic) for axis in axes if dims):
        message = "unknown dim: it may be 1"
        raise UnsupportedError(message)
    chosen = [axis for axis in axes if dims and dims[axis] == 1]
    return b(Squeeze, input, chosen) if chosen else input


def _new_axis(b: Builder, place: Any, x: Value) -> int:
    """Normalize the index of an axis that is inserted."""
    return axis_of(scalar_of(place), len(b.dims(x)) + 1)


PNNX.having(new_axis=_new_axis).lower(
    "torch.unsqueeze, aten::unsqueeze, Tensor.unsqueeze(input, dim) -> Unsqueeze(input, [new_axis(dim, input)])"
)


@emits("torch.transpose", "aten::transpose", "torch.swapaxes", "torch.swapdims", "aten::swapaxes")
def transpose(b: Builder, input: Value, dim0: Any, dim1: Any) -> Value:
    rank = len(b.dims(input))
    order = list(range(rank))
    i, j = axis_of(scalar_of(dim0), rank), axis_of(scalar_of(dim1), rank)
    order[i], order[j] = order[j], order[i]
    return transposed(b, input, order)


@emits("torch.t", "aten::t", "Tensor.t", "aten::numpy_T")
def t(b: Builder, input: Value) -> Value:
    return transposed(b, input, range(len(b.dims(input)))[::-1])


PNNX.lower("aten::mT, Tensor.mT, aten::mH, aten::adjoint(input) -> torch.transpose(input, -2, -1)")


@emits("Tensor.permute", "torch.permute", "aten::permute")
def permute(b: Builder, input: Value, dims: Any) -> Value:
    rank = len(b.dims(input))
    order = [axis_of(axis, rank) for axis in integers(dims)]
    if sorted(order) != list(range(rank)):
        message = f"{order} is not a permutation of {rank} axes"
        raise ShapeError(message)
    return transposed(b, input, order)


@emits("torch.movedim", "torch.moveaxis", "aten::movedim")
def movedim(b: Builder, input: Value, source: Any, destination: Any) -> Value:
    rank = len(b.dims(input))
    destinations = [axis_of(axis, rank) for axis in integers(destination)]
    taken = dict(zip(destinations, (axis_of(axis, rank) for axis in integers(source)), strict=True))
    rest = iter([axis for axis in range(rank) if axis not in taken.values()])
    return transposed(b, input, [taken[place] if place in taken else next(rest) for place in range(rank)])
